//! Ranges in flight to the cores. The device may reorder two writes of the same sectors, whatever the index says of
//! these sectors by then. So the second is issued only after the first has arrived.

use std::collections::BTreeMap;

use crate::layout::{CoreId, Span};

#[derive(Debug, Default)]
pub(super) struct LeavingRuns {
    /// End by core and first sector. The runs do not overlap.
    runs: BTreeMap<(CoreId, u64), u64>,
}

impl LeavingRuns {
    /// # Panics
    /// If a part of `run` is in flight already.
    pub(super) fn add(&mut self, run: Span) {
        assert!(!self.has(run), "{run:?} would be written twice at a time");
        self.runs.insert((run.core, run.first), run.end());
    }

    pub(super) fn remove(&mut self, run: Span) {
        let removed = self.runs.remove(&(run.core, run.first));
        debug_assert_eq!(removed, Some(run.end()));
    }

    /// Whether a part of `span` is in flight.
    pub(super) fn has(&self, span: Span) -> bool {
        let before = self.runs.range(..(span.core, span.end())).next_back();
        before.is_some_and(|((core, _), end)| *core == span.core && *end > span.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_has_a_sector_in_common_is_seen() {
        let span = |core, first, sectors| Span { core: CoreId::new(core).unwrap(), first, sectors };
        let mut leaving = LeavingRuns::default();
        leaving.add(span(1, 10, 10));
        leaving.add(span(1, 20, 5));
        for (seen, first, sectors) in [
            (false, 0, 10),
            (true, 0, 11),
            (true, 12, 1),
            (true, 24, 9),
            (false, 25, 9),
            (true, 0, 90),
        ] {
            assert_eq!(leaving.has(span(1, first, sectors)), seen, "{first} {sectors}");
            assert!(!leaving.has(span(0, first, sectors)) && !leaving.has(span(2, first, sectors)));
        }
        leaving.remove(span(1, 10, 10));
        assert!(!leaving.has(span(1, 12, 1)) && leaving.has(span(1, 20, 1)));
    }
}
