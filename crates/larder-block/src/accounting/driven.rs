//! What can be driven without time: a layout alone, or a cache on one.

use std::fmt;
use std::time::Duration;

use crate::cache::{self, Cache, Ended, Keep};
use crate::layout::{self, Data, DeviceIo, IoId, Layout, Outcome, RequestId, Span};

/// What decides and does no I/O.
pub trait Driven {
    /// What users ask of it.
    type Request: Asked;
    /// Takes a request.
    fn submit(&mut self, id: RequestId, request: Self::Request);
    /// Says how an I/O has ended.
    fn completed(&mut self, io: IoId, outcome: Outcome);
    /// Appends the requests that have ended.
    fn ended(&mut self, ended: &mut Vec<Ended>);
    /// Appends what is to be carried out.
    fn turn(&mut self, ios: &mut Vec<(IoId, DeviceIo)>);
    /// Gives the data of what shall be kept.
    fn keep(&mut self, keep: Keep, data: Option<Data>);
    /// Lets it try once more what a device has refused.
    fn retry(&mut self);
    /// Tells it the time. It says when it wants to be told again, if it does.
    fn work(&mut self, _now: Duration) -> Option<Duration> {
        None
    }
}

/// What users ask.
pub trait Asked: Clone + fmt::Debug {
    /// The sectors that it is about, for itself alone but for reads.
    fn span(&self) -> Option<Span>;
    /// How many bytes it reads.
    fn read_bytes(&self) -> Option<usize>;
    /// How many bytes it writes.
    fn written_bytes(&self) -> usize;
}

impl<L: Layout> Driven for L {
    type Request = layout::Request;

    fn submit(&mut self, id: RequestId, request: layout::Request) {
        Layout::submit(self, id, request);
    }

    fn completed(&mut self, io: IoId, outcome: Outcome) {
        Layout::completed(self, io, outcome);
    }

    fn ended(&mut self, ended: &mut Vec<Ended>) {
        let mut all = Vec::new();
        Layout::ended(self, &mut all);
        ended.extend(all.into_iter().map(|(id, ending)| Ended { id, ending, keep: None }));
    }

    fn turn(&mut self, ios: &mut Vec<(IoId, DeviceIo)>) {
        Layout::turn(self, ios);
    }

    fn keep(&mut self, _: Keep, _: Option<Data>) {
        unreachable!("a layout does not ask for what it has not asked to read")
    }

    fn retry(&mut self) {
        Layout::retry(self);
    }
}

impl Asked for layout::Request {
    fn span(&self) -> Option<Span> {
        self.span()
    }

    fn read_bytes(&self) -> Option<usize> {
        match self {
            Self::Read { span } | Self::PassThroughRead { span } => Some(span.bytes()),
            _ => None,
        }
    }

    fn written_bytes(&self) -> usize {
        match self {
            Self::Write { data, .. } | Self::Bypass { data, .. } => data.len(),
            _ => 0,
        }
    }
}

impl Driven for Cache {
    type Request = cache::Request;

    fn submit(&mut self, id: RequestId, request: cache::Request) {
        self.submit(id, request);
    }

    fn completed(&mut self, io: IoId, outcome: Outcome) {
        self.completed(io, outcome);
    }

    fn ended(&mut self, ended: &mut Vec<Ended>) {
        self.ended(ended);
    }

    fn turn(&mut self, ios: &mut Vec<(IoId, DeviceIo)>) {
        if self.wants_mark() {
            self.marked();
        }
        self.turn(ios);
    }

    fn keep(&mut self, keep: Keep, data: Option<Data>) {
        self.keep(keep, data);
    }

    /// A day later.
    fn retry(&mut self) {
        let now = self.now() + Duration::from_secs(24 * 3600);
        self.work(now);
    }

    fn work(&mut self, now: Duration) -> Option<Duration> {
        self.work(now)
    }
}

impl Asked for cache::Request {
    fn span(&self) -> Option<Span> {
        match self {
            Self::Read { span } | Self::Write { span, .. } | Self::Trim { span } => Some(*span),
            Self::Flush | Self::Clean { .. } | Self::Settle { .. } | Self::PrepareStop => None,
        }
    }

    fn read_bytes(&self) -> Option<usize> {
        if let Self::Read { span } = self { Some(span.bytes()) } else { None }
    }

    fn written_bytes(&self) -> usize {
        if let Self::Write { data, .. } = self { data.len() } else { 0 }
    }
}
