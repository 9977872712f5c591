//! Large objects that are dead wherever they are: after a crash, until all regions have been read, the place of an
//! older version is not known.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// First valid filling, by hash; `None` if all places are known.
#[derive(Debug, Default)]
pub(crate) struct LostFillings(Mutex<Option<HashMap<u64, u64>>>);

/// Read access to all of them: nothing is added while this is held.
pub(crate) struct Firsts<'a>(MutexGuard<'a, Option<HashMap<u64, u64>>>);

impl Firsts<'_> {
    /// The first valid filling for large objects of this hash; 0 if any may be valid.
    pub(crate) fn of(&self, hash: u64) -> u64 {
        self.0.as_ref().and_then(|lost| lost.get(&hash)).copied().unwrap_or(0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(HashMap::is_empty)
    }
}

impl LostFillings {
    /// Starts with these hashes: a crash has left unread regions.
    pub(crate) fn begin(&self, inherited: HashMap<u64, u64>) {
        let before = self.lock().replace(inherited);
        debug_assert!(before.is_none(), "an opening begins once to look for what a crash has left");
    }

    /// Ends the list: all places are known.
    pub(crate) fn end(&self) {
        *self.lock() = None;
    }

    /// Whether hashes are still added.
    pub(super) fn is_open(&self) -> bool {
        self.lock().is_some()
    }

    /// Adds a hash. Returns whether that is new. `None` if all places are known.
    pub(crate) fn add(&self, hash: u64, before: u64) -> Option<bool> {
        let mut lost = self.lock();
        let first = lost.as_mut()?.entry(hash).or_insert(0);
        debug_assert!(before > 0, "no filling is before the first");
        let is_new = *first < before;
        *first = before.max(*first);
        Some(is_new)
    }

    pub(super) fn needs(&self, hash: u64, before: u64) -> bool {
        self.lock().as_ref().is_some_and(|lost| lost.get(&hash) == Some(&before))
    }

    pub(super) fn len(&self) -> u64 {
        self.lock().as_ref().map_or(0, HashMap::len) as u64
    }

    pub(crate) fn firsts(&self) -> Firsts<'_> {
        Firsts(self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Option<HashMap<u64, u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_counts_until_all_is_found() {
        let lost = LostFillings::default();
        assert_eq!(lost.add(1, 9), None, "nothing is unknown");
        lost.begin(HashMap::from([(1, 5), (2, 5)]));
        assert_eq!(
            (lost.add(1, 9), lost.add(1, 9), lost.add(3, 9)),
            (Some(true), Some(false), Some(true))
        );
        assert_eq!([1, 2, 3, 4].map(|hash| lost.firsts().of(hash)), [9, 5, 9, 0]);
        assert!(lost.needs(1, 9) && !lost.needs(1, 5) && lost.needs(2, 5) && lost.len() == 3);
        lost.end();
        assert!(!lost.needs(1, 9) && lost.firsts().is_empty() && lost.add(1, 9).is_none());
    }
}
