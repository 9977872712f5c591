//! A connection: bytes to send, requests without an answer, and bytes received.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};

use larder_workload::Op;

use crate::protocol::{self, ExpectedReply, Hits, ProtocolViolation, Reply, Step};
use crate::stream::Stream;
use crate::target::Target;
use crate::tls::ServerTls;
use crate::value::Values;
use crate::workload::KeyRequest;

/// Initial size of the receive buffer.
const INPUT_BYTES: usize = 16 << 10;

/// A connection of the load generator.
pub(crate) struct Connection {
    stream: Stream,
    output: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
    /// The range of `input` that was received and not read yet.
    come: (usize, usize),
    /// The first answer has at least this number of bytes.
    needs: usize,
    asked: VecDeque<OutstandingRequest>,
    /// Keys of all gets that have no answer yet.
    keys: VecDeque<KeyRequest>,
}

/// A request that has no answer yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutstandingRequest {
    pub(crate) asked: ExpectedReply,
    /// When it was sent, or should have been sent.
    pub(crate) at_ns: u64,
}

/// Room for the keys of one answer; the connections of a thread share it.
#[derive(Default)]
pub(crate) struct Scratch {
    keys: Vec<u64>,
    hit: Vec<bool>,
}

impl Connection {
    /// Connects, and queues the requests that open a connection of this protocol.
    pub(crate) fn open(target: &Target, tls: Option<&ServerTls>) -> io::Result<Self> {
        let mut connection = Self {
            stream: Stream::connect(&target.address, tls)?,
            output: Vec::new(),
            sent: 0,
            input: vec![0; INPUT_BYTES],
            come: (0, 0),
            needs: 0,
            asked: VecDeque::new(),
            keys: VecDeque::new(),
        };
        let login = target.credentials.as_ref();
        let answers = protocol::open(target.protocol, login, &mut connection.output);
        let hello = OutstandingRequest { asked: ExpectedReply::Hello, at_ns: 0 };
        connection.asked.extend(std::iter::repeat_n(hello, answers));
        Ok(connection)
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Requests without an answer.
    pub(crate) fn under_way(&self) -> usize {
        self.asked.len()
    }

    /// The requests without an answer.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = &OutstandingRequest> {
        self.asked.iter()
    }

    /// Queues a request. `value` has the version of a value that is set.
    pub(crate) fn ask(
        &mut self,
        target: &Target,
        asks: &[KeyRequest],
        at_ns: u64,
        value: (&Values, u32),
    ) {
        let Some(first) = asks.first() else { return };
        let protocol = target.protocol;
        let asked = match first.op {
            Op::Get => {
                protocol::get(protocol, asks, &mut self.output);
                self.keys.extend(asks);
                ExpectedReply::Get(u32::try_from(asks.len()).unwrap_or(u32::MAX))
            }
            Op::Set => {
                protocol::set(protocol, first, value, &mut self.output);
                ExpectedReply::Set
            }
            Op::Delete => {
                protocol::delete(protocol, first, &mut self.output);
                ExpectedReply::Delete
            }
        };
        self.asked.push_back(OutstandingRequest { asked, at_ns });
    }

    /// Sends as much as the socket takes. Returns whether that is all.
    pub(crate) fn send(&mut self) -> io::Result<bool> {
        while let Some(rest) = self.output.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        self.sent = 0;
        self.stream.send_rest()
    }

    /// Receives once. Returns whether there may be more.
    pub(crate) fn receive(&mut self) -> io::Result<bool> {
        let (begin, end) = self.come;
        if begin > 0 {
            self.input.copy_within(begin..end, 0);
            self.come = (0, end - begin);
        }
        let end = self.come.1;
        let room = room(self.needs, end);
        if self.input.len() < room {
            self.input.resize(room, 0);
        }
        let free = self.input.get_mut(end..).unwrap_or_default();
        let free_bytes = free.len();
        match self.stream.read(free) {
            Ok(0) => {
                Err(io::Error::new(ErrorKind::UnexpectedEof, "the server closed the connection"))
            }
            Ok(come) => {
                self.come.1 += come;
                Ok(come == free_bytes)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// The next complete answer with its request; keys that were not found go to `missed`.
    pub(crate) fn answer(
        &mut self,
        target: &Target,
        values: &Values,
        scratch: &mut Scratch,
        mut missed: impl FnMut(KeyRequest),
    ) -> Result<Option<(OutstandingRequest, Reply)>, ProtocolViolation> {
        let (begin, end) = self.come;
        let Some(&sent) = self.asked.front() else {
            return match self.input.get(begin..end) {
                Some(rest) if !rest.is_empty() => Err(ProtocolViolation::unasked(rest)),
                _ => Ok(None),
            };
        };
        if end - begin < self.needs.max(1) {
            return Ok(None);
        }
        let count = match sent.asked {
            ExpectedReply::Get(keys) => keys as usize,
            ExpectedReply::Set | ExpectedReply::Delete | ExpectedReply::Hello => 0,
        };
        let Scratch { keys, hit } = scratch;
        keys.clear();
        keys.extend(self.keys.iter().take(count).map(|ask| ask.key));
        hit.clear();
        hit.resize(count, false);
        let mut hits = Hits { keys, values, hit };
        let bytes = self.input.get(begin..end).unwrap_or_default();
        match protocol::reply(target.protocol, bytes, sent.asked, &mut hits)? {
            Step::Needs(bytes) => {
                self.needs = bytes;
                Ok(None)
            }
            Step::Whole(reply) => {
                self.needs = 0;
                self.come.0 += reply.bytes;
                self.asked.pop_front();
                for (ask, hit) in self.keys.drain(..count).zip(hit.iter()) {
                    if !hit && !reply.refused {
                        missed(ask);
                    }
                }
                Ok(Some((sent, reply)))
            }
        }
    }
}

/// Size of a buffer that has received `come` bytes of an answer with at least `needs` bytes. At most twice what has
/// come, so that a server cannot cause a large allocation by announcing a long answer.
fn room(needs: usize, come: usize) -> usize {
    needs.min(2 * come).max(INPUT_BYTES).max(come + INPUT_BYTES / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_grows_with_what_has_come_and_not_with_what_is_said() {
        assert_eq!(room(1 << 40, 100), INPUT_BYTES);
        assert_eq!(room(1 << 40, 1 << 20), 2 << 20);
        assert_eq!(room(1 << 18, 1 << 17), 1 << 18, "all of an answer");
        assert_eq!(room(0, 1 << 17), (1 << 17) + INPUT_BYTES / 2, "there is always some");
    }
}
