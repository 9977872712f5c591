//! The pieces of one region that are on their way to flash. Their writes may end in any order.

use std::collections::VecDeque;

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
    pieces: VecDeque<Sent>,
}

#[derive(Debug)]
struct Sent {
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
        self.pieces.push_back(Sent { offset: self.sent, end, is_done: false });
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
