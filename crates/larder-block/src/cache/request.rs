//! Client requests to a cache, and their results.

use crate::layout::{CoreId, Data, Ending, RequestId, Span};

/// A client request to a cached core. A span begins and ends at a block of the cache device, and lies within the core.
#[derive(Clone, Debug)]
pub enum Request {
    /// Reads these sectors. The data arrives with the read I/Os that name the request.
    Read {
        /// The sectors.
        span: Span,
    },
    /// Writes these sectors. Ends when reads return the data. The data is durable then if `durable` is set, and always
    /// in the write-back modes unless the write [bypasses the cache](crate::policy::pressure::BypassPolicy). In all
    /// other cases it becomes durable with the next flush.
    Write {
        /// The sectors.
        span: Span,
        /// `span.bytes()` bytes.
        data: Data,
        /// Whether the data must survive a power loss once this ends.
        durable: bool,
    },
    /// Discards these sectors. Their content is undefined until it is written.
    Trim {
        /// The sectors.
        span: Span,
    },
    /// Ends when all requests that had ended before are durable.
    Flush,
    /// Destages a core in one pass. Ends when the core durably has what was dirty when the pass reached it.
    Clean {
        /// The core.
        core: CoreId,
    },
    /// Like `Clean`, and the cache device durably records it: after a crash only data written after this request was
    /// submitted is dirty.
    Settle {
        /// The core.
        core: CoreId,
    },
    /// Prepares an orderly stop. No request may follow. Ends when all requests that had ended before are durable, and
    /// the cache device has the metadata that a start after an orderly stop needs to find all cached data.
    PrepareStop,
}

impl Request {
    /// The core whose data is read or changed; `None` for other requests.
    pub(super) fn core(&self) -> Option<CoreId> {
        match self {
            Self::Read { span } | Self::Write { span, .. } | Self::Trim { span } => Some(span.core),
            Self::Flush | Self::Clean { .. } | Self::Settle { .. } | Self::PrepareStop => None,
        }
    }
}

/// A request that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestCompletion {
    /// The request.
    pub id: RequestId,
    /// Its result.
    pub ending: Ending,
    /// Of a read: the part to cache.
    pub keep: Option<Keep>,
}

/// Sectors whose data, as read, the caller must give to the cache ([`Cache::keep`](super::Cache::keep)). No request
/// writes these sectors before that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    pub(super) key: usize,
    /// The sectors.
    pub span: Span,
    /// Where they begin in the data of the read, in bytes.
    pub(super) from: usize,
}

impl Keep {
    /// Where the sectors lie in the data of the read, in bytes.
    pub fn bytes(&self) -> std::ops::Range<usize> {
        self.from..self.from + self.span.bytes()
    }
}
