//! Protocols: from bytes to requests to answers. None of them knows a socket.

pub(crate) mod memcached;
pub(crate) mod resp;

use crate::answers::Answers;
use crate::caller::Caller;

/// What is spoken on a connection, and what it remembers of it.
pub(crate) trait Protocol: 'static {
    /// Answers the first request in `input`, which is not empty, if it is there whole. A request that changes nothing
    /// may leave its answer for [`Answers::later`]; any other waits for those first ([`Answers::settle`]).
    async fn step(&mut self, caller: &mut Caller, input: &[u8], answers: &mut Answers<'_>) -> Step;
}

/// How far a protocol has got with what has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A request of so many bytes, at least one, is answered, or its answer is on its way.
    Done(usize),
    /// There is more to be answered of the first request, which is still there, when what is answered is on its way.
    Again,
    /// The first request is not there whole: it has so many bytes at least, more than there are. What is asked for is
    /// bounded by the protocol: memory is reserved for it.
    Needs(usize),
    /// The connection ends when what was answered is sent.
    Close,
}
