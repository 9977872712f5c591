//! Loading what a start has found, beside requests ([`Layout::load_part`](crate::layout::Layout::load_part)).
//!
//! What a request is about is loaded when it comes. The rest follows in the time that
//! [`CacheOptions::load_time`](super::CacheOptions) gives, part by part, by whoever tells the time; what needs all of
//! it, the cleaning of a whole core, makes that go on without a pause.

use std::time::Duration;

use super::state::Cache;

/// Parts that are loaded at once, at most, if nobody has told the time for long.
const PARTS_AT_ONCE: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Loading {
    /// When it began, and with how many parts.
    began: Option<(Duration, usize)>,
    /// Cleanings of whole cores that wait for its end.
    waiting: Vec<usize>,
}

impl Cache {
    /// Parts of what the start has found that are not loaded.
    pub fn unloaded_parts(&self) -> usize {
        self.layout.unloaded_parts()
    }

    /// Loads what is due, and says when more is.
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

    /// Tells the cleaning policy what was found dirty.
    fn hear_of_loaded(&mut self) {
        for dirty in self.layout.take_loaded_dirty() {
            // What a missing core lacks stays here.
            if !self.missing.contains(&dirty.core) {
                self.cleaning.found_dirty(dirty);
            }
        }
    }

    /// Lets the cleaning of a core wait until all is loaded.
    pub(super) fn clean_when_loaded(&mut self, key: usize) {
        self.loading.waiting.push(key);
    }

    /// Goes on with those that wait, if all is loaded. Where nobody tells the time it is now or never: as long as
    /// nothing is under way with whose end the next turn would come, all is loaded here.
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
