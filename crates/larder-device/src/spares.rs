//! Memory of requests that have ended, kept for those to come: a request then allocates nothing.

use std::cell::RefCell;
use std::sync::Arc;

/// So many are kept by a thread; more were in flight at once only for a moment.
const KEPT_MAX: usize = 128;

/// What one thread keeps.
pub(crate) struct Spares<T>(RefCell<Vec<Arc<T>>>);

impl<T: Default> Spares<T> {
    pub(crate) const fn new() -> Self {
        Self(RefCell::new(Vec::new()))
    }

    /// One that nobody else holds.
    pub(crate) fn take(&self) -> Arc<T> {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    /// Keeps `spare`, which nobody else holds.
    pub(crate) fn keep(&self, spare: Arc<T>) {
        debug_assert_eq!(Arc::strong_count(&spare), 1);
        let mut kept = self.0.borrow_mut();
        if kept.len() < KEPT_MAX {
            kept.push(spare);
        }
    }
}
