//! Open segments: where new items are appended, grouped by lifetime, so that what expires together
//! lies together.

use super::index::Location;
use super::pins::Share;
use super::queues::{Queue, Sealed};
use super::record::{self, record_bytes};
use super::segment::Writer;
use crate::value::ItemRef;

/// Upper bounds of the lifetimes that share a segment, in seconds; the last group lives longer.
/// What never expires has a group of its own.
const GROUP_ENDS_S: [u32; 5] = [60, 10 * 60, 3600, 8 * 3600, 3 * 86_400];
/// Groups by lifetime.
pub(crate) const GROUPS: usize = GROUP_ENDS_S.len() + 2;

/// The group of an item that expires at `expiry_s`.
pub(crate) fn group_of(expiry_s: u32, now_s: u32) -> usize {
    if expiry_s == 0 {
        return 0;
    }
    let left = expiry_s.saturating_sub(now_s);
    1 + GROUP_ENDS_S.iter().position(|&end| left <= end).unwrap_or(GROUP_ENDS_S.len())
}

/// The open segments of one writer at a time.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    open: [[Option<Open>; GROUPS]; 2],
    versions: u32,
}

#[derive(Debug)]
struct Open {
    writer: Writer,
    slot: u32,
    last_expiry_s: u32,
}

impl Lane {
    /// A lane whose first version is the one after `versions`.
    pub(crate) fn with_versions_from(versions: u32) -> Self {
        Self { versions, ..Self::default() }
    }

    /// A version that the lane has not given before, as long as 2^32 are enough; never 0.
    pub(crate) fn next_version(&mut self) -> u32 {
        self.versions = self.versions.checked_add(1).unwrap_or(1);
        self.versions
    }

    /// Appends `item`. `None` if the segment of its queue and group is full, or not there.
    pub(crate) fn append(
        &mut self,
        (queue, group): (Queue, usize),
        item: &ItemRef<'_>,
        version: u32,
    ) -> Option<(&Share, Location)> {
        let open = self.open[at(queue)][group].as_mut()?;
        let encode = |room: &mut [u8]| record::encode(room, item, version);
        let at = open.writer.append(record_bytes(item), encode)?;
        let expiry_s = if item.expiry_s == 0 { u32::MAX } else { item.expiry_s };
        open.last_expiry_s = open.last_expiry_s.max(expiry_s);
        Some((open.writer.segment(), Location { slot: open.slot, at }))
    }

    /// Goes on with another segment. Returns the one that is sealed thereby.
    pub(crate) fn reopen(
        &mut self,
        (queue, group): (Queue, usize),
        writer: Writer,
        slot: u32,
    ) -> Option<Sealed> {
        let open = Open { writer, slot, last_expiry_s: 0 };
        self.open[at(queue)][group].replace(open).map(|open| open.seal(queue))
    }

    /// Seals all that is open.
    pub(crate) fn seal_all(&mut self) -> impl Iterator<Item = Sealed> {
        [Queue::Small, Queue::Main].into_iter().zip(&mut self.open).flat_map(|(queue, groups)| {
            groups.iter_mut().filter_map(move |open| Some(open.take()?.seal(queue)))
        })
    }
}

impl Open {
    fn seal(self, queue: Queue) -> Sealed {
        let Self { writer, slot, last_expiry_s } = self;
        Sealed { segment: writer.segment().clone(), slot, queue, last_expiry_s }
    }
}

fn at(queue: Queue) -> usize {
    match queue {
        Queue::Small => 0,
        Queue::Main => 1,
    }
}
