//! The requests that wait for a slot, and the order in which they proceed.

use std::collections::VecDeque;

use larder_device::{Completer, IoBuffer, IoFuture};

use crate::info::Stream;

/// A slot with requests waiting or in flight.
#[derive(Debug, Default)]
pub(super) struct Active {
    pub(super) queue: VecDeque<SlotRequest>,
    /// Appends in flight.
    pub(super) in_flight: u32,
    /// End of the last append that was begun.
    pub(super) end: u64,
    /// A thread is carrying out its requests.
    pub(super) is_carried: bool,
}

/// A request to a slot.
#[derive(Debug)]
pub(super) struct SlotRequest {
    pub(super) change: Change,
    pub(super) completer: Completer,
}

/// What a request changes.
#[derive(Debug)]
pub(super) enum Change {
    /// Writes whole pages from `at` on.
    Write {
        at: u64,
        buffer: IoBuffer,
        stream: Stream,
        /// Slots that are discarded together with this one's old content, before the write proceeds.
        given_up: Vec<DiscardedSlot>,
    },
    /// Zeroes everything from `at` on.
    Zeros { at: u64 },
    /// Discards the slot, after `behind` has ended.
    Free { behind: Option<IoFuture> },
}

/// A slot that is discarded after another one.
#[derive(Debug)]
pub(super) struct DiscardedSlot {
    /// Completed when the other slot is gone.
    pub(super) go: Completer,
    /// Ends when this slot is gone.
    pub(super) gone: IoFuture,
}

impl Change {
    /// Whether it may change the block of the slot.
    pub(super) fn replaces(&self) -> bool {
        matches!(self, Self::Write { at: 0, .. } | Self::Zeros { .. } | Self::Free { .. })
    }
}

impl Active {
    /// The position of a write that continues where the last one ended, if no request before it replaces the block.
    pub(super) fn in_order(&self) -> Option<usize> {
        let writes = self.queue.iter().take_while(|request| !request.change.replaces());
        writes.enumerate().find_map(|(position, request)| match request.change {
            Change::Write { at, .. } if at == self.end && at > 0 => Some(position),
            _ => None,
        })
    }

    /// The position of the next request if no write continues in order: of the writes before a replacement the one with
    /// the lowest offset, or else the replacement.
    pub(super) fn first_alone(&self) -> Option<usize> {
        let writes = self.queue.iter().take_while(|request| !request.change.replaces());
        let places = writes.enumerate().filter_map(|(position, request)| match request.change {
            Change::Write { at, .. } => Some((at, position)),
            _ => None,
        });
        let lowest = places.min().map(|(_, position)| position);
        lowest.or(if self.queue.is_empty() { None } else { Some(0) })
    }
}
