//! Errors of the cache as exceptions. The classes are in `larder/errors.py`, because most have two parents: ours, and
//! the one that Python's own containers and files would raise.

use larder::{ErrorKind, FetchError};
use pyo3::prelude::*;
use pyo3::types::PyType;

/// An exception of this class of `larder.errors`.
#[cold]
pub(crate) fn new(py: Python<'_>, class: &str, message: impl Into<String>) -> PyErr {
    let found = py.import("larder.errors").and_then(|module| module.getattr(class));
    match found.and_then(|class| class.cast_into::<PyType>().map_err(PyErr::from)) {
        Ok(class) => PyErr::from_type(class, message.into()),
        Err(error) => error,
    }
}

/// An error of the cache.
#[cold]
pub(crate) fn of_cache(py: Python<'_>, error: &larder::Error) -> PyErr {
    let class = match error.kind() {
        ErrorKind::Config => "ConfigError",
        ErrorKind::InvalidInput => "InvalidInputError",
        ErrorKind::Busy => "BusyError",
        ErrorKind::Device => "DeviceError",
        ErrorKind::InUse => "InUseError",
        ErrorKind::Foreign => "ForeignError",
        ErrorKind::Closed => return closed(py),
        _ => "Error",
    };
    new(py, class, error.to_string())
}

/// An error of a call that had to make its value: what the maker raised comes back as it was.
#[cold]
pub(crate) fn of_fetch(py: Python<'_>, error: &FetchError) -> PyErr {
    match error {
        FetchError::Cache(error) => of_cache(py, error),
        FetchError::Fetch(error) => match error.downcast_ref::<PyErr>() {
            Some(raised) => raised.clone_ref(py),
            None => new(py, "Error", error.to_string()),
        },
    }
}

/// A call of a cache that was closed.
#[cold]
pub(crate) fn closed(py: Python<'_>) -> PyErr {
    new(py, "ClosedError", "the cache is closed; open it again with larder.Cache(…)")
}
