//! The purposes of the I/Os in flight.

use std::ops::Range;

use crate::layout::RequestId;

/// The purpose of an I/O.
#[derive(Debug)]
pub(super) enum OcfPurpose {
    /// A client read, and its lines.
    Read { request: RequestId, lines: Vec<u32> },
    /// A write of the data of a change, to the cache device or to the core.
    Change { number: usize },
    /// A write of pages of the table.
    Pages { pages: Range<u32> },
    /// A write of entries of the log, for these lines.
    Journal { lines: Vec<u32> },
    /// A write of pages that are older than the log, or the flush after it.
    Copy,
    /// Part of a cleaning. `first`: its first line, if it is about lines.
    Cleaning { number: usize, first: usize },
    /// A write of the table before a stop.
    Stop,
    /// A client flush.
    Flush { request: RequestId },
}
