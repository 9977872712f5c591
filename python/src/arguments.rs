//! Arguments of calls: keys and lifetimes.

use std::time::Duration;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyEllipsis, PyString};

/// A key: `bytes`, or the UTF-8 of a `str`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key<'a>(pub(crate) &'a [u8]);

impl<'a, 'py> FromPyObject<'a, 'py> for Key<'a> {
    type Error = PyErr;

    #[inline]
    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if given.is_instance_of::<PyString>() {
            Ok(Self(given.extract::<&str>()?.as_bytes()))
        } else if given.is_instance_of::<PyBytes>() {
            Ok(Self(given.extract::<&[u8]>()?))
        } else {
            Err(refused_key(&given))
        }
    }
}

#[cold]
fn refused_key(given: &Bound<'_, PyAny>) -> PyErr {
    let shown = given.repr().map_or_else(|_| "?".to_owned(), |repr| repr.to_string());
    PyTypeError::new_err(format!("key={shown}: must be str or bytes; use str(key)"))
}

/// How long a value lives, as a caller says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// Not said: that of the cache.
    Usual,
    /// `None`.
    Endless,
    /// Seconds, or a `timedelta`. Zero, or less, is over at once.
    For(Duration),
}

impl Lifetime {
    /// The lifetime in a cache whose usual one is `usual`.
    #[inline]
    pub(crate) fn in_cache(self, usual: Option<Duration>) -> Option<Duration> {
        match self {
            Self::Usual => usual,
            Self::Endless => None,
            Self::For(time) => Some(time),
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for Lifetime {
    type Error = PyErr;

    #[inline]
    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if given.is_none() {
            return Ok(Self::Endless);
        }
        if let Ok(seconds) = given.extract::<f64>() {
            return of_seconds(seconds);
        }
        if given.is_instance_of::<PyEllipsis>() {
            return Ok(Self::Usual);
        }
        match given.call_method0("total_seconds").and_then(|seconds| seconds.extract::<f64>()) {
            Ok(seconds) => of_seconds(seconds),
            Err(_) => Err(refused_lifetime(&given)),
        }
    }
}

fn of_seconds(seconds: f64) -> PyResult<Lifetime> {
    if seconds.is_nan() {
        return Err(PyValueError::new_err("ttl=nan: must be a number of seconds, or None"));
    }
    // More than can be counted is for ever.
    let time = Duration::try_from_secs_f64(seconds.max(0.0));
    Ok(time.map_or(Lifetime::Endless, Lifetime::For))
}

#[cold]
fn refused_lifetime(given: &Bound<'_, PyAny>) -> PyErr {
    let shown = given.repr().map_or_else(|_| "?".to_owned(), |repr| repr.to_string());
    PyTypeError::new_err(format!(
        "ttl={shown}: must be seconds (int or float), a datetime.timedelta, or None (for ever)"
    ))
}
