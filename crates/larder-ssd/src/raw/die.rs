//! State of each die: its failed blocks and its counters.
//!
//! The usable *capacity* of a die is all blocks but the spare. Each failure uses up a block of the spare. A failure
//! that finds no spare left makes the die read-only, because it could no longer provide its capacity. Then it allocates
//! no more blocks; its data can be read and erased, and allocated blocks can be programmed to their end.

use crate::error::{Error, ErrorKind};
use crate::nand::DieIndex;

/// Counters of a die, or of all dies of a channel. Pages are counted when they are programmed: the pages written to the
/// medium are exactly `appended_pages + migrated_pages`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DieCounters {
    /// Pages that the host programmed.
    pub appended_pages: u64,
    /// Pages that were copied from other blocks.
    pub migrated_pages: u64,
    /// Successful erases of blocks.
    pub erases: u64,
}

impl DieCounters {
    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            appended_pages: self.appended_pages + other.appended_pages,
            migrated_pages: self.migrated_pages + other.migrated_pages,
            erases: self.erases + other.erases,
        }
    }
}

/// A read-only view of one die.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DieView {
    /// Usable blocks while the spare lasts.
    pub capacity_blocks: u32,
    /// Blocks that a host can allocate now.
    pub free_blocks: u32,
    /// Remaining spare blocks.
    pub spare_blocks: u32,
    /// Unusable blocks: bad from the factory, or failed.
    pub failed_blocks: u32,
    /// Whether more blocks failed than the spare could replace.
    pub read_only: bool,
    /// Counters since the drive was created.
    pub counters: DieCounters,
}

/// The firmware's state of a die.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DieState {
    pub(super) failed: u32,
    pub(super) counters: DieCounters,
}

impl DieState {
    pub(super) fn programmed_pages(&self) -> u64 {
        self.counters.appended_pages + self.counters.migrated_pages
    }

    /// Remaining spare blocks, of `spare`.
    pub(super) fn spare_left(&self, spare: u32) -> u32 {
        spare.saturating_sub(self.failed)
    }

    pub(super) fn read_only(&self, spare: u32) -> bool {
        self.failed > spare
    }

    /// Refuses if `die`, whose spare is `spare`, accepts no more blocks.
    pub(super) fn check_takes_blocks(&self, die: DieIndex, spare: u32) -> Result<(), Error> {
        if !self.read_only(spare) {
            return Ok(());
        }
        let message = format!(
            "die {} is read-only: {} of its blocks failed and its spare was {spare}; read what it \
             holds and allocate on another die",
            die.0, self.failed
        );
        Err(Error::new(ErrorKind::ReadOnly, message))
    }
}
