//! What the firmware keeps of each die: how many of its blocks failed, and what was done to it.
//!
//! A die serves with its *capacity*: all blocks but the spare. Each failure uses up a block of the
//! spare. The failure that finds no spare makes the die read-only: it could not hold what its owner
//! was promised. It allocates nothing any more; what it holds can be read and erased, and blocks
//! that are allocated can be programmed to their end.

use crate::error::{Error, ErrorKind};
use crate::nand::DieIndex;

/// What was done to a die, or to all dies of a channel. Pages are counted when they are programmed:
/// what the medium was written is `appended_pages + migrated_pages`, exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DieCounters {
    /// Pages that the host programmed.
    pub appended_pages: u64,
    /// Pages that were copied from other blocks.
    pub migrated_pages: u64,
    /// Erases of blocks that succeeded.
    pub erases: u64,
}

impl DieCounters {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            appended_pages: self.appended_pages + other.appended_pages,
            migrated_pages: self.migrated_pages + other.migrated_pages,
            erases: self.erases + other.erases,
        }
    }
}

/// One die, for those who look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DieView {
    /// Blocks that it serves with while its spare lasts.
    pub capacity_blocks: u32,
    /// Blocks that a host can allocate now.
    pub free_blocks: u32,
    /// Blocks that are left to take the place of others.
    pub spare_blocks: u32,
    /// Blocks that are out of use: bad from the factory, or failed.
    pub failed_blocks: u32,
    /// More failed than the spare could replace.
    pub read_only: bool,
    /// What was done to it since the drive was made.
    pub counters: DieCounters,
}

/// What the firmware keeps of a die.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DieState {
    pub(super) failed: u32,
    pub(super) counters: DieCounters,
}

impl DieState {
    pub(super) fn programmed_pages(&self) -> u64 {
        self.counters.appended_pages + self.counters.migrated_pages
    }

    /// Blocks of a spare of `spare` that are left.
    pub(super) fn spare_left(&self, spare: u32) -> u32 {
        spare.saturating_sub(self.failed)
    }

    pub(super) fn read_only(&self, spare: u32) -> bool {
        self.failed > spare
    }

    /// Refuses if `die`, whose spare is `spare`, takes no more blocks.
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
