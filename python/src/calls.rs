//! The calls that are more than one call of the cache, and the answers of all calls as Python objects.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use larder::{Change, FetchError, Flushed, Larder, SetOptions, Value};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::codec::{self, Codec, Encoded};
use crate::errors;
use crate::view::View;

/// A call of an event loop.
pub(crate) type Call = Pin<Box<dyn Future<Output = Result<Answer, Failure>> + Send>>;

/// What the cache answers.
pub(crate) enum Answer {
    Nothing,
    Flushed(Flushed),
    Flag(bool),
    Number(usize),
    Counted(Counted),
    Value(Option<Value>),
    /// A value that the caller wants to see in place.
    Seen(Option<Value>),
    Values(Vec<Option<Value>>),
}

/// Why there is no answer.
pub(crate) enum Failure {
    Cache(larder::Error),
    Fetch(FetchError),
}

impl From<larder::Error> for Failure {
    fn from(error: larder::Error) -> Self {
        Self::Cache(error)
    }
}

impl Failure {
    pub(crate) fn raised(&self, py: Python<'_>) -> PyErr {
        match self {
            Self::Cache(error) => errors::of_cache(py, error),
            Self::Fetch(error) => errors::of_fetch(py, error),
        }
    }
}

/// What the caller gave, and the answer needs.
pub(crate) enum Asked {
    Plainly,
    /// With this answer to a miss.
    Or(Py<PyAny>),
    /// For this key, whose absence is an error.
    Key(Py<PyAny>),
    Keys(Vec<Py<PyAny>>),
}

/// The outcome of [`count`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    Sum(i64),
    Missing,
    NotANumber,
    TooLarge,
}

impl Counted {
    /// The sum, or the exception.
    pub(crate) fn told(self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<i64> {
        let refused = |why: &str| {
            let shown = key.repr().map_or_else(|_| "?".to_owned(), |repr| repr.to_string());
            Err(errors::new(py, "InvalidInputError", format!("key={shown}: {why}")))
        };
        match self {
            Self::Sum(sum) => Ok(sum),
            Self::Missing => Err(PyKeyError::new_err(key.clone().unbind())),
            Self::NotANumber => {
                refused("its value is not an int of at most 64 bits; set it to one")
            }
            Self::TooLarge => refused("the sum would be beyond 64 bits with sign; set it anew"),
        }
    }
}

/// Adds `delta` to a number, in one step. A missing one begins at `default`, if there is one, with this lifetime.
pub(crate) async fn count(
    cache: &Larder,
    key: &[u8],
    (delta, default): (i64, Option<i64>),
    ttl: Option<Duration>,
) -> Result<Counted, larder::Error> {
    let mut outcome = Counted::Missing;
    let counted = |current: Option<&Value>| {
        let number = match current {
            Some(value) => codec::decimal(value).ok_or(Counted::NotANumber),
            None => default.ok_or(Counted::Missing),
        };
        let sum = number.and_then(|it| it.checked_add(delta).ok_or(Counted::TooLarge));
        outcome = sum.map_or_else(|refused| refused, Counted::Sum);
        let Ok(sum) = sum else { return Change::Keep };
        let text = sum.to_string().into_bytes().into();
        match current {
            Some(_) => Change::StoreKeepingExpiry(text),
            None => {
                let flags = codec::INTEGER;
                Change::Store(text, SetOptions { ttl, flags, ..SetOptions::default() })
            }
        }
    };
    cache.update(key, counted).await?;
    Ok(outcome)
}

/// Removes a value, and returns it, in one step.
pub(crate) async fn pop(cache: &Larder, key: &[u8]) -> Result<Option<Value>, larder::Error> {
    cache.update(key, |_| Change::Touch(Some(Duration::ZERO))).await
}

/// Sets one item after the other.
pub(crate) async fn set_many(
    cache: &Larder,
    items: &[(Vec<u8>, Encoded, u32)],
    ttl: Option<Duration>,
) -> Result<(), larder::Error> {
    for (key, value, flags) in items {
        let options = SetOptions { ttl, flags: *flags, ..SetOptions::default() };
        cache.set_with(key, value, options).await?;
    }
    Ok(())
}

/// Deletes one key after the other. Returns the number of those that were there.
pub(crate) async fn delete_many(cache: &Larder, keys: &[Vec<u8>]) -> Result<usize, larder::Error> {
    let mut deleted = 0;
    for key in keys {
        deleted += usize::from(cache.delete(key).await?);
    }
    Ok(deleted)
}

/// What a flush has done.
pub(crate) fn flushed_objects(py: Python<'_>, flushed: Flushed) -> PyResult<Bound<'_, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("objects", flushed.objects)?;
    told.set_item("bytes", flushed.bytes)?;
    told.set_item("refused", flushed.refused)?;
    told.set_item("lost", flushed.lost)?;
    Ok(told)
}

/// The answer as an object.
pub(crate) fn told(
    py: Python<'_>,
    codec: &Codec,
    asked: Asked,
    answer: Answer,
) -> PyResult<Py<PyAny>> {
    Ok(match (answer, asked) {
        (Answer::Nothing, _) => py.None(),
        (Answer::Flushed(flushed), _) => flushed_objects(py, flushed)?.into_any().unbind(),
        (Answer::Flag(flag), _) => flag.into_pyobject(py)?.to_owned().into_any().unbind(),
        (Answer::Number(number), _) => number.into_pyobject(py)?.into_any().unbind(),
        (Answer::Counted(counted), Asked::Key(key)) => {
            counted.told(py, key.bind(py))?.into_pyobject(py)?.into_any().unbind()
        }
        (Answer::Value(Some(value)), _) => codec.read(py, &value)?.unbind(),
        (Answer::Seen(Some(value)), _) => View::of(py, value)?.into_any().unbind(),
        (Answer::Value(None) | Answer::Seen(None), Asked::Or(default)) => default,
        (Answer::Value(None), Asked::Key(key)) => return Err(PyKeyError::new_err(key)),
        (Answer::Values(values), Asked::Keys(keys)) => {
            let found = PyDict::new(py);
            for (key, value) in keys.into_iter().zip(values) {
                if let Some(value) = value {
                    found.set_item(key, codec.read(py, &value)?)?;
                }
            }
            found.into_any().unbind()
        }
        (Answer::Value(None) | Answer::Seen(None), _) => py.None(),
        (Answer::Counted(_) | Answer::Values(_), _) => {
            return Err(errors::new(py, "Error", "the call was made without its keys"));
        }
    })
}
