//! How fast the rest of the metadata is loaded, and what waits for its end.

use std::time::Duration;

/// Most parts that one call loads, if `work` was not called for long.
const PARTS_AT_ONCE: usize = 8;

/// The progress of a loading.
#[derive(Debug, Default)]
pub(super) struct LoadProgress {
    /// When the loading began, and the number of parts then.
    began: Option<(Duration, usize)>,
    /// Cleanings of whole cores that wait until all parts are loaded.
    waiting: Vec<usize>,
}

/// What to load now.
pub(super) struct Due {
    pub(super) parts: usize,
    /// More parts than these should have been loaded by now.
    pub(super) is_behind: bool,
    /// Time from one part to the next.
    pub(super) pace: Duration,
}

impl LoadProgress {
    /// The parts to load now if `left` parts are left and all are to be loaded within `time`. The first call begins the
    /// loading. `None` if nothing is to be loaded.
    pub(super) fn due(&mut self, left: usize, now: Duration, time: Duration) -> Option<Due> {
        let (began, total) = match self.began {
            Some(began) => began,
            None if left == 0 => return None,
            None => *self.began.insert((now, left)),
        };
        let pace = time / u32::try_from(total).unwrap_or(u32::MAX);
        let due = match (now - began).as_nanos().checked_div(pace.as_nanos()) {
            Some(parts) => usize::try_from(parts).unwrap_or(usize::MAX),
            None => usize::MAX,
        };
        let loaded = total.saturating_sub(left);
        let parts = due.saturating_sub(loaded).clamp(1, PARTS_AT_ONCE);
        Some(Due { parts, is_behind: due > loaded + parts, pace })
    }

    /// All parts are loaded.
    pub(super) fn end(&mut self) {
        self.began = None;
    }

    pub(super) fn has_begun(&self) -> bool {
        self.began.is_some()
    }

    /// Lets the cleaning of a core wait until all parts are loaded.
    pub(super) fn wait(&mut self, key: usize) {
        self.waiting.push(key);
    }

    /// Whether a cleaning waits.
    pub(super) fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn take_waiting(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.waiting)
    }
}
