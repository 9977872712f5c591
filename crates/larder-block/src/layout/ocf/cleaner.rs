//! How far a cleaning has come.

use super::table::CoreLine;
use crate::layout::{Data, Span};

/// Some lines whose dirty sectors go to their cores.
#[derive(Debug)]
pub(super) struct Cleaning {
    /// In the order of their cores.
    pub(super) lines: Vec<Cleaned>,
    pub(super) phase: Phase,
    /// I/Os, or pages, that have not ended.
    pub(super) outstanding: u32,
    pub(super) has_failed: bool,
}

impl Cleaning {
    /// Whether something of `span` is among it.
    pub(super) fn has_some_of(&self, span: Span, line_sectors: u32) -> bool {
        let line_sectors = u64::from(line_sectors);
        let numbers = span.first / line_sectors..=(span.end() - 1) / line_sectors;
        let is_in = |of: CoreLine| of.core == span.core.get() && numbers.contains(&of.number);
        self.lines.iter().any(|line| is_in(line.of))
    }
}

#[derive(Debug)]
pub(super) struct Cleaned {
    pub(super) of: CoreLine,
    pub(super) line: u32,
    pub(super) dirty: u128,
    /// All of the line, once it was read.
    pub(super) data: Option<Data>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Reading,
    Writing,
    /// Flushes of the cores.
    FlushingCores,
    /// Pages of the table.
    Pages,
    FlushingCache,
}
