//! Forks. A child has the parent's memory, but not its threads, and a lock that another thread held at the fork is held
//! for ever: so nothing that the parent opened may be used, or closed, in the child.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;

use crate::errors;

/// The number of forks between the first process and this one.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Tells that this process is a child. The package has Python call this after each fork, in the child.
#[pyfunction]
pub(crate) fn note_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// The process in which an object was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Birthplace(u64);

impl Birthplace {
    /// This process.
    pub(crate) fn here() -> Self {
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Whether this is still that process.
    #[inline]
    pub(crate) fn is_here(self) -> bool {
        self == Self::here()
    }

    /// Refuses a call in a child.
    #[inline]
    pub(crate) fn check(self, py: Python<'_>) -> PyResult<()> {
        if self.is_here() { Ok(()) } else { Err(refused(py)) }
    }
}

#[cold]
fn refused(py: Python<'_>) -> PyErr {
    let message = "this cache was opened before the fork, and the threads that it needs stayed in the parent: open it \
                   in the child (gunicorn: post_fork; Celery: worker_process_init; multiprocessing: the initializer), \
                   with path='…-{worker}' a file for each worker, or share one cache by `larder serve` and \
                   larder.Client";
    errors::new(py, "ForkedError", message)
}
