//! Walking over what flash holds.

use std::ops::RangeInclusive;

use super::Flash;
use super::engines::call;
use crate::engine::{Cursor, Judge};
use crate::tier::Tier;

/// How far a walk over the engines has come.
pub(crate) struct FlashCursor {
    /// Of each engine, in their order.
    cursors: Vec<Cursor>,
    /// The one that is walked over.
    at: usize,
}

impl Flash {
    /// Into so many equal parts of the space of hashes, a power of two, a walk may be divided at most.
    pub(crate) fn scan_parts_max(&self) -> usize {
        let most = self.engines.iter().map(|any| call!(any, scan_parts_max()));
        most.min().unwrap_or(usize::MAX)
    }

    /// How many objects there are, about.
    pub(crate) fn estimated_len(&self) -> u64 {
        self.engines.iter().map(|any| call!(any, estimated_len())).sum()
    }

    /// Begins a walk over the objects with these hashes. It may come to others too.
    pub(crate) fn scan(&self, hashes: &RangeInclusive<u64>) -> FlashCursor {
        let cursors = self.engines.iter().map(|any| call!(any, scan(hashes)));
        FlashCursor { cursors: cursors.collect(), at: 0 }
    }

    /// The engine that the next step walks over. `None` at the end.
    pub(crate) fn scans(&self, cursor: &FlashCursor) -> Option<Tier> {
        self.engines.iter().nth(cursor.at).map(|any| call!(any, tier()))
    }

    /// Goes on: what `judge` makes of the next few objects. `None` at the end.
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
