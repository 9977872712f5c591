//! What waits for a slot, and in which order it goes on.

use std::collections::VecDeque;

use crate::blocks::info::Stream;
use crate::buffer::IoBuffer;
use crate::io::{Completer, IoFuture};

/// A slot of which something is under way.
#[derive(Debug, Default)]
pub(super) struct Active {
    pub(super) queue: VecDeque<Request>,
    /// Appends that have not ended.
    pub(super) in_flight: u32,
    /// Where the last append that was begun ends.
    pub(super) end: u64,
    /// Somebody carries it on.
    pub(super) is_carried: bool,
}

/// A request of it.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) change: Change,
    pub(super) completer: Completer,
}

/// What is asked for.
#[derive(Debug)]
pub(super) enum Change {
    /// Whole pages from there on.
    Write {
        at: u64,
        buffer: IoBuffer,
        stream: Stream,
        /// Slots that are given up with what was in this one, and before this goes on.
        given_up: Vec<GivenUp>,
    },
    /// Zeros from there on.
    Zeros { at: u64 },
    /// All of it is given up, as soon as this has ended.
    Free { behind: Option<IoFuture> },
}

/// A slot that is given up behind another one.
#[derive(Debug)]
pub(super) struct GivenUp {
    /// To be told when that is gone.
    pub(super) go: Completer,
    /// Ends when this one is.
    pub(super) gone: IoFuture,
}

impl Change {
    /// Whether it may change which block the slot has.
    pub(super) fn replaces(&self) -> bool {
        matches!(self, Self::Write { at: 0, .. } | Self::Zeros { .. } | Self::Free { .. })
    }
}

impl Active {
    /// The position of a write that goes on where the last one ended, if nothing before it replaces the block.
    pub(super) fn in_order(&self) -> Option<usize> {
        let writes = self.queue.iter().take_while(|request| !request.change.replaces());
        writes.enumerate().find_map(|(position, request)| match request.change {
            Change::Write { at, .. } if at == self.end && at > 0 => Some(position),
            _ => None,
        })
    }

    /// The position of what comes first when nothing goes on in order: of the writes before a replacement the one that
    /// is nearest to the start.
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
