//! Columns of a recorded workload as requests.

use std::sync::Arc;

use larder_workload::{Op, Request};
use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use xxhash_rust::xxh3::xxh3_64;

use crate::arguments::Key;

/// Bytes of a key, if the key is a number.
const KEY_BYTES: u32 = 16;

/// A workload in memory.
#[pyclass(frozen, module = "larder._larder")]
pub(crate) struct Recorded {
    pub(super) requests: Arc<[Request]>,
}

#[pymethods]
impl Recorded {
    /// From columns of one length. `ops`: "get", "set", "delete"; without it all are gets, whose misses are filled.
    /// `times` and `ttls` are in seconds.
    #[new]
    #[pyo3(signature = (keys, sizes, ops = None, times = None, ttls = None))]
    fn new(
        keys: &Bound<'_, PyAny>,
        sizes: &Bound<'_, PyAny>,
        ops: Option<&Bound<'_, PyAny>>,
        times: Option<&Bound<'_, PyAny>>,
        ttls: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let keys = keys_of(keys)?;
        let sizes = numbers("sizes", sizes)?;
        let times = times.map(|column| numbers("times", column)).transpose()?;
        let ttls = ttls.map(|column| numbers("ttls", column)).transpose()?;
        let ops = ops.map(ops_of).transpose()?;
        let count = keys.len();
        same_length("sizes", sizes.len(), count)?;
        for (name, column) in [("times", &times), ("ttls", &ttls)] {
            same_length(name, column.as_ref().map_or(count, Vec::len), count)?;
        }
        same_length("ops", ops.as_ref().map_or(count, Vec::len), count)?;
        let begin = times.as_ref().and_then(|times| times.first().copied()).unwrap_or(0);
        let of = |column: &Option<Vec<u64>>, at: usize| {
            column.as_ref().and_then(|column| column.get(at).copied()).unwrap_or(0)
        };
        let request = |(at, ((key, key_bytes), size)): (usize, ((u64, u32), u64))| Request {
            time_s: short(of(&times, at).saturating_sub(begin)),
            key,
            key_bytes,
            value_bytes: short(size),
            op: ops.as_ref().and_then(|ops| ops.get(at).copied()).unwrap_or(Op::Get),
            ttl_s: short(of(&ttls, at)),
        };
        let requests = keys.into_iter().zip(sizes).enumerate().map(request).collect();
        Ok(Self { requests })
    }

    fn __len__(&self) -> usize {
        self.requests.len()
    }
}

fn short(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn same_length(name: &str, length: usize, keys: usize) -> PyResult<()> {
    if length == keys {
        return Ok(());
    }
    let message = format!("{name} has {length} entries, and keys has {keys}: must be the same");
    Err(PyValueError::new_err(message))
}

/// The identity and the length of each key.
fn keys_of(column: &Bound<'_, PyAny>) -> PyResult<Vec<(u64, u32)>> {
    if let Some(numbers) = of_buffer(column)? {
        return Ok(numbers.into_iter().map(|number| (number, KEY_BYTES)).collect());
    }
    let key = |key: Bound<'_, PyAny>| match key.extract::<Key<'_>>() {
        Ok(Key(bytes)) => Ok((xxh3_64(bytes), short(bytes.len() as u64))),
        Err(_) => Ok((number("keys", &key)?, KEY_BYTES)),
    };
    column.try_iter()?.map(|entry| key(entry?)).collect()
}

fn numbers(name: &str, column: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    match of_buffer(column)? {
        Some(numbers) => Ok(numbers),
        None => column.try_iter()?.map(|entry| number(name, &entry?)).collect(),
    }
}

/// A number that is not negative; a float is rounded down.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked; `as` saturates
fn number(name: &str, entry: &Bound<'_, PyAny>) -> PyResult<u64> {
    if let Ok(number) = entry.extract::<u64>() {
        return Ok(number);
    }
    match entry.extract::<f64>() {
        Ok(number) if number >= 0.0 => Ok(number as u64),
        _ => {
            let shown = entry.repr().map_or_else(|_| "?".to_owned(), |repr| repr.to_string());
            Err(PyValueError::new_err(format!("{name}: {shown} is not a number of at least 0")))
        }
    }
}

/// The numbers of an array, without an object for each.
fn of_buffer(column: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u64>>> {
    fn read<T: Element>(column: &Bound<'_, PyAny>) -> Option<PyResult<Vec<T>>> {
        Some(PyBuffer::<T>::get(column).ok()?.to_vec(column.py()))
    }
    if let Some(numbers) = read::<u64>(column) {
        return numbers.map(Some);
    }
    if let Some(numbers) = read::<u32>(column) {
        return Ok(Some(numbers?.into_iter().map(u64::from).collect()));
    }
    if let Some(numbers) = read::<i64>(column) {
        let whole = numbers?.into_iter().map(u64::try_from).collect::<Result<_, _>>();
        let negative = |_| PyValueError::new_err("a column has a number below 0");
        return whole.map(Some).map_err(negative);
    }
    Ok(None)
}

fn ops_of(column: &Bound<'_, PyAny>) -> PyResult<Vec<Op>> {
    let op = |entry: Bound<'_, PyAny>| {
        let word = entry.cast_into::<PyString>().map_err(PyErr::from)?.to_string();
        match word.to_ascii_lowercase().as_str() {
            "get" | "gets" => Ok(Op::Get),
            "set" | "add" | "replace" | "cas" => Ok(Op::Set),
            "delete" => Ok(Op::Delete),
            _ => Err(PyValueError::new_err(format!("ops: {word:?} is none of get, set, delete"))),
        }
    };
    column.try_iter()?.map(|entry| op(entry?)).collect()
}
