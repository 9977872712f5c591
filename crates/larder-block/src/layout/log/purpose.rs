//! The purposes of the log's I/Os in flight.

use super::cores::WriteCounts;
use super::grace::GracePhase;
use super::index::MappedExtent;
use crate::layout::{CoreId, RequestId, Span};

/// Why dirty data goes to the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mover {
    /// From memory, because it belongs to a stream.
    Streams,
    /// Its segment is drained; the attempt.
    Drain(u64),
    /// A request wants it clean.
    Request(RequestId),
}

/// The purpose of an I/O.
#[derive(Debug)]
pub(super) enum LogPurpose {
    /// A client read; the segment that it pins.
    Read { request: RequestId, segment: Option<u32> },
    /// An overwrite in place.
    Overwrite { request: RequestId, segment: u32, phase: GracePhase },
    /// The write of a batch. Ids of I/Os are reused after their completion; a batch lives longer than that.
    Append { sequence: u64 },
    /// A read of this data of a draining segment.
    DrainRead { found: Vec<MappedExtent>, attempt: u64 },
    /// A read for a cleaning request.
    CleaningRead { found: Vec<MappedExtent>, request: RequestId },
    /// A write of dirty data to the core.
    Destage { found: Vec<MappedExtent>, mover: Mover },
    /// A write around.
    Bypass { request: RequestId, span: Span, durable: bool },
    /// A flush of a core that a write around waits for.
    FlushBefore { core: CoreId, covers: WriteCounts, request: RequestId },
    /// The flush of a core that ends a cleaning, except for markers.
    FlushCleaned { core: CoreId, covers: WriteCounts, request: RequestId },
    /// A flush of a core: the writes that it covers, and the request that waits for it.
    Flush { core: CoreId, covers: WriteCounts, request: Option<RequestId> },
}
