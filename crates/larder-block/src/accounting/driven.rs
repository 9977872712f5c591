//! What can be driven without real time: a layout alone, or a cache on one.

use std::fmt;
use std::time::Duration;

use crate::cache::{self, Cache, Keep, RequestCompletion};
use crate::layout::{self, Data, DeviceIo, IoId, Layout, Outcome, RequestId, Span};

/// A component that decides and does no I/O.
pub trait Driven {
    /// The requests of clients.
    type Request: ClientRequest;
    /// Submits a request.
    fn submit(&mut self, id: RequestId, request: Self::Request);
    /// Reports the result of an I/O.
    fn completed(&mut self, io: IoId, outcome: Outcome);
    /// Appends the requests that have ended.
    fn ended(&mut self, ended: &mut Vec<RequestCompletion>);
    /// Appends the I/Os to carry out.
    fn turn(&mut self, ios: &mut Vec<(IoId, DeviceIo)>);
    /// Gives the data that is to be cached.
    fn keep(&mut self, keep: Keep, data: Option<Data>);
    /// Retries I/Os that a device has refused.
    fn retry(&mut self);
    /// Sets the time. Returns when it wants to be called again, if it does.
    fn work(&mut self, _now: Duration) -> Option<Duration> {
        None
    }
}

/// A request of a client.
pub trait ClientRequest: Clone + fmt::Debug {
    /// The sectors that it is about. They are exclusive, except for reads.
    fn span(&self) -> Option<Span>;
    /// The number of bytes that it reads.
    fn read_bytes(&self) -> Option<usize>;
    /// The number of bytes that it writes.
    fn written_bytes(&self) -> usize;
}

impl<L: Layout> Driven for L {
    type Request = layout::LayoutRequest;

    fn submit(&mut self, id: RequestId, request: layout::LayoutRequest) {
        Layout::submit(self, id, request);
    }

    fn completed(&mut self, io: IoId, outcome: Outcome) {
        Layout::completed(self, io, outcome);
    }

    fn ended(&mut self, ended: &mut Vec<RequestCompletion>) {
        let mut all = Vec::new();
        Layout::ended(self, &mut all);
        ended.extend(all.into_iter().map(|(id, ending)| RequestCompletion {
            id,
            ending,
            keep: None,
        }));
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

impl ClientRequest for layout::LayoutRequest {
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

    fn ended(&mut self, ended: &mut Vec<RequestCompletion>) {
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

    /// Sets the time to a day later.
    fn retry(&mut self) {
        let now = self.now() + Duration::from_secs(24 * 3600);
        self.work(now);
    }

    fn work(&mut self, now: Duration) -> Option<Duration> {
        self.work(now)
    }
}

impl ClientRequest for cache::Request {
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
