//! Options and results of a check.

use std::fmt;

/// Options of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fsck {
    /// Read all pages of files, and verify their checksums.
    pub data: bool,
}

/// The results of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Findings, one sentence each; at most a thousand.
    pub findings: Vec<String>,
    /// Number of further findings.
    pub more_findings: u64,
    /// Number of inodes.
    pub inodes: u64,
    /// Number of directories.
    pub directories: u64,
    /// Inodes without a name that the next opening removes.
    pub orphans: u64,
    /// Pages of data.
    pub data_pages: u64,
    /// Blocks of the log.
    pub blocks: u64,
    /// Batches after the last checkpoint.
    pub batches: u64,
}

const FINDINGS_MAX: usize = 1000;

impl Report {
    /// Whether there are no findings.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    pub(super) fn found(&mut self, what: impl Into<String>) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(what.into());
        } else {
            self.more_findings += 1;
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(f, "{finding}")?;
        }
        if self.more_findings > 0 {
            writeln!(f, "and {} more findings", self.more_findings)?;
        }
        let Self { inodes, directories, orphans, data_pages, blocks, batches, .. } = self;
        write!(
            f,
            "{inodes} inodes ({directories} directories, {orphans} without a name), {data_pages} pages of data, \
             {blocks} blocks, {batches} batches since the checkpoint: {}",
            if self.is_clean() { "clean" } else { "damaged" }
        )
    }
}
