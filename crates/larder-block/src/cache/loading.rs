//! Loads the metadata that a start has found, while requests are served
//! ([`Layout::load_part`](crate::layout::Layout::load_part)).
//!
//! A request loads the parts that it needs when it arrives. [`Cache::work`] loads the rest part by part, within the
//! time in [`CacheOptions::load_time`](super::CacheOptions). The cleaning of a whole core needs all parts; while one
//! waits, loading goes on without a pause.

use std::time::Duration;

use super::state::Cache;

impl Cache {
    /// The number of parts that are not loaded yet.
    pub fn unloaded_parts(&self) -> usize {
        self.layout.unloaded_parts()
    }

    /// Loads the parts that are due. Returns when the next part is due.
    pub(super) fn go_on_loading(&mut self) -> Option<Duration> {
        let left = self.layout.unloaded_parts();
        let due = self.loading.due(left, self.now, self.options.load_time)?;
        (0..due.parts).for_each(|_| self.layout.load_part());
        self.hear_of_loaded();
        if self.layout.unloaded_parts() == 0 {
            self.loading.end();
            return None;
        }
        let is_late = due.is_behind || self.loading.is_awaited();
        Some(if is_late { self.now } else { self.now + due.pace })
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
        self.loading.wait(key);
    }

    /// Begins the waiting cleanings if all parts are loaded. If `work` is never called, nothing else would load them:
    /// then this loads all parts here, unless an I/O is in flight whose completion causes the next turn.
    pub(super) fn begin_loaded(&mut self) {
        if !self.loading.is_awaited() || self.held.is_some() {
            return;
        }
        let is_told_the_time = self.loading.has_begun();
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
        for key in self.loading.take_waiting() {
            self.begin_cleaning(key);
        }
    }
}
