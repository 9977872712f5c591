//! Protocols: from bytes to requests to answers. None of them knows a socket.

pub(crate) mod memcached;
pub(crate) mod resp;

use std::sync::Arc;
use std::task::{Context, Poll};

use crate::answers::Answers;
use crate::caller::Caller;
use crate::channels::Inbox;

/// The protocol of a connection, with its state.
pub(crate) trait Protocol: 'static {
    /// Answers the first request in `input`, which is not empty, if the request is complete. A request that changes
    /// nothing may answer later ([`Answers::later`]); any other waits for those answers first ([`Answers::settle`]).
    async fn step(&mut self, caller: &mut Caller, input: &[u8], answers: &mut Answers<'_>) -> Step;

    /// Answers the first request in `input`, or a part of it, without a future, if it needs no wait (it reads what
    /// DRAM has, or what is nowhere, or stores a value) and nothing keeps it from beginning. Returns the number of
    /// bytes that are answered. On 0 nothing was done, and [`Protocol::step`] is to look at the same bytes. All earlier
    /// answers are in `out`.
    fn at_once(&mut self, caller: &mut Caller, input: &[u8], out: &mut Vec<u8>) -> usize;

    /// The inbox of the connection, if messages can come without a request.
    fn inbox(&self) -> Option<&Arc<Inbox>> {
        None
    }

    /// Whether a request waits for an event, so that the next one must not be begun.
    fn is_waiting(&self) -> bool {
        false
    }

    /// Ready when the request that waits has something to do ([`Protocol::messages`]).
    fn poll_waiting(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    /// Whether the client may be silent for as long as it likes, since it waits for messages.
    fn waits_for_messages(&self) -> bool {
        false
    }

    /// Answers with the messages that have come, and continues the request that waits. Called between two requests.
    async fn messages(&mut self, _: &mut Caller, _: &mut Answers<'_>) {}

    /// The connection ends.
    async fn ends(&mut self) {}
}

/// The progress of a protocol with the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A request of this number of bytes, at least one, is answered, or its answer is on its way.
    Done(usize),
    /// The first request is still in the input, and has more to answer once the current answers are on their way.
    Again,
    /// The first request is incomplete: it has at least this number of bytes, more than there are. The protocol bounds
    /// the number, since memory is reserved for it.
    Needs(usize),
    /// Close the connection when the answers are sent.
    Close,
}
