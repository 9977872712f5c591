//! Scans what flash holds.

use std::ops::RangeInclusive;

use super::Flash;
use super::engines::call;
use crate::base::tier::Tier;
use crate::engine::{Cursor, Judge};

/// Progress of a scan over the engines.
pub(crate) struct FlashCursor {
    /// One for each engine, in their order.
    cursors: Vec<Cursor>,
    /// Index of the engine that is being scanned.
    at: usize,
}

impl Flash {
    /// Maximum number of equal parts, a power of two, into which a scan can divide the hash space.
    pub(crate) fn scan_parts_max(&self) -> usize {
        let most = self.engines.iter().map(|any| call!(any, scan_parts_max()));
        most.min().unwrap_or(usize::MAX)
    }

    /// Approximate number of objects.
    pub(crate) fn estimated_len(&self) -> u64 {
        self.engines.iter().map(|any| call!(any, estimated_len())).sum()
    }

    /// Starts a scan over the objects with these hashes. It may visit other objects too.
    pub(crate) fn scan(&self, hashes: &RangeInclusive<u64>) -> FlashCursor {
        let cursors = self.engines.iter().map(|any| call!(any, scan(hashes)));
        FlashCursor { cursors: cursors.collect(), at: 0 }
    }

    /// The tier that the next step scans. `None` at the end.
    pub(crate) fn scans(&self, cursor: &FlashCursor) -> Option<Tier> {
        self.engines.iter().nth(cursor.at).map(|any| call!(any, tier()))
    }

    /// Continues the scan. Returns the results of `judge` for the next few objects. `None` at the end.
    pub(crate) async fn scan_on<T>(
        &self,
        cursor: &mut FlashCursor,
        judge: Judge<'_, T>,
    ) -> Option<Vec<T>> {
        debug_assert!(cursor.at <= cursor.cursors.len(), "each engine has a cursor");
        let any = self.engines.iter().nth(cursor.at)?;
        let part = cursor.cursors.get_mut(cursor.at)?;
        let judged = call!(any, scan_on(part, judge).await);
        if judged.is_none() {
            cursor.at += 1;
        }
        Some(judged.unwrap_or_default())
    }
}
