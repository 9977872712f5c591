//! The progress of a cleaning.

use super::table::CoreLine;
use crate::layout::{Data, Span};

/// Lines whose dirty sectors are being written to their cores.
#[derive(Debug)]
pub(super) struct LineCleaning {
    /// Ordered by core and line.
    pub(super) lines: Vec<CleanedLine>,
    pub(super) phase: CleaningPhase,
    /// I/Os in flight, or pages that are not written yet.
    pub(super) outstanding: u32,
    pub(super) has_failed: bool,
}

impl LineCleaning {
    /// Whether it includes a line of `span`.
    pub(super) fn has_some_of(&self, span: Span, line_sectors: u32) -> bool {
        let line_sectors = u64::from(line_sectors);
        let numbers = span.first / line_sectors..=(span.end() - 1) / line_sectors;
        let is_in = |of: CoreLine| of.core == span.core.get() && numbers.contains(&of.number);
        self.lines.iter().any(|line| is_in(line.of))
    }
}

#[derive(Debug)]
pub(super) struct CleanedLine {
    pub(super) of: CoreLine,
    pub(super) line: u32,
    pub(super) dirty: u128,
    /// The whole line, once it was read.
    pub(super) data: Option<Data>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CleaningPhase {
    Reading,
    Writing,
    /// Flushes of the cores are in flight.
    FlushingCores,
    /// Waits for pages of the table.
    Pages,
    FlushingCache,
}
