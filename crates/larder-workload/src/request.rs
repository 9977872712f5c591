//! Requests, and the sources that they come from.

use std::sync::Arc;

use crate::Error;

/// What a client asks of the cache.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// Look the key up. A look-aside client stores the key after a miss.
    Get,
    /// Store a value. Stands for all commands that write a value (add, replace, cas, append, incr, …).
    Set,
    /// Remove the key.
    Delete,
}

/// One request of a workload: sizes, not contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Seconds since the first request of the workload.
    pub time_s: u32,
    /// Identity of the key: a number from the trace, or a hash of the key's text.
    pub key: u64,
    /// Length of the key.
    pub key_bytes: u32,
    /// Length of the value; 0 if the trace does not give it.
    pub value_bytes: u32,
    /// What the request asks for.
    pub op: Op,
    /// Seconds until a value that this request stores expires; 0 means never.
    pub ttl_s: u32,
}

impl Request {
    /// Size of key and value together, which cache traces call "object size".
    pub fn object_bytes(&self) -> u64 {
        u64::from(self.key_bytes) + u64::from(self.value_bytes)
    }
}

/// A stream of requests: a trace reader or a generator. It holds no more than a few megabytes, for a stream of any
/// length.
pub trait RequestSource: Send {
    /// The next request; `None` at the end.
    ///
    /// # Errors
    /// [`Error::Run`] with the file, the line and what was expected, if a trace is malformed.
    fn next_request(&mut self) -> Result<Option<Request>, Error>;

    /// The share of the stream that has been read, from 0 to 1, if it is known.
    fn progress(&self) -> Option<f64>;
}

/// A stream of requests that are in memory.
///
/// ```
/// use larder_workload::{Op, RecordedRequests, Request, RequestSource};
///
/// let get = Request { time_s: 0, key: 1, key_bytes: 8, value_bytes: 100, op: Op::Get, ttl_s: 0 };
/// let mut source = RecordedRequests::new([get, get].into());
/// assert_eq!((source.next_request()?, source.progress()), (Some(get), Some(0.5)));
/// assert_eq!((source.next_request()?, source.next_request()?), (Some(get), None));
/// # Ok::<(), larder_workload::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct RecordedRequests {
    requests: Arc<[Request]>,
    next: usize,
}

impl RecordedRequests {
    /// All of these requests, in their order.
    pub fn new(requests: Arc<[Request]>) -> Self {
        Self { requests, next: 0 }
    }
}

impl RequestSource for RecordedRequests {
    fn next_request(&mut self) -> Result<Option<Request>, Error> {
        let request = self.requests.get(self.next).copied();
        self.next += usize::from(request.is_some());
        Ok(request)
    }

    #[allow(clippy::cast_precision_loss)] // a share
    fn progress(&self) -> Option<f64> {
        Some(self.next as f64 / self.requests.len().max(1) as f64)
    }
}
