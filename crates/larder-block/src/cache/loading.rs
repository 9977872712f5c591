//! Loads the metadata that a start has found, while requests are served
//! ([`Layout::load_part`](crate::layout::Layout::load_part)).
//!
//! A request loads the parts that it needs when it arrives. [`Cache::work`] loads the rest part by part, within the
//! time in [`CacheOptions::load_time`](super::CacheOptions). The cleaning of a whole core needs all parts; while one
//! waits, loading goes on without a pause.

use std::time::Duration;

use super::state::Cache;

/// Most parts that one call loads, if `work` was not called for long.
const PARTS_AT_ONCE: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Loading {
    /// When the loading began, and the number of parts then.
    began: Option<(Duration, usize)>,
    /// Cleanings of whole cores that wait until all parts are loaded.
    waiting: Vec<usize>,
}

impl Cache {
    /// The number of parts that are not loaded yet.
    pub fn unloaded_parts(&self) -> usize {
        self.layout.unloaded_parts()
    }

    /// Loads the parts that are due. Returns when the next part is due.
    pub(super) fn go_on_loading(&mut self) -> Option<Duration> {
        let left = self.layout.unloaded_parts();
        let (began, total) = match self.loading.began {
            Some(began) => began,
            None if left == 0 => return None,
            None => *self.loading.began.insert((self.now, left)),
        };
        let time = self.options.load_time;
        let pace = time / u32::try_from(total).unwrap_or(u32::MAX);
        let due = match (self.now - began).as_nanos().checked_div(pace.as_nanos()) {
            Some(parts) => usize::try_from(parts).unwrap_or(usize::MAX),
            None => usize::MAX,
        };
        let loaded = total.saturating_sub(left);
        let parts = due.saturating_sub(loaded).clamp(1, PARTS_AT_ONCE);
        (0..parts).for_each(|_| self.layout.load_part());
        self.hear_of_loaded();
        if self.layout.unloaded_parts() == 0 {
            self.loading.began = None;
            return None;
        }
        let is_late = !self.loading.waiting.is_empty() || due > loaded + parts;
        Some(if is_late { self.now } else { self.now + pace })
    }

    /// Tells the cleaning policy about loaded dirty data.
    fn hear_of_loaded(&mut self) {
        for dirty in self.layout.take_loaded_dirty() {
            // Dirty data of a missing core stays here.
            if !self.missing.contains(&dirty.core) {
                self.cleaning.found_dirty(dirty);
            }
        }
    }

    /// Lets the cleaning of a core wait until all parts are loaded.
    pub(super) fn clean_when_loaded(&mut self, key: usize) {
        self.loading.waiting.push(key);
    }

    /// Begins the waiting cleanings if all parts are loaded. If `work` is never called, nothing else would load them:
    /// then this loads all parts here, unless an I/O is in flight whose completion causes the next turn.
    pub(super) fn begin_loaded(&mut self) {
        if self.loading.waiting.is_empty() || self.held.is_some() {
            return;
        }
        let is_told_the_time = self.loading.began.is_some();
        while !is_told_the_time && self.layout.unloaded_parts() > 0 {
            self.layout.load_part();
            if !self.ios.is_empty() {
                break;
            }
        }
        if self.layout.unloaded_parts() > 0 {
            return;
        }
        self.hear_of_loaded();
        for key in std::mem::take(&mut self.loading.waiting) {
            self.begin_cleaning(key);
        }
    }
}
