//! The sectors that a crash may leave dirty. A write that makes the sector dirty was acknowledged or in flight, and no
//! flush that was submitted after it has been answered.

use std::collections::{BTreeMap, HashMap};

use larder_block::layout::{CoreId, Layout, Span};

#[derive(Default)]
pub(crate) struct Owed {
    /// By sector: when the last such write ended.
    ended: HashMap<(CoreId, u64), u64>,
    /// Such writes in flight, and all that have failed, by version.
    open: BTreeMap<u64, Span>,
}

fn sectors(span: Span) -> impl Iterator<Item = (CoreId, u64)> {
    (span.first..span.end()).map(move |sector| (span.core, sector))
}

impl Owed {
    /// A write that may leave dirty data is about to be sent.
    pub(crate) fn begins(&mut self, span: Span, version: u64) {
        self.open.insert(version, span);
    }

    /// The write was acknowledged.
    pub(crate) fn ended(&mut self, version: u64, now: u64) {
        if let Some(span) = self.open.remove(&version) {
            self.ended.extend(sectors(span).map(|sector| (sector, now)));
        }
    }

    /// A flush that was submitted at `asked` was answered.
    pub(crate) fn settled(&mut self, is_of: impl Fn(CoreId, u64) -> bool, asked: u64) {
        self.ended.retain(|(core, sector), at| !is_of(*core, *sector) || *at >= asked);
    }

    /// After a crash, the outcome of the writes in flight is unknown.
    pub(crate) fn crashed(&mut self, now: u64) {
        for span in std::mem::take(&mut self.open).into_values() {
            self.ended.extend(sectors(span).map(|sector| (sector, now)));
        }
    }

    /// Checks the dirty sectors that a start has found.
    pub(crate) fn check(&self, layout: &mut dyn Layout, cores: impl Iterator<Item = CoreId>) {
        layout.load_all();
        for core in cores {
            let mut next = 0;
            while let Some(dirty) = layout.dirty_after(core, next) {
                let wrong = sectors(dirty).find(|sector| !self.ended.contains_key(sector));
                assert_eq!(wrong, None, "it is dirty, and no core lacks it: {dirty:?}");
                next = dirty.end();
            }
        }
    }
}
