//! Blocks whose data has moved to another die. They are erased when it suits the tenants of their dies: an erase keeps
//! a die busy for milliseconds.
//!
//! Nothing of this is stored. After a power loss the newer copy of equally long ones is the part, and the older has no
//! owner.

use larder_ssd::Error;
use larder_ssd::nand::{BlockIndex, DieIndex, Health};

use super::{Vssds, erase};
use crate::images::Images;

/// Old copies: at most one for each die that is being swapped.
#[derive(Debug, Default)]
pub(super) struct OldCopies(Vec<OldCopy>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OldCopy {
    drive: u32,
    die: DieIndex,
    block: BlockIndex,
}

impl OldCopies {
    pub(super) fn contains(&self, drive: u32, block: BlockIndex) -> bool {
        self.0.iter().any(|old| (old.drive, old.block) == (drive, block))
    }

    fn is_on(&self, drive: u32, die: DieIndex) -> bool {
        self.0.iter().any(|old| (old.drive, old.die) == (drive, die))
    }

    fn take(&mut self, drive: u32, die: DieIndex) -> Option<OldCopy> {
        let at = self.0.iter().position(|old| (old.drive, old.die) == (drive, die))?;
        Some(self.0.remove(at))
    }
}

impl<I: Images> Vssds<I> {
    /// Dies with an old copy of a part that has moved, with their drives. A swap ends only when these are erased.
    pub fn old_copies(&self) -> Vec<(u32, DieIndex)> {
        self.old_copies.0.iter().map(|old| (old.drive, old.die)).collect()
    }

    pub(super) fn has_old_copy(&self, drive: u32, die: DieIndex) -> bool {
        self.old_copies.is_on(drive, die)
    }

    /// Leaves `block`, whose data has moved, to be erased later. A block that cannot be erased is out of use.
    pub(super) fn leave_old_copy(&mut self, drive: u32, block: BlockIndex) {
        let raw = &self.drives[drive as usize];
        let Some(view) = raw.block(block) else { return };
        debug_assert!(!self.old_copies.is_on(drive, view.die), "one at a time");
        if matches!(view.health, Health::Good | Health::Torn) {
            self.old_copies.0.push(OldCopy { drive, die: view.die, block });
        }
    }

    /// Erases the old copy on `die`, if there is one. Returns whether there was.
    ///
    /// # Errors
    /// [`PowerLoss`](larder_ssd::ErrorKind::PowerLoss).
    pub fn erase_old_copy(&mut self, drive: u32, die: DieIndex) -> Result<bool, Error> {
        let Some(OldCopy { block, .. }) = self.old_copies.take(drive, die) else {
            return Ok(false);
        };
        self.erase_for_move(drive, die, block)?;
        Ok(true)
    }

    /// Erases all old copies.
    pub(super) fn erase_old_copies(&mut self) -> Result<(), Error> {
        for (drive, die) in self.old_copies() {
            self.erase_old_copy(drive, die)?;
        }
        Ok(())
    }

    /// Erases `block` of `die`, and counts that as an erase for a move.
    pub(super) fn erase_for_move(
        &mut self,
        drive: u32,
        die: DieIndex,
        block: BlockIndex,
    ) -> Result<(), Error> {
        let before = self.erases_of(drive, die);
        erase(&mut self.drives[drive as usize], block)?;
        let erased = self.erases_of(drive, die) - before;
        self.levelling_mut(drive).dies[die.at()].spent += erased;
        Ok(())
    }
}
