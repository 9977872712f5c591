//! Values between Python and bytes. The flags of an item say what its bytes are.

use std::ops::Deref;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyByteArray, PyBytes, PyInt, PyMemoryView, PyString};

use crate::errors;

/// `bytes`. The values below 32 are those of pymemcache and python-memcached.
const BYTES: u32 = 0;
const PICKLE: u32 = 1;
/// Decimal text, so that the cache itself counts.
pub(crate) const INTEGER: u32 = 2;
const LONG: u32 = 4;
/// UTF-8.
const TEXT: u32 = 16;
const JSON: u32 = 32;
/// Bytes of a codec of the program's own.
const OWN: u32 = 64;

/// Longer values are copied without the interpreter's lock.
pub(crate) const ATTACHED_BYTES_MAX: usize = 256 << 10;

/// Which values a codec writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Bytes alone.
    Bytes,
    /// All but bytes, texts and numbers, which need no codec.
    Rest,
    /// All but numbers.
    All,
}

/// The codec of a cache.
pub(crate) struct Codec {
    kind: Kind,
    flags: u32,
    name: String,
    /// From an object to `bytes`, and back; `None` in a codec of bytes alone.
    functions: Option<(Py<PyAny>, Py<PyAny>)>,
}

/// A value as bytes that outlive the interpreter's lock.
pub(crate) enum Encoded {
    Bytes(PyBackedBytes),
    Text(PyBackedStr),
    Own(Vec<u8>),
}

impl Deref for Encoded {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Text(text) => text.as_bytes(),
            Self::Own(bytes) => bytes,
        }
    }
}

/// A value that was read: an object, or bytes that a codec has to read. Codecs may run any code, so they do not run
/// while the cache shows the bytes.
pub(crate) enum Decoded<'py> {
    Object(Bound<'py, PyAny>),
    Coded(Bound<'py, PyBytes>, u32),
}

impl Codec {
    /// The codec that the package describes: its name, and the functions.
    pub(crate) fn new(name: String, functions: Option<(Py<PyAny>, Py<PyAny>)>) -> Self {
        let (kind, flags) = match name.as_str() {
            "bytes" => (Kind::Bytes, BYTES),
            "pickle" => (Kind::Rest, PICKLE),
            "json" => (Kind::Rest, JSON),
            _ => (Kind::All, OWN),
        };
        Self { kind, flags, name, functions }
    }

    /// The bytes and the flags of a value.
    #[inline]
    pub(crate) fn encode(&self, value: &Bound<'_, PyAny>) -> PyResult<(Encoded, u32)> {
        if self.kind != Kind::All
            && let Ok(bytes) = value.cast_exact::<PyBytes>()
        {
            return Ok((Encoded::Bytes(bytes.clone().into()), BYTES));
        }
        match self.kind {
            Kind::Bytes => Ok((buffer(value)?, BYTES)),
            Kind::Rest | Kind::All => self.encode_object(value),
        }
    }

    fn encode_object(&self, value: &Bound<'_, PyAny>) -> PyResult<(Encoded, u32)> {
        if value.is_exact_instance_of::<PyInt>()
            && let Ok(number) = value.extract::<i64>()
        {
            return Ok((Encoded::Own(number.to_string().into_bytes()), INTEGER));
        }
        if self.kind == Kind::Rest {
            if value.is_exact_instance_of::<PyString>() {
                // A text with lone surrogates has no UTF-8: the codec writes it.
                if let Ok(text) = value.extract::<PyBackedStr>() {
                    return Ok((Encoded::Text(text), TEXT));
                }
            } else if value.is_instance_of::<PyByteArray>()
                || value.is_instance_of::<PyMemoryView>()
            {
                return Ok((buffer(value)?, BYTES));
            }
        }
        let Some((dumps, _)) = &self.functions else {
            return Err(PyTypeError::new_err("a codec without functions writes bytes alone"));
        };
        let coded = dumps.bind(value.py()).call1((value,))?;
        let coded = coded.cast_into::<PyBytes>().map_err(|error| {
            let kind = error.into_inner().get_type();
            PyTypeError::new_err(format!("codec {}: dumps gave {kind}, not bytes", self.name))
        })?;
        Ok((Encoded::Bytes(coded.into()), self.flags))
    }

    /// Reads a value as far as that runs no code of others.
    #[inline]
    pub(crate) fn decode<'py>(
        &self,
        py: Python<'py>,
        value: &[u8],
        flags: u32,
    ) -> PyResult<Decoded<'py>> {
        let is_coded = flags != BYTES && self.kind != Kind::Bytes;
        if is_coded && matches!(flags, INTEGER | LONG) {
            return number(py, value).map(Decoded::Object);
        }
        if is_coded && flags == TEXT {
            return Ok(Decoded::Object(PyString::from_bytes(py, value)?.into_any()));
        }
        let bytes = copied(py, value)?;
        Ok(if is_coded { Decoded::Coded(bytes, flags) } else { Decoded::Object(bytes.into_any()) })
    }

    /// The object.
    #[inline]
    pub(crate) fn finish<'py>(&self, decoded: Decoded<'py>) -> PyResult<Bound<'py, PyAny>> {
        match decoded {
            Decoded::Object(object) => Ok(object),
            Decoded::Coded(bytes, flags) => self.load(&bytes, flags),
        }
    }

    /// Reads a value that the caller holds.
    pub(crate) fn read<'py>(
        &self,
        py: Python<'py>,
        value: &larder::Value,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.finish(self.decode(py, value, value.flags())?)
    }

    fn load<'py>(&self, bytes: &Bound<'py, PyBytes>, flags: u32) -> PyResult<Bound<'py, PyAny>> {
        let py = bytes.py();
        if let Some((_, loads)) = self.functions.as_ref().filter(|_| flags == self.flags) {
            return loads.bind(py).call1((bytes,));
        }
        let of = match flags {
            PICKLE => "codec='pickle'",
            JSON => "codec='json'",
            OWN => "a codec of a program's own",
            _ => "another program",
        };
        let message = format!(
            "the value was written by {of} (flags {flags}), and this cache has codec={:?}: open it with the codec that \
             wrote it, or delete the value",
            self.name
        );
        Err(errors::new(py, "CodecError", message))
    }
}

/// The bytes of an object with the buffer protocol.
fn buffer(value: &Bound<'_, PyAny>) -> PyResult<Encoded> {
    let py = value.py();
    let refused = |_| {
        let kind = value.get_type();
        PyTypeError::new_err(format!(
            "value of {kind}: codec='bytes' takes bytes and contiguous buffers; encode it, or open the cache with \
             another codec"
        ))
    };
    // Another thread may write to a buffer while the cache reads it, so it is copied.
    let bytes = match PyBuffer::<u8>::get(value) {
        Ok(bytes) => bytes.to_vec(py)?,
        Err(_) => {
            let view = PyMemoryView::from(value).map_err(refused)?;
            let view = view.call_method1("cast", ("B",)).map_err(refused)?;
            PyBuffer::<u8>::get(&view)?.to_vec(py)?
        }
    };
    Ok(Encoded::Own(bytes))
}

/// A number from its decimal text.
fn number<'py>(py: Python<'py>, text: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match decimal(text) {
        Some(number) => Ok(number.into_pyobject(py)?.into_any()),
        None => py.get_type::<PyInt>().call1((PyBytes::new(py, text),)),
    }
}

/// The number of a decimal text that has at most 64 bits.
pub(crate) fn decimal(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A copy as `bytes`.
fn copied<'py>(py: Python<'py>, value: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    if value.len() <= ATTACHED_BYTES_MAX {
        return Ok(PyBytes::new(py, value));
    }
    PyBytes::new_with(py, value.len(), |room| {
        py.detach(|| room.copy_from_slice(value));
        Ok(())
    })
}
