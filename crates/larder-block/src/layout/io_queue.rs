//! The I/Os of a layout: those of the next turn, and the purposes of those in flight.

use slab::Slab;

use super::{DeviceIo, IoId};

/// Capacity for I/Os of a turn that is kept between turns.
const ISSUED_KEPT: usize = 64;

/// I/Os in flight, each with its purpose, and whether another search for possible work is worthwhile.
#[derive(Debug)]
pub(super) struct IoQueue<P> {
    under_way: Slab<P>,
    issued: Vec<(IoId, DeviceIo)>,
    has_changed: bool,
}

impl<P> Default for IoQueue<P> {
    fn default() -> Self {
        Self { under_way: Slab::new(), issued: Vec::new(), has_changed: false }
    }
}

impl<P> IoQueue<P> {
    /// Issues an I/O with the next turn.
    pub(super) fn issue(&mut self, io: DeviceIo, purpose: P) {
        let id = IoId(self.under_way.insert(purpose));
        self.issued.push((id, io));
        self.has_changed = true;
    }

    /// An I/O has ended: returns its purpose.
    pub(super) fn ended(&mut self, io: IoId) -> P {
        self.under_way.remove(io.0)
    }

    /// Whether no I/O is in flight, and none is issued.
    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Something has changed that may make more work possible.
    pub(super) fn note_change(&mut self) {
        self.has_changed = true;
    }

    /// Whether something has changed since the last call.
    pub(super) fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// Appends the I/Os that were issued since the last call.
    pub(super) fn take_issued(&mut self, ios: &mut Vec<(IoId, DeviceIo)>) {
        ios.append(&mut self.issued);
        // Give back the memory of a burst.
        self.issued.shrink_to(ISSUED_KEPT);
    }
}
