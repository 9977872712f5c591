//! What a crash may leave dirty: sectors to which a write that was to be dirty was acknowledged, or was under way, and
//! of which no flush was answered that had come later.

use std::collections::HashMap;

use larder_block::layout::{CoreId, Layout, Span};

/// When the last such write ended; as long as one is under way, and if it has failed.
const OPEN: u64 = u64::MAX;

#[derive(Default)]
pub(crate) struct Owed(HashMap<(CoreId, u64), u64>);

fn sectors(span: Span) -> impl Iterator<Item = (CoreId, u64)> {
    (span.first..span.end()).map(move |sector| (span.core, sector))
}

impl Owed {
    /// A write is about to be sent that may leave something dirty.
    pub(crate) fn begins(&mut self, span: Span) {
        self.0.extend(sectors(span).map(|sector| (sector, OPEN)));
    }

    /// It was acknowledged.
    pub(crate) fn ended(&mut self, span: Span, now: u64) {
        for sector in sectors(span) {
            self.0.entry(sector).and_modify(|at| *at = now);
        }
    }

    /// A flush was answered that came at `asked`.
    pub(crate) fn settled(&mut self, is_of: impl Fn(CoreId, u64) -> bool, asked: u64) {
        self.0.retain(|(core, sector), at| !is_of(*core, *sector) || *at >= asked);
    }

    /// Nobody will know what became of what was under way.
    pub(crate) fn crashed(&mut self, now: u64) {
        self.0.values_mut().filter(|at| **at == OPEN).for_each(|at| *at = now);
    }

    /// What a start has found.
    pub(crate) fn check(&self, layout: &mut dyn Layout, cores: impl Iterator<Item = CoreId>) {
        layout.load_all();
        for core in cores {
            let mut next = 0;
            while let Some(dirty) = layout.dirty_after(core, next) {
                let wrong = sectors(dirty).find(|sector| !self.0.contains_key(sector));
                assert_eq!(wrong, None, "it is dirty, and no core lacks it: {dirty:?}");
                next = dirty.end();
            }
        }
    }
}
