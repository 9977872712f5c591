//! The pieces that are on their way to flash: those of one region, and those of all regions together. Their writes may
//! end in any order.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use larder_device::{IoFuture, IoResult};

use crate::region::RegionIdentity;

/// Most pieces on their way at the same time, of all regions together.
pub const PIECES_IN_FLIGHT: usize = 4;

/// How much of a region was sent to flash, and how much of it is on flash.
///
/// *Always:* `on_flash <= sent`; they are equal if nothing is under way.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    /// Bytes before this were passed to the device.
    sent: usize,
    /// Bytes before this are on flash.
    on_flash: usize,
    /// Pieces from `on_flash` to `sent`.
    pieces: VecDeque<SentWrite>,
}

#[derive(Debug)]
struct SentWrite {
    offset: usize,
    end: usize,
    is_done: bool,
}

impl InFlight {
    pub(crate) fn sent(&self) -> usize {
        self.sent
    }

    pub(crate) fn on_flash(&self) -> usize {
        self.on_flash
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Notes that the bytes up to `end` are on their way.
    pub(crate) fn send(&mut self, end: usize) {
        assert!(self.sent < end, "each place is written once");
        self.pieces.push_back(SentWrite { offset: self.sent, end, is_done: false });
        self.sent = end;
    }

    /// Notes that the piece that begins at `offset` is on flash.
    pub(crate) fn ended(&mut self, offset: usize) {
        let piece = self.pieces.iter_mut().find(|piece| piece.offset == offset);
        let piece = piece.expect("it was sent, and has not ended yet");
        assert!(!std::mem::replace(&mut piece.is_done, true), "a piece ends once");
        while self.pieces.front().is_some_and(|piece| piece.is_done) {
            self.on_flash = self.pieces.pop_front().expect("looked at").end;
        }
        debug_assert!(self.on_flash <= self.sent);
        debug_assert_eq!(self.pieces.is_empty(), self.on_flash == self.sent);
    }
}

/// The operations that are still under way on flash. They outlive the caller that began them: a caller that is dropped
/// leaves them here, and the next holder goes on with them.
#[derive(Default)]
pub struct Writer {
    /// Pieces of active regions, with the filling and the offset in it.
    pieces: VecDeque<(RegionIdentity, usize, IoFuture)>,
    /// Fillings of which a piece failed: their regions are given up.
    failed: Vec<RegionIdentity>,
    /// A deallocation, and its number of bytes. Later writes to the same place must wait for its end, or they would be
    /// lost.
    pub(crate) deallocation: Option<(IoFuture, u64)>,
}

impl Writer {
    /// Whether another piece may be sent.
    pub(crate) fn has_room(&self) -> bool {
        self.pieces.len() < PIECES_IN_FLIGHT
    }

    /// How many pieces are on their way, by the number that may be: 1 means that the next one has to wait.
    #[allow(clippy::cast_precision_loss)] // a few
    pub fn busy(&self) -> f64 {
        self.pieces.len() as f64 / PIECES_IN_FLIGHT as f64
    }

    /// Whether no piece is on its way.
    pub(crate) fn is_idle(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Adds a piece that was submitted.
    pub(crate) fn push(&mut self, identity: RegionIdentity, offset: usize, write: IoFuture) {
        self.pieces.push_back((identity, offset, write));
    }

    /// Takes the pieces that have ended, and passes each to `ended`, which returns false if its filling has failed.
    /// Returns whether there was one.
    pub(crate) fn collect(
        &mut self,
        context: &mut Context<'_>,
        mut ended: impl FnMut(RegionIdentity, usize, &IoResult) -> bool,
    ) -> bool {
        let Self { pieces, failed, .. } = self;
        let before = pieces.len();
        pieces.retain_mut(|(identity, offset, write)| match Pin::new(write).poll(context) {
            Poll::Pending => true,
            Poll::Ready(result) => {
                if !ended(*identity, *offset, &result) && !failed.contains(identity) {
                    failed.push(*identity);
                }
                false
            }
        });
        pieces.len() < before
    }

    /// A filling of which a piece failed, until it is [`retired`](Self::retired).
    pub(crate) fn failed(&self) -> Option<RegionIdentity> {
        self.failed.last().copied()
    }

    /// Forgets the filling that [`failed`](Self::failed) returned: its region was retired.
    pub(crate) fn retired(&mut self, identity: RegionIdentity) {
        let last = self.failed.pop();
        debug_assert_eq!(last, Some(identity), "the caller retires the last one");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_flash_has_no_gaps() {
        let mut in_flight = InFlight::default();
        [10, 20, 30, 40].into_iter().for_each(|end| in_flight.send(end));
        let mut ended = |offset| {
            in_flight.ended(offset);
            in_flight.on_flash()
        };
        assert_eq!([ended(10), ended(30), ended(0), ended(20)], [0, 0, 20, 40]);
        assert!(in_flight.is_empty());
    }
}
