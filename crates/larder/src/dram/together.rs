//! Demotions of a cache that is being closed, many at a time.
//!
//! Nobody else is inside any more, and what takes the records waits for nothing: so each leaves in one
//! step, under the lock of its entry, and nobody looks it up a second time. Of what they need memory is
//! asked ahead of them: one after the other each would wait for it.

use std::collections::VecDeque;

use super::DramTier;
use super::demotions::{Demoting, Demotion};
use super::index::{Entry, Location};
use super::record::ItemView;
use super::segment::Frozen;
use crate::item::ItemRef;
use crate::key::KeyHash;

/// For so many records ahead memory is asked where indexes have them.
const FETCHED_AHEAD: usize = 24;
/// For so many bytes of records beyond these, where they lie.
const BYTES_AHEAD: usize = 4 << 10;
/// Records of a step.
const SENT_AT_ONCE: usize = 256;

/// What takes records that demote.
pub(crate) trait Receiver {
    /// An item of this hash may come soon.
    fn expect(&mut self, hash: KeyHash);

    /// Takes an item, or not. It is gone from the tier if it did.
    fn take(&mut self, item: &ItemRef<'_>) -> bool;
}

/// How a step of [`DramTier::demote_together`] ended.
#[derive(Debug)]
pub(crate) enum Together {
    /// So many records were seen to.
    Went(usize),
    /// This one was not taken. Those before it were.
    Refused(Demotion),
    /// There is nothing that can leave this way: [`DramTier::next_demotion`] has what is left.
    Nothing,
}

impl DramTier {
    /// Lets the next records demote, a few of them, in the order in which they lie. Nobody else uses the
    /// tier.
    pub(crate) fn demote_together(&self, receiver: &mut impl Receiver) -> Together {
        let went = self.demotions.with_first(|demoting| self.send_some(demoting, receiver));
        went.unwrap_or(Together::Nothing)
    }

    fn send_some(&self, demoting: &mut Demoting, receiver: &mut impl Receiver) -> Together {
        let segment = demoting.segment.clone();
        let mut ahead =
            Ahead { tier: self, segment: &segment, next: demoting.next, seen: VecDeque::new() };
        (0..FETCHED_AHEAD).for_each(|_| ahead.look(receiver));
        let mut went = 0;
        while went < SENT_AT_ONCE
            && let Some(Seen { at, end, hash, record }) = ahead.seen.pop_front()
        {
            let location = Location { slot: demoting.slot, at };
            debug_assert!(
                at == demoting.next && end > at,
                "records leave in the order in which they lie"
            );
            demoting.next = end;
            let leaves = |entry: Entry| receiver.take(&record.item(hash, entry.is_clean()));
            if self.index.leave(hash, location, leaves) == Some(false) {
                return Together::Refused(demoting.give_out(location, hash));
            }
            ahead.look(receiver);
            went += 1;
        }
        if went == 0 { Together::Nothing } else { Together::Went(went) }
    }
}

/// The records that come next, for which memory was asked.
struct Ahead<'a> {
    tier: &'a DramTier,
    segment: &'a Frozen,
    /// Where the first one begins that was not looked at.
    next: usize,
    seen: VecDeque<Seen<'a>>,
}

/// A record and where it lies.
struct Seen<'a> {
    at: usize,
    end: usize,
    hash: KeyHash,
    record: ItemView<'a>,
}

impl Ahead<'_> {
    /// Looks at one record more, if there is one.
    fn look(&mut self, receiver: &mut impl Receiver) {
        let at = self.next;
        if at >= self.segment.end() {
            return;
        }
        let (record, end) = self.segment.record_and_end(at);
        let hash = self.tier.hasher.hash(record.key);
        self.tier.index.prefetch(hash);
        receiver.expect(hash);
        debug_assert!(self.seen.len() <= FETCHED_AHEAD, "memory is asked for so many");
        self.seen.push_back(Seen { at, end, hash, record });
        self.next = end;
        self.segment.prefetch(self.next + BYTES_AHEAD);
    }
}
