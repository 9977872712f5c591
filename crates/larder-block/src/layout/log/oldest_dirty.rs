//! Destages the oldest dirty data of a class, so that the class may evict it and cache new data
//! ([`eviction`](super::eviction)). The driver of the log decides when, and how much at a time.
//!
//! Each class searches from its own position, segment by segment in the order in which they were opened, and after the
//! last one from the first on. So data that a core has refused blocks no other data. Data already in flight to a core
//! is skipped, and so is a draining segment, which destages all of its data itself.
//!
//! *Always:* no data of other classes is taken. This costs no flush: the destaged data is as durable on the cores as
//! stream data, and becomes durable before its segment is filled again.

use super::destaging::Destaging;
use super::index::MappedExtent;
use super::record_log::RecordLog;
use super::segments::SegmentState;
use super::written::Place;
use crate::layout::ClassId;

/// Most segments that one call searches.
const SEGMENTS_MAX: u32 = 4096;
/// Most lines that one call searches, beyond four for each line that is wanted.
const LINES_MAX: u64 = 64;

/// Where each class searches for its oldest dirty data.
#[derive(Debug)]
pub(super) struct OldestDirty([Place; ClassId::COUNT]);

impl Default for OldestDirty {
    fn default() -> Self {
        Self([Place::default(); ClassId::COUNT])
    }
}

impl OldestDirty {
    /// Marks `sectors` sectors as busy, or up to a line more. Returns them, and the place of the first.
    pub(super) fn mark(
        &mut self,
        log: &mut RecordLog,
        destaging: &Destaging,
        class: ClassId,
        sectors: u64,
    ) -> (Place, Vec<MappedExtent>) {
        let began = self.0[class.index()];
        let (mut at, mut has_turned, mut first) = (began, false, None);
        let mut lines = 4 * sectors.div_ceil(u64::from(log.line_sectors())) + LINES_MAX;
        let (mut segments, mut taken, mut busy) = (SEGMENTS_MAX, 0, Vec::new());
        while taken < sectors && lines > 0 && segments > 0 {
            let Some((generation, segment)) = log.segments.filling_from(at.generation) else {
                if has_turned {
                    break;
                }
                (at, has_turned) = (Place::default(), true);
                continue;
            };
            if generation > at.generation {
                at = Place { generation, line: 0 };
            }
            if has_turned && at >= began {
                break;
            }
            let Some(line) = next_dirty_line(log, class, segment, at.line) else {
                at = Place { generation: generation + 1, line: 0 };
                segments -= 1;
                continue;
            };
            lines -= 1;
            at.line = line + 1;
            let before = busy.len();
            // A line may be listed twice: marked data is not found again.
            log.see_class_in_line(class, (segment, line), |index, one| {
                if one.extent.is_dirty && !destaging.is_moving(&one) {
                    index.mark_busy(&[one]);
                    busy.push(one);
                }
            });
            taken += busy[before..].iter().map(|one| u64::from(one.span.sectors)).sum::<u64>();
            if busy.len() > before {
                first.get_or_insert(Place { generation, line });
            }
        }
        self.0[class.index()] = at;
        (first.unwrap_or(at), busy)
    }
}

/// The number of the next line of a segment, from number `from` on, in which a class may have dirty data that no other
/// mover takes to the core.
fn next_dirty_line(log: &RecordLog, class: ClassId, segment: u32, from: usize) -> Option<usize> {
    let one = log.segments.get(segment);
    let may_have = matches!(one.state(), SegmentState::Open | SegmentState::Sealed);
    may_have.then(|| one.written().next_of(class, from)).flatten()
}
