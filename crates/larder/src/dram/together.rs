//! Departures of a cache that is being closed, many at a time.
//!
//! Nobody else is inside any more, and what takes the records waits for nothing: so each leaves in one
//! step, under the lock of its entry, and nobody looks it up a second time. Of what they need memory is
//! asked for many at once, ahead of them: one after the other each would wait for it.

use super::DramTier;
use super::departures::{Departing, Departure};
use super::index::Location;
use super::record::Record;
use super::segment::Frozen;
use crate::key::KeyHash;
use crate::value::ItemRef;

/// For so many records at a time memory is asked.
const FETCHED_AHEAD: usize = 32;

/// What takes records that depart.
pub(crate) trait Receiver {
    /// Items of these hashes may come next.
    fn expect(&mut self, hashes: &[KeyHash]);

    /// Takes an item, or not. It is gone from the tier if it did.
    fn take(&mut self, item: &ItemRef<'_>) -> bool;
}

/// How a step of [`DramTier::depart_together`] ended.
#[derive(Debug)]
pub(crate) enum Together {
    /// So many records were seen to.
    Went(usize),
    /// This one was not taken. Those before it were.
    Refused(Departure),
    /// There is nothing that can leave this way: [`DramTier::next_departure`] has what is left.
    Nothing,
}

/// A record that departs soon, and where it lies.
struct Ahead<'a> {
    at: usize,
    end: usize,
    hash: KeyHash,
    record: Record<'a>,
}

impl DramTier {
    /// Lets the next records depart, a few of them, in the order in which they lie. Nobody else uses the
    /// tier.
    pub(crate) fn depart_together(&self, receiver: &mut impl Receiver) -> Together {
        let went = self.departures.with_first(|departing| self.send_some(departing, receiver));
        went.unwrap_or(Together::Nothing)
    }

    fn send_some(&self, departing: &mut Departing, receiver: &mut impl Receiver) -> Together {
        let segment = departing.segment.clone();
        let ahead = self.look_ahead(&segment, departing.next);
        let hashes: Vec<KeyHash> = ahead.iter().map(|ahead| ahead.hash).collect();
        receiver.expect(&hashes);
        for Ahead { at, end, hash, record } in &ahead {
            let location = Location { slot: departing.slot, at: *at };
            departing.next = *end;
            let leaves = |clean: bool| receiver.take(&record.item(*hash, clean));
            if self.index.leave(*hash, location, leaves) == Some(false) {
                return Together::Refused(departing.give_out(location, *hash));
            }
        }
        if ahead.is_empty() { Together::Nothing } else { Together::Went(ahead.len()) }
    }

    fn look_ahead<'a>(&self, segment: &'a Frozen, from: usize) -> Vec<Ahead<'a>> {
        let segment_end = segment.end();
        let mut ahead = Vec::with_capacity(FETCHED_AHEAD);
        let mut at = from;
        while at < segment_end && ahead.len() < FETCHED_AHEAD {
            let (record, end) = segment.record_and_end(at);
            let hash = self.hasher.hash(record.key);
            self.index.prefetch(hash);
            segment.prefetch(at);
            ahead.push(Ahead { at, end, hash, record });
            at = end;
        }
        ahead
    }
}
