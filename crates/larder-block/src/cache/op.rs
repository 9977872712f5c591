//! Requests under way: which step they are at, and what I/Os are for.

use std::time::Duration;

use super::request::Request;
use crate::layout::{ClassId, CoreId, Data, IoId, RequestId, Span, Target};
use crate::policy::pressure::CoreIo;

/// A request, or what comes of one.
#[derive(Debug)]
pub(super) struct Op {
    /// Whose it is.
    pub(super) user: RequestId,
    pub(super) what: What,
    pub(super) step: Step,
    /// Its IO class, of what has begun.
    pub(super) class: ClassId,
    /// Of a write, and of what is kept.
    pub(super) data: Option<Data>,
    /// Whether it holds its lock, of what is kept.
    pub(super) is_locked: bool,
    /// Whether whoever read it has answered.
    pub(super) is_given: bool,
    /// Errors of the cache device when its step began.
    pub(super) cache_errors: u64,
}

#[derive(Debug)]
pub(super) enum What {
    Read(Span),
    Write {
        span: Span,
        durable: bool,
    },
    Trim(Span),
    Flush,
    PrepareStop,
    Clean(Clean),
    /// What is read ahead of a stream.
    Ahead(Span),
    /// For one that cleans a whole core, or for the cleaning policy.
    Destage {
        span: Span,
        of: Option<usize>,
    },
    /// For an IO class that is full of dirty data.
    Relieve {
        class: ClassId,
        sectors: u64,
    },
}

/// A core that is cleaned.
#[derive(Debug)]
pub(super) struct Clean {
    pub(super) core: CoreId,
    /// Whether the cache device is to say that it is clean.
    pub(super) settles: bool,
    /// Whether the first chunk is to be settled once more when nothing looks dirty: what does not because a write that
    /// is under way displaced it is waited for then.
    pub(super) closes: bool,
    /// What is in front of it is clean, or under way.
    pub(super) next: Option<u64>,
    pub(super) outstanding: usize,
    pub(super) has_failed: bool,
}

impl Clean {
    pub(super) fn new(core: CoreId, settles: bool) -> Self {
        Self { core, settles, closes: settles, next: None, outstanding: 0, has_failed: false }
    }
}

/// What it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Its lock.
    Lock,
    /// The layout's read; what shall be kept of it.
    Read { keep: Option<Span> },
    /// The layout's read of what is dirty, and of the core.
    PassThroughRead,
    /// The layout's read of the core, of what is cached and clean.
    CoreHit,
    /// The core's data that are read ahead.
    Ahead,
    /// The data of what shall be kept, or its lock.
    Given(Span),
    /// The layout, that it is kept.
    Insert,
    /// The layout's write.
    WriteBack,
    /// The layout's write around; whether it is kept then.
    Bypass { keeps: bool },
    /// The core alone: the cache device has failed.
    Core,
    /// The layout, that it is void.
    Discard,
    /// The core's trim.
    Trim,
    /// The layout's flush.
    Flush,
    /// The layout's destaging.
    Destage,
    /// The same for an IO class.
    Relieve,
}

/// An I/O under way.
#[derive(Clone, Copy, Debug)]
pub(super) enum IoUnderWay {
    /// Of the layout. Of a user's read of the cache device, and of a core's I/O, when it began, if routing is tuned; of
    /// a core's, what it costs, if that is measured.
    Layout {
        io: IoId,
        target: Target,
        reads: bool,
        began: Option<Duration>,
        of_core: Option<CoreIo>,
    },
    /// Of a request, without the layout.
    Own { key: usize, target: Target, reads: bool },
}

impl Op {
    pub(super) fn new(user: RequestId, request: Request) -> Self {
        let (what, data) = match request {
            Request::Read { span } => (What::Read(span), None),
            Request::Write { span, data, durable } => (What::Write { span, durable }, Some(data)),
            Request::Trim { span } => (What::Trim(span), None),
            Request::Flush => (What::Flush, None),
            Request::Clean { core } => (What::Clean(Clean::new(core, false)), None),
            Request::Settle { core } => (What::Clean(Clean::new(core, true)), None),
            Request::PrepareStop => (What::PrepareStop, None),
        };
        Self { data, ..Self::of(user, what) }
    }

    /// One without data.
    pub(super) fn of(user: RequestId, what: What) -> Self {
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

    /// The lock that it needs, and whether for itself alone.
    pub(super) fn lock(&self) -> Option<(Span, bool)> {
        match &self.what {
            What::Read(span) => Some((*span, false)),
            What::Write { span, .. } | What::Trim(span) | What::Ahead(span) => Some((*span, true)),
            What::Flush
            | What::PrepareStop
            | What::Clean(_)
            | What::Destage { .. }
            | What::Relieve { .. } => None,
        }
    }

    pub(super) fn span(&self) -> Span {
        let (span, _) = self.lock().expect("it is about a range");
        span
    }
}
