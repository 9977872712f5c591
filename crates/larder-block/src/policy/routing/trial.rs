//! A share under trial: the throughput of some windows.

use std::time::Duration;

use super::window::{RoutingWindow, rate};

/// Windows that are not counted: what began before the trial ends in them.
const SETTLE: u32 = 1;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Trial {
    windows: u32,
    bytes: u64,
    length: Duration,
}

impl Trial {
    /// Windows that are counted.
    pub(super) const COUNTED: u32 = 2;

    /// Takes in a window. Returns bytes a second, if there were enough of them.
    pub(super) fn add(&mut self, window: &RoutingWindow) -> Option<u64> {
        self.add_of(window, Self::COUNTED)
    }

    /// The same, of `counted` windows.
    pub(super) fn add_of(&mut self, window: &RoutingWindow, counted: u32) -> Option<u64> {
        self.windows += 1;
        if self.windows > SETTLE {
            self.bytes = self.bytes.saturating_add(window.bytes);
            self.length = self.length.saturating_add(window.length);
        }
        (self.windows >= SETTLE + counted).then(|| rate(self.bytes, self.length))
    }
}
