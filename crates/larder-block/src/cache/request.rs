//! What users ask of a cache, and how that ends.

use crate::layout::{CoreId, Data, Ending, RequestId, Span};

/// What a user wants of a core behind the cache. A span begins and ends with a block of the cache device, and ends
/// within the core.
#[derive(Clone, Debug)]
pub enum Request {
    /// The data of these sectors. They arrive with the reads that name the request.
    Read {
        /// Which.
        span: Span,
    },
    /// Ends when a read finds the data; durable then if so wanted. In the write-back modes in any case, unless it
    /// [passes by](crate::policy::pressure::BypassPolicy): then, as in the others, with the next flush.
    Write {
        /// Where.
        span: Span,
        /// `span.bytes()` of them.
        data: Data,
        /// Whether they have to outlive a loss of power when this ends.
        durable: bool,
    },
    /// What is in these sectors is of no use any more. Their content is undefined until it is written.
    Trim {
        /// Which.
        span: Span,
    },
    /// Ends when all that has ended before is durable.
    Flush,
    /// Ends when the core has durably what was dirty of it when this came to it: in one pass over the core.
    Clean {
        /// Whose dirty data.
        core: CoreId,
    },
    /// The same, and the cache device says so durably: after a crash nothing of it is dirty but what was written after
    /// this had come.
    Settle {
        /// Whose dirty data.
        core: CoreId,
    },
    /// No other request comes any more. Ends when all that has ended before is durable, and the cache device has what
    /// a start after an orderly stop needs to find all that is cached.
    PrepareStop,
}

impl Request {
    /// Whose data it is about; `None` of what is no read and no change of some.
    pub(super) fn core(&self) -> Option<CoreId> {
        match self {
            Self::Read { span } | Self::Write { span, .. } | Self::Trim { span } => Some(span.core),
            Self::Flush | Self::Clean { .. } | Self::Settle { .. } | Self::PrepareStop => None,
        }
    }
}

/// A request that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Which.
    pub id: RequestId,
    /// How.
    pub ending: Ending,
    /// Of a read: what shall be kept.
    pub keep: Option<Keep>,
}

/// Sectors whose data, as they were read, shall be given to the cache ([`Cache::keep`](super::Cache::keep)). Nobody
/// writes there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    pub(super) key: usize,
    /// Which.
    pub span: Span,
    /// Where in what was read they begin, in bytes.
    pub(super) from: usize,
}

impl Keep {
    /// Which bytes of what was read they are.
    pub fn bytes(&self) -> std::ops::Range<usize> {
        self.from..self.from + self.span.bytes()
    }
}
