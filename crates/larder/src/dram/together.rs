//! Demotes many records at a time, when a cache is being closed.
//!
//! The close has exclusive use, and the receiver of the records never waits. So each record leaves in one step, under
//! the lock of its entry, without a second look-up. The memory that they need is prefetched, because otherwise each
//! would wait for it.

use std::collections::VecDeque;

use super::demotions::{Demoting, Demotion};
use super::index::{Entry, Index, Location};
use super::record::ItemView;
use super::segment::Frozen;
use crate::base::item::ItemRef;
use crate::base::key::{KeyHash, KeyHasher};

/// Number of records ahead whose index entries are prefetched.
const FETCHED_AHEAD: usize = 24;
/// Bytes of records beyond these whose memory is prefetched.
const BYTES_AHEAD: usize = 4 << 10;
/// Maximum number of records of a step.
const SENT_AT_ONCE: usize = 256;

/// Receives demoting records.
pub(crate) trait Receiver {
    /// An item of this hash may come soon.
    fn expect(&mut self, hash: KeyHash);

    /// Takes an item, or not. A taken item is removed from the tier.
    fn take(&mut self, item: &ItemRef<'_>) -> bool;
}

/// Outcome of a step of [`DramTier::demote_together`](super::DramTier::demote_together).
#[derive(Debug)]
pub(crate) enum Together {
    /// This number of records was dealt with.
    Went(usize),
    /// This record was not taken. Those before it were.
    Refused(Demotion),
    /// Nothing can leave in this way: [`DramTier::next_demotion`](super::DramTier::next_demotion) has the rest.
    Nothing,
}

/// Demotes the next few records, in their order in memory. The caller has exclusive use of the tier.
pub(super) fn demote(
    (index, hasher): (&Index, KeyHasher),
    demoting: &mut Demoting,
    receiver: &mut impl Receiver,
) -> Together {
    let segment = demoting.segment.clone();
    let mut ahead =
        Ahead { index, hasher, segment: &segment, next: demoting.next, seen: VecDeque::new() };
    (0..FETCHED_AHEAD).for_each(|_| ahead.look(receiver));
    let mut went = 0;
    while went < SENT_AT_ONCE
        && let Some(SeenRecord { at, end, hash, record }) = ahead.seen.pop_front()
    {
        let location = Location { slot: demoting.slot, at };
        debug_assert!(
            at == demoting.next && end > at,
            "records leave in the order in which they lie"
        );
        demoting.next = end;
        let leaves = |entry: Entry| receiver.take(&record.item(hash, entry.is_clean()));
        if index.leave(hash, location, leaves) == Some(false) {
            return Together::Refused(demoting.give_out(location, hash));
        }
        ahead.look(receiver);
        went += 1;
    }
    if went == 0 { Together::Nothing } else { Together::Went(went) }
}

/// The next records, whose memory was prefetched.
struct Ahead<'a> {
    index: &'a Index,
    hasher: KeyHasher,
    segment: &'a Frozen,
    /// Offset of the first record that was not looked at.
    next: usize,
    seen: VecDeque<SeenRecord<'a>>,
}

/// A record and its place.
struct SeenRecord<'a> {
    at: usize,
    end: usize,
    hash: KeyHash,
    record: ItemView<'a>,
}

impl Ahead<'_> {
    /// Looks at one more record, if there is one.
    fn look(&mut self, receiver: &mut impl Receiver) {
        let at = self.next;
        if at >= self.segment.end() {
            return;
        }
        let (record, end) = self.segment.record_and_end(at);
        let hash = self.hasher.hash(record.key);
        self.index.prefetch(hash);
        receiver.expect(hash);
        debug_assert!(
            self.seen.len() <= FETCHED_AHEAD,
            "the prefetch covers at most this number of records"
        );
        self.seen.push_back(SeenRecord { at, end, hash, record });
        self.next = end;
        self.segment.prefetch(self.next + BYTES_AHEAD);
    }
}
