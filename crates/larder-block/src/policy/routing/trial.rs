//! Measures the throughput of a share over some windows.

use std::time::Duration;

use super::window::{RoutingWindow, rate};

/// Windows that are not counted, because requests from before the trial end in them.
const SETTLE: u32 = 1;

#[derive(Debug, Default)]
pub(super) struct Trial {
    windows: u32,
    bytes: u64,
    length: Duration,
}

impl Trial {
    /// Default number of counted windows.
    pub(super) const COUNTED: u32 = 2;

    /// Adds a window. Returns bytes per second once there are enough windows.
    pub(super) fn add(&mut self, window: &RoutingWindow) -> Option<u64> {
        self.add_of(window, Self::COUNTED)
    }

    /// The same, with `counted` windows.
    pub(super) fn add_of(&mut self, window: &RoutingWindow, counted: u32) -> Option<u64> {
        self.windows += 1;
        if self.windows > SETTLE {
            self.bytes = self.bytes.saturating_add(window.bytes);
            self.length = self.length.saturating_add(window.length);
        }
        (self.windows >= SETTLE + counted).then(|| rate(self.bytes, self.length))
    }
}
