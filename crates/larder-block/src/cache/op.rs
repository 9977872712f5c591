//! Requests in flight: their current step, and the purpose of their I/Os.

use super::admission::IoStart;
use super::request::Request;
use crate::layout::{ClassId, CoreId, Data, IoId, RequestId, Span, Target};

/// A client request, or an internal one.
#[derive(Debug)]
pub(super) struct Op {
    /// The client's request.
    pub(super) user: RequestId,
    pub(super) what: OpKind,
    pub(super) step: Step,
    /// Its IO class, set when it begins.
    pub(super) class: ClassId,
    /// The data of a write, or of a read that is to be cached.
    pub(super) data: Option<Data>,
    /// Of data to be cached: whether the lock is held.
    pub(super) is_locked: bool,
    /// Of data to be cached: whether the caller has answered with [`keep`](super::Cache::keep).
    pub(super) is_given: bool,
    /// Errors of the cache device when the current step began.
    pub(super) cache_errors: u64,
}

#[derive(Debug)]
pub(super) enum OpKind {
    Read(Span),
    Write {
        span: Span,
        durable: bool,
    },
    Trim(Span),
    Flush,
    PrepareStop,
    Clean(Clean),
    /// Read-ahead of a stream.
    Ahead(Span),
    /// Part of the cleaning of a whole core (`of`), or for the cleaning policy.
    Destage {
        span: Span,
        of: Option<usize>,
    },
    /// Destaging for an IO class that is full of dirty data.
    Relieve {
        class: ClassId,
        sectors: u64,
    },
}

/// The cleaning of a core.
#[derive(Debug)]
pub(super) struct Clean {
    pub(super) core: CoreId,
    /// Whether the cache device must record durably that the core is clean.
    pub(super) settles: bool,
    /// Whether the first chunk is settled once more when no sector looks dirty. This waits for data that does not look
    /// dirty because a write in flight displaced it.
    pub(super) closes: bool,
    /// All sectors before this one are clean, or their destage is in flight.
    pub(super) next: Option<u64>,
    pub(super) outstanding: usize,
    pub(super) has_failed: bool,
}

impl Clean {
    pub(super) fn new(core: CoreId, settles: bool) -> Self {
        Self { core, settles, closes: settles, next: None, outstanding: 0, has_failed: false }
    }
}

/// What an op waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The lock of its range.
    Lock,
    /// The layout's read; `keep` is the part to cache.
    Read { keep: Option<Span> },
    /// The layout's read of dirty data and of the core.
    PassThroughRead,
    /// The layout's read of the core, of data that is cached and clean.
    CoreHit,
    /// The data of the core that is read ahead.
    Ahead,
    /// The data to be cached, or its lock.
    Given(Span),
    /// The layout's insertion into the cache.
    Insert,
    /// The layout's write.
    WriteBack,
    /// The layout's write around the cache; `keeps`: the data is cached afterwards.
    Bypass { keeps: bool },
    /// An I/O of the core alone, because the cache device has failed.
    Core,
    /// The layout's invalidation.
    Discard,
    /// The core's trim.
    Trim,
    /// The layout's flush.
    Flush,
    /// The layout's destage.
    Destage,
    /// A destage for an IO class.
    Relieve,
}

/// An I/O in flight.
#[derive(Clone, Copy, Debug)]
pub(super) enum IoUnderWay {
    /// An I/O of the layout.
    Layout { io: IoId, target: Target, reads: bool, start: IoStart },
    /// An I/O that the cache itself does for an op.
    Own { key: usize, target: Target, reads: bool },
}

impl Op {
    pub(super) fn new(user: RequestId, request: Request) -> Self {
        let (what, data) = match request {
            Request::Read { span } => (OpKind::Read(span), None),
            Request::Write { span, data, durable } => (OpKind::Write { span, durable }, Some(data)),
            Request::Trim { span } => (OpKind::Trim(span), None),
            Request::Flush => (OpKind::Flush, None),
            Request::Clean { core } => (OpKind::Clean(Clean::new(core, false)), None),
            Request::Settle { core } => (OpKind::Clean(Clean::new(core, true)), None),
            Request::PrepareStop => (OpKind::PrepareStop, None),
        };
        Self { data, ..Self::of(user, what) }
    }

    /// An op without data.
    pub(super) fn of(user: RequestId, what: OpKind) -> Self {
        Self {
            user,
            what,
            step: Step::Lock,
            class: ClassId::UNCLASSIFIED,
            data: None,
            is_locked: false,
            is_given: false,
            cache_errors: 0,
        }
    }

    /// The lock that it needs, and whether the lock is exclusive.
    pub(super) fn lock(&self) -> Option<(Span, bool)> {
        match &self.what {
            OpKind::Read(span) => Some((*span, false)),
            OpKind::Write { span, .. } | OpKind::Trim(span) | OpKind::Ahead(span) => {
                Some((*span, true))
            }
            OpKind::Flush
            | OpKind::PrepareStop
            | OpKind::Clean(_)
            | OpKind::Destage { .. }
            | OpKind::Relieve { .. } => None,
        }
    }

    pub(super) fn span(&self) -> Span {
        let (span, _) = self.lock().expect("it is about a range");
        span
    }
}
