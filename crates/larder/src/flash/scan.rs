//! Scans what flash holds.

use std::ops::RangeInclusive;

use super::engines::{Engines, call};
use crate::base::tier::Tier;
use crate::engine::{Cursor, Judge};

/// Progress of a scan over the engines.
pub(crate) struct FlashCursor {
    /// One for each engine, in their order.
    cursors: Vec<Cursor>,
    /// Index of the engine that is being scanned.
    at: usize,
}

impl FlashCursor {
    /// At the beginning, for objects with these hashes.
    pub(super) fn over(engines: &Engines, hashes: &RangeInclusive<u64>) -> Self {
        let cursors = engines.iter().map(|any| call!(any, scan(hashes)));
        Self { cursors: cursors.collect(), at: 0 }
    }

    /// The tier that the next step scans. `None` at the end.
    pub(super) fn tier(&self, engines: &Engines) -> Option<Tier> {
        engines.iter().nth(self.at).map(|any| call!(any, tier()))
    }

    /// The results of `judge` for the next few objects. `None` at the end.
    pub(super) async fn go_on<T>(
        &mut self,
        engines: &Engines,
        judge: Judge<'_, T>,
    ) -> Option<Vec<T>> {
        debug_assert!(self.at <= self.cursors.len(), "each engine has a cursor");
        let any = engines.iter().nth(self.at)?;
        let part = self.cursors.get_mut(self.at)?;
        let judged = call!(any, scan_on(part, judge).await);
        if judged.is_none() {
            self.at += 1;
        }
        Some(judged.unwrap_or_default())
    }
}
