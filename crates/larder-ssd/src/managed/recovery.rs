//! Power loss and recovery.
//!
//! The state on the media survives: which units are erased, open, full or retired and their role, how far they are
//! written, the out-of-band data of each page, and the counters. The forward map, the live bits, the victims and the
//! frontiers were in memory and are rebuilt:
//!
//! 1. Every programmed page is read. Of the places of one logical page the newest version wins; between an original and
//!    its copy the unit that was programmed last wins.
//! 2. Live bits and counts follow from the map.
//! 3. Open units become frontiers again, in their role. They are not padded: a power loss during a collection may leave
//!    no erased unit, and the room in the open units is needed to finish it.
//! 4. Full units become victims again, in the order in which they became full.
//! 5. If a group has no erased unit left, its interrupted collection is finished.
//!
//! Every completed write is present afterwards. Of the write that the power loss interrupted, a first part is present.
//! Deallocations since the last checkpoint may be undone: the page has its last written content again. The draws of
//! random policies and the ages of cost-benefit start over.

use super::ManagedSsd;
use super::frontier::Frontier;
use super::out_of_band::OutOfBand;
use super::sequential::Detector;
use super::units::{Owner, UnitState};
use super::victim::Victims;
use crate::error::{Error, ErrorKind};
use crate::nand::{BlockIndex, PageIndex};

/// The findings of a recovery after a power loss.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Programmed pages that were read.
    pub scanned_pages: u64,
    /// Logical pages that hold data.
    pub mapped_pages: u64,
    /// Units that were being filled, and remain open.
    pub reopened_units: u32,
}

impl ManagedSsd {
    /// Cuts the power between two commands. Everything is refused until [`Self::power_on`].
    ///
    /// # Errors
    /// [`ErrorKind::Config`] on a drive without out-of-band data, which could not recover.
    pub fn power_loss(&mut self) -> Result<(), Error> {
        self.cut_power_after(0)?;
        self.medium.power().turn_off();
        Ok(())
    }

    /// Makes the power fail after `programs` more page programs, counting host writes and copies. It fails in the
    /// middle of the command that exceeds this number, which returns [`ErrorKind::PowerLoss`].
    ///
    /// # Errors
    /// [`ErrorKind::Config`] on a drive without out-of-band data, which could not recover.
    pub fn cut_power_after(&mut self, programs: u64) -> Result<(), Error> {
        if self.out_of_band.is_none() {
            return Err(needs_out_of_band());
        }
        self.medium.power().fail_after(programs);
        Ok(())
    }

    /// Makes the deallocations so far durable. The drive does so by itself before an erase. The writes of a checkpoint
    /// are not counted. Does nothing without out-of-band data.
    pub fn checkpoint(&mut self) {
        if let Some(beside) = &mut self.out_of_band {
            beside.checkpoint(&self.map);
        }
    }

    /// Restores the power and rebuilds the maps from the media. On a drive that has power this is a power cycle.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] on a drive without out-of-band data.
    pub fn power_on(&mut self) -> Result<Recovery, Error> {
        let mut beside = self.out_of_band.take().ok_or_else(needs_out_of_band)?;
        beside.forget();
        let scanned_pages = self.rebuild_forward_map(&beside);
        self.out_of_band = Some(beside);
        let mapped_pages = self.rebuild_live();
        let reopened_units = self.rebuild_frontiers();
        self.rebuild_victims();
        self.sequential = self.config.save_sequential.map(Detector::new);
        self.medium.power().turn_on();
        self.finish_collections()?;
        Ok(Recovery { scanned_pages, mapped_pages, reopened_units })
    }

    /// The ordinal, from 1, of the host page write whose data `lpn` holds. `None` if it holds no data, or on a drive
    /// without out-of-band data.
    pub fn version_of(&self, lpn: u64) -> Option<u64> {
        let lpn = u32::try_from(lpn).ok().filter(|&n| (n as usize) < self.map.logical_pages())?;
        self.medium.word(PageIndex(self.map.physical(lpn)?))
    }

    /// Turns the power off and returns the error for it.
    #[cold]
    pub(super) fn power_failed(&mut self) -> Error {
        self.medium.power().turn_off();
        Error::new(ErrorKind::PowerLoss, "the drive has no power: power_on brings it back")
    }

    /// Writes the out-of-band data of the pages from `first` on, to which the host writes the logical pages from `lpn`
    /// on. Returns how many of the `count` pages it can write before the power fails: at least one.
    pub(super) fn program_beside(
        &mut self,
        first: u32,
        lpn: u32,
        count: u32,
    ) -> Result<u32, Error> {
        let Some(beside) = &mut self.out_of_band else { return Ok(count) };
        let admitted = self.medium.power().admit(count);
        if admitted == 0 {
            return Err(self.power_failed());
        }
        beside.host_writes(&mut self.medium, lpn, first, admitted);
        Ok(admitted)
    }

    /// Copies the out-of-band data of `source` to `destination`; false if the power failed before.
    pub(super) fn copy_beside(&mut self, source: u32, destination: u32) -> bool {
        let admitted = self.medium.power().admit(1) == 1;
        if admitted {
            self.medium.copy_word(PageIndex(source), PageIndex(destination));
        }
        admitted
    }

    fn rebuild_forward_map(&mut self, beside: &OutOfBand) -> u64 {
        let medium = &self.medium;
        self.map.forget_forward();
        let pages_per_unit = self.config.geometry.pages_per_unit;
        let mut scanned = 0;
        for unit in 0..self.config.geometry.units {
            if !matches!(self.units.get(unit).state, UnitState::Open | UnitState::Full) {
                continue;
            }
            let written = medium.block(BlockIndex(unit)).written;
            scanned += u64::from(written);
            let first = unit * pages_per_unit;
            for ppn in first..first + written {
                let version = medium.word(PageIndex(ppn));
                let (Some(version), Some(lpn)) = (version, self.map.logical(ppn)) else {
                    continue;
                };
                let last_program = |unit| medium.last_program(BlockIndex(unit));
                let age = |ppn| (medium.word(PageIndex(ppn)), last_program(self.map.unit_of(ppn)));
                let newer = self
                    .map
                    .physical(lpn)
                    .is_none_or(|other| (Some(version), last_program(unit)) > age(other));
                if newer && !beside.is_gone(lpn) {
                    self.map.place(lpn, ppn);
                }
            }
        }
        scanned
    }

    fn rebuild_live(&mut self) -> u64 {
        for unit in 0..self.config.geometry.units {
            self.map.clear_unit(unit);
            self.units.get_mut(unit).live = 0;
        }
        let mut mapped = 0;
        for lpn in (0..).take(self.map.logical_pages()) {
            if let Some(ppn) = self.map.physical(lpn) {
                mapped += 1;
                self.map.revive(ppn, 1);
                self.units.get_mut(self.map.unit_of(ppn)).live += 1;
            }
        }
        mapped
    }

    fn rebuild_frontiers(&mut self) -> u32 {
        self.frontiers.clear();
        let pages_per_unit = self.config.geometry.pages_per_unit;
        let mut reopened = 0;
        for unit in 0..self.config.geometry.units {
            let role = self.units.role(unit);
            let written = self.medium.block(BlockIndex(unit)).written;
            let entry = self.units.get_mut(unit);
            if entry.state != UnitState::Open {
                continue;
            }
            if written == 0 {
                // Opening a unit programs nothing, so this unit is still erased.
                entry.state = UnitState::Erased;
                entry.owner = Owner::Unowned;
                continue;
            }
            let first = unit * pages_per_unit;
            let frontier = Frontier { next: first + written, end: first + pages_per_unit };
            if self.frontiers.set(role, frontier) {
                reopened += 1;
            } else {
                self.pad(frontier);
            }
        }
        self.units.find_erased(&self.medium);
        reopened
    }

    fn rebuild_victims(&mut self) {
        let state = |unit: u32| self.units.get(unit).state;
        let mut full: Vec<u32> =
            (0..self.config.geometry.units).filter(|&u| state(u) == UnitState::Full).collect();
        full.sort_by_key(|&unit| self.medium.last_program(BlockIndex(unit)));
        self.victims = Victims::new(&self.config, self.sets());
        for unit in full {
            self.become_victim(unit);
        }
    }
}

fn needs_out_of_band() -> Error {
    Error::new(
        ErrorKind::Config,
        "this drive keeps no out-of-band data and could not come back from a power loss: set \
         out_of_band in its configuration",
    )
}
