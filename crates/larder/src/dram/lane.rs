//! Open segments: new items are appended to them, grouped by lifetime, so that items that expire together lie
//! together.

use super::index::Location;
use super::queues::{Queue, SealedSegment};
use super::record::{self, record_bytes};
use super::segment::Share;
use super::segment::Writer;
use crate::base::item::ItemRef;

/// Upper bounds of the lifetimes that share a segment, in seconds; the last group lives longer. Items that never
/// expire have a group of their own.
const GROUP_ENDS_S: [u32; 5] = [60, 10 * 60, 3600, 8 * 3600, 3 * 86_400];
/// Number of groups by lifetime.
pub(crate) const GROUPS: usize = GROUP_ENDS_S.len() + 2;

const _: () = {
    let mut group = 1;
    while group < GROUP_ENDS_S.len() {
        assert!(
            GROUP_ENDS_S[group - 1] < GROUP_ENDS_S[group],
            "the first group that is long enough is found"
        );
        group += 1;
    }
};

/// The group of an item that expires at `expiry_s`.
pub(crate) fn group_of(expiry_s: u32, now_s: u32) -> usize {
    if expiry_s == 0 {
        return 0;
    }
    let left = expiry_s.saturating_sub(now_s);
    1 + GROUP_ENDS_S.iter().position(|&end| left <= end).unwrap_or(GROUP_ENDS_S.len())
}

/// Whether an item may be put into a segment whose last item expires at `last_expiry_s`: it must not keep the segment
/// longer than items of the segment's current group.
pub(crate) fn may_lie_with(expiry_s: u32, last_expiry_s: u32, now_s: u32) -> bool {
    match (expiry_s, last_expiry_s) {
        (0, last) => last == u32::MAX,
        (_, u32::MAX) => false,
        (expiry_s, last) => group_of(expiry_s, now_s) <= group_of(last, now_s),
    }
}

/// The open segments of a writer.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    open: [[Option<Open>; GROUPS]; 2],
}

#[derive(Debug)]
struct Open {
    writer: Writer,
    slot: u32,
}

impl Lane {
    /// Whether the segment of this queue and group has room for `bytes` bytes more.
    pub(crate) fn has_room(&self, (queue, group): (Queue, usize), bytes: usize) -> bool {
        self.open[at(queue)][group].as_ref().is_some_and(|open| open.writer.has_room(bytes))
    }

    /// Appends `item`. `None` if the segment of its queue and group is full or missing.
    pub(crate) fn append(
        &mut self,
        (queue, group): (Queue, usize),
        item: &ItemRef<'_>,
    ) -> Option<(&Share, Location)> {
        let open = self.open[at(queue)][group].as_mut()?;
        let encode = |room: &mut [u8]| record::encode(room, item);
        let at = open.writer.append(record_bytes(item), encode)?;
        open.writer.segment().note_expiry(item.expiry_s);
        debug_assert!(
            item.expiry_s <= open.writer.segment().last_expiry_s(),
            "it expires with its last"
        );
        Some((open.writer.segment(), Location { slot: open.slot, at }))
    }

    /// Replaces the open segment. Returns the old one, sealed.
    pub(crate) fn reopen(
        &mut self,
        (queue, group): (Queue, usize),
        writer: Writer,
        slot: u32,
    ) -> Option<SealedSegment> {
        debug_assert_eq!(
            writer.segment().slot(),
            slot,
            "it has a slot before anything is appended to it"
        );
        let open = Open { writer, slot };
        self.open[at(queue)][group].replace(open).map(|open| open.seal(queue))
    }

    /// Seals all open segments.
    pub(crate) fn seal_all(&mut self) -> impl Iterator<Item = SealedSegment> {
        [Queue::Small, Queue::Main].into_iter().zip(&mut self.open).flat_map(|(queue, groups)| {
            groups.iter_mut().filter_map(move |open| Some(open.take()?.seal(queue)))
        })
    }
}

impl Open {
    fn seal(self, queue: Queue) -> SealedSegment {
        SealedSegment { segment: self.writer.segment().clone(), slot: self.slot, queue }
    }
}

fn at(queue: Queue) -> usize {
    match queue {
        Queue::Small => 0,
        Queue::Main => 1,
    }
}
