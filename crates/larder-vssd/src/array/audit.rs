//! Checks that the state of the array agrees with the content of the drives. For tests and tools: it scans everything.

use std::collections::BTreeMap;

use larder_ssd::nand::{BlockIndex, DieIndex, Health};

use super::Vssds;
use crate::images::Images;
use crate::state::LENT_SEAT;

impl<I: Images> Vssds<I> {
    /// Checks that each physical block is part of at most one logical block, on a die of its seat; that all written
    /// blocks belong to a vSSD; that no part is longer than the stripes of its block; and that no vSSD exceeds its
    /// quota on a die.
    ///
    /// # Errors
    /// The first disagreement, in words.
    pub fn audit(&self) -> Result<(), String> {
        let mut owners = BTreeMap::new();
        for (&id, vssd) in &self.ledger.state().vssds {
            let mut of_seat = vec![0; vssd.seats.len()];
            for slot in vssd.table.live_slots() {
                let stripes = self.written_of(vssd, slot)
                    / u64::from(self.ledger.state().shape.geometry.stripe_pages());
                let mut held = 0;
                for member in 0..vssd.table.width() {
                    let seat = vssd.seat(slot, member);
                    held += u64::from(self.rows(vssd, slot, member));
                    let Some(block) = vssd.table.member(slot, member) else { continue };
                    of_seat[vssd.seat_at(slot, member)] += u32::from(seat.id != LENT_SEAT);
                    let number = vssd.table.number(slot);
                    if let Some(other) = owners.insert((seat.drive, block), (id, number)) {
                        return Err(format!("{block:?} is of {other:?} and of {id}, {number}"));
                    }
                    let die = self.ledger.state().shape.geometry.die_of(block);
                    let (home, other) = self.dies_of(&seat);
                    if die != home && die != other && !self.is_at_its_end(seat.drive, home) {
                        return Err(format!("{block:?} of {seat:?} is on {die:?}"));
                    }
                }
                if held != stripes {
                    return Err(format!("vSSD {id}, {slot:?}: {held} stripes, {stripes} in a row"));
                }
            }
            let quota = self.ledger.state().shape.quota(vssd.seats[0].planes);
            if let Some(most) = of_seat.iter().find(|&&blocks| blocks > quota) {
                return Err(format!("vSSD {id} has {most} blocks of a die, of {quota}"));
            }
        }
        self.check_loans()?;
        self.check_unowned(&owners)
    }

    pub(super) fn is_at_its_end(&self, drive: u32, die: DieIndex) -> bool {
        self.drives[drive as usize].die(die).is_none_or(|view| view.read_only)
    }

    /// Checks that every allocated block that can be erased is part of a logical block, or waits to be erased.
    fn check_unowned(
        &self,
        owners: &BTreeMap<(u32, BlockIndex), (u32, u64)>,
    ) -> Result<(), String> {
        for (drive, raw) in (0..).zip(&self.drives) {
            for (block, view) in (0..).map(BlockIndex).zip(raw.blocks()) {
                let erasable = matches!(view.health, Health::Good | Health::Torn);
                let waits =
                    self.old_copies.contains(drive, block) || self.loans.waits(drive, block);
                let owned = waits || owners.contains_key(&(drive, block));
                if view.allocated && erasable && !owned {
                    return Err(format!("{block:?} of drive {drive} has no owner: {view:?}"));
                }
                if owned && !view.allocated {
                    return Err(format!("{block:?} of drive {drive} is free, and part of a block"));
                }
            }
        }
        Ok(())
    }
}
