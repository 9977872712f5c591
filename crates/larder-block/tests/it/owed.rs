//! What a crash may leave dirty: sectors to which a write that was to be dirty was acknowledged, or was under way, and
//! of which no flush was answered that had come later.

use std::collections::{BTreeMap, HashMap};

use larder_block::layout::{CoreId, Layout, Span};

#[derive(Default)]
pub(crate) struct Owed {
    /// By sector: when the last such write of it has ended.
    ended: HashMap<(CoreId, u64), u64>,
    /// Such writes that are under way, and all that have failed, by their version.
    open: BTreeMap<u64, Span>,
}

fn sectors(span: Span) -> impl Iterator<Item = (CoreId, u64)> {
    (span.first..span.end()).map(move |sector| (span.core, sector))
}

impl Owed {
    /// A write is about to be sent that may leave something dirty.
    pub(crate) fn begins(&mut self, span: Span, version: u64) {
        self.open.insert(version, span);
    }

    /// It was acknowledged.
    pub(crate) fn ended(&mut self, version: u64, now: u64) {
        if let Some(span) = self.open.remove(&version) {
            self.ended.extend(sectors(span).map(|sector| (sector, now)));
        }
    }

    /// A flush was answered that came at `asked`.
    pub(crate) fn settled(&mut self, is_of: impl Fn(CoreId, u64) -> bool, asked: u64) {
        self.ended.retain(|(core, sector), at| !is_of(*core, *sector) || *at >= asked);
    }

    /// What became of the writes under way is known by none.
    pub(crate) fn crashed(&mut self, now: u64) {
        for span in std::mem::take(&mut self.open).into_values() {
            self.ended.extend(sectors(span).map(|sector| (sector, now)));
        }
    }

    /// What a start has found.
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
