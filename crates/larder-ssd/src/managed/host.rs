//! Host commands: write, deallocate, close a unit.
//!
//! Many single pages can be written in one call. A random overwrite waits for two cache lines, one after the other: the
//! forward entry of the page, then the live bits around its old place. With one page at a time, the branches on these
//! values keep the next page from starting. A batch loads all forward entries first, then all live bits, and only then
//! does the work: the waits overlap, and the result is the same.

use super::ManagedSsd;
use super::events::Event;
use super::frontier::{Frontier, Placement};
use super::map::TOUCHED_MAX;
use super::options::{InvalidPid, VictimScope};
use super::units::UnitState;
use crate::error::{Error, ErrorKind};
use crate::nand::{BlockIndex, PageIndex};

impl ManagedSsd {
    /// Writes `pages` logical pages from `lpn` on, with placement handle `handle` of group 0.
    ///
    /// # Errors
    /// As [`Self::write_placed`].
    pub fn write(&mut self, lpn: u64, pages: u64, handle: u16) -> Result<(), Error> {
        self.write_placed(Placement { group: 0, handle }, lpn, pages)
    }

    /// Writes `pages` logical pages from `lpn` on, with `placement`.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`] for pages or placements that the drive does not have; nothing was written.
    /// [`ErrorKind::NoSpace`], [`ErrorKind::ReadOnly`] and [`ErrorKind::PowerLoss`]: a first part may have been
    /// written, and is counted.
    pub fn write_placed(
        &mut self,
        placement: Placement,
        lpn: u64,
        pages: u64,
    ) -> Result<(), Error> {
        let (mut lpn, mut left) = self.check_range(lpn, pages)?;
        self.check_writable()?;
        // The first stream of a group belongs to handle 0, so the handle is known without a division.
        let (mut index, handle) = match self.frontiers.index_of(placement) {
            Some(index) => (index, usize::from(placement.handle)),
            None => (self.resolve(placement)?, 0),
        };
        debug_assert_eq!(handle, self.frontiers.stream_of(index));
        if self.sequential.is_some() && self.is_sequential(lpn, left) {
            index = self.frontiers.sequential();
        }
        while left > 0 {
            let mut frontier = self.frontiers.host(index);
            if frontier.room() == 0 {
                self.open_for_host(index)?;
                frontier = self.frontiers.host(index);
            }
            let mut count = left.min(frontier.room());
            if self.out_of_band.is_some() {
                count = self.program_beside(frontier.next, lpn, count)?;
            }
            self.frontiers.host_mut(index).next = frontier.next + count;
            self.fill(frontier.next, lpn, count);
            self.stats.host_pages += u64::from(count);
            self.stats.media_pages += u64::from(count);
            self.stats.host_pages_by_handle[handle] += u64::from(count);
            lpn += count;
            left -= count;
        }
        Ok(())
    }

    /// Writes each of the pages `lpns`, in order, with placement handle `handle` of group 0.
    ///
    /// # Errors
    /// As [`Self::write_scattered_placed`].
    pub fn write_scattered(&mut self, lpns: &[u32], handle: u16) -> Result<(), Error> {
        self.write_scattered_placed(Placement { group: 0, handle }, lpns)
    }

    /// Writes each of the pages `lpns`, in order, with `placement`. The effect is that of one call of
    /// [`Self::write_placed`] per page, but several times as fast if the pages are far apart and the maps of the drive
    /// are larger than the CPU caches.
    ///
    /// # Errors
    /// As [`Self::write_placed`]; a page out of range is refused before any page is written.
    pub fn write_scattered_placed(
        &mut self,
        placement: Placement,
        lpns: &[u32],
    ) -> Result<(), Error> {
        for &lpn in lpns {
            self.check_range(u64::from(lpn), 1)?;
        }
        // Out-of-band data and stream detection need the pages one by one.
        let beside = self.out_of_band.is_some() || self.sequential.is_some();
        let index = match self.frontiers.index_of(placement) {
            Some(index) if !beside => index,
            None if !beside && self.is_known(placement) => 0,
            _ => {
                return lpns
                    .iter()
                    .try_for_each(|&lpn| self.write_placed(placement, u64::from(lpn), 1));
            }
        };
        self.check_writable()?;
        lpns.chunks(TOUCHED_MAX).try_for_each(|batch| {
            self.map.touch(batch);
            self.write_batch(index, batch)
        })
    }

    fn write_batch(&mut self, index: usize, mut lpns: &[u32]) -> Result<(), Error> {
        while !lpns.is_empty() {
            if self.frontiers.host(index).room() == 0 {
                self.open_for_host(index)?;
            }
            let frontier = self.frontiers.host_mut(index);
            let (now, later) = lpns.split_at(lpns.len().min(frontier.room() as usize));
            let first = frontier.next;
            let count = narrow(now.len());
            frontier.next += count;
            self.fill_scattered(first, now, count);
            self.stats.host_pages += u64::from(count);
            self.stats.media_pages += u64::from(count);
            self.stats.host_pages_by_handle[self.frontiers.stream_of(index)] += u64::from(count);
            lpns = later;
        }
        Ok(())
    }

    /// Deallocates `pages` logical pages from `lpn` on.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`] for pages that the drive does not have; [`ErrorKind::ReadOnly`] and
    /// [`ErrorKind::PowerLoss`]. In all cases nothing was deallocated.
    pub fn deallocate(&mut self, lpn: u64, pages: u64) -> Result<(), Error> {
        let (lpn, pages) = self.check_range(lpn, pages)?;
        self.check_writable()?;
        let end = lpn + pages;
        let mut next = lpn;
        while let Some((at, run)) = self.kill_next_run(next, end) {
            self.map.unmap(at, run);
            self.stats.deallocated_pages += u64::from(run);
            if let Some(beside) = &mut self.out_of_band {
                beside.deallocated(at, run);
            }
            next = at + run;
        }
        Ok(())
    }

    /// Closes the unit that `handle` of group 0 is filling (NVMe: reclaim unit handle update). The rest of the unit is
    /// padded.
    ///
    /// # Errors
    /// As [`Self::update_placed`].
    pub fn update_handle(&mut self, handle: u16) -> Result<(), Error> {
        self.update_placed(Placement { group: 0, handle })
    }

    /// Closes the unit that `placement` is filling. The rest of the unit is padded.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`] for a placement that the drive does not have, or does not use
    /// because FDP is disabled; [`ErrorKind::ReadOnly`] and [`ErrorKind::PowerLoss`].
    pub fn update_placed(&mut self, placement: Placement) -> Result<(), Error> {
        self.check_writable()?;
        let Some(index) = self.frontiers.index_of(placement) else {
            return Err(self.unknown(placement));
        };
        if let Some((unit, pages)) = self.close_unit(index) {
            self.events.record(Event::NotFullyWritten { placement, unit, pages });
        }
        Ok(())
    }

    /// A controller level reset of a drive that does not keep its handles' positions: closes the unit that each handle
    /// is filling. The rest of each unit is padded.
    ///
    /// # Errors
    /// [`ErrorKind::ReadOnly`] and [`ErrorKind::PowerLoss`].
    pub fn reset_handles(&mut self) -> Result<(), Error> {
        self.check_writable()?;
        for index in self.frontiers.host_indices() {
            if let Some((unit, pages)) = self.close_unit(index) {
                let placement = self.frontiers.placement_of(index);
                self.events.record(Event::ResetModified { placement, unit, pages });
            }
        }
        Ok(())
    }

    /// Pages that `handle` of group 0 can write before its unit is full (NVMe: RUAMW). A handle
    /// without an open unit has a whole one.
    pub fn available_pages(&self, handle: u16) -> u32 {
        self.available_pages_placed(Placement { group: 0, handle })
    }

    /// Pages that `placement` can write before its unit is full.
    pub fn available_pages_placed(&self, placement: Placement) -> u32 {
        match self.frontiers.index_of(placement).map(|index| self.frontiers.host(index).room()) {
            Some(room) if room > 0 => room,
            _ => self.config.geometry.pages_per_unit,
        }
    }

    /// Live pages in the units of reclaim group `group`; 0 if there is no such group. Scans the units of the group.
    pub fn live_pages_of_group(&self, group: u16) -> u64 {
        if group >= self.config.groups {
            return 0;
        }
        let units = self.units.of_group(usize::from(group));
        units.map(|unit| u64::from(self.units.get(unit).live)).sum()
    }

    #[inline]
    pub(crate) fn check_range(&self, lpn: u64, pages: u64) -> Result<(u32, u32), Error> {
        let capacity = self.config.geometry.logical_pages;
        let out_of_range = || {
            let message = format!("pages {lpn} + {pages}: the drive has {capacity} logical pages");
            Error::new(ErrorKind::OutOfRange, message)
        };
        let end = lpn.checked_add(pages).filter(|&end| end <= capacity).ok_or_else(out_of_range)?;
        let narrow = |n: u64| u32::try_from(n).map_err(|_| out_of_range());
        Ok((narrow(lpn)?, narrow(end - lpn)?))
    }

    #[inline]
    pub(super) fn check_writable(&mut self) -> Result<(), Error> {
        if !self.medium.has_power() {
            return Err(self.power_failed());
        }
        self.check_not_worn_out()
    }

    /// The frontier for a write whose placement has no frontier of its own.
    #[cold]
    fn resolve(&mut self, placement: Placement) -> Result<usize, Error> {
        if !self.is_known(placement) {
            if self.config.invalid_pid == InvalidPid::Reject {
                return Err(self.unknown(placement));
            }
            self.events.record(Event::InvalidPlacement { placement });
        }
        Ok(0)
    }

    /// Whether the drive has `placement`, in use or not.
    pub(super) fn is_known(&self, placement: Placement) -> bool {
        placement.handle < self.config.handles && placement.group < self.config.groups
    }

    fn is_sequential(&mut self, lpn: u32, pages: u32) -> bool {
        let (lpn, pages) = (u64::from(lpn), u64::from(pages));
        self.sequential.as_mut().is_some_and(|found| found.is_sequential(lpn, pages))
    }

    #[cold]
    fn unknown(&self, placement: Placement) -> Error {
        let Placement { group, handle } = placement;
        let message = format!(
            "placement handle {handle} of reclaim group {group}: the drive has {} handles \
             (FDP {}) and {} groups, numbered from 0",
            self.config.handles,
            if self.config.fdp { "enabled" } else { "disabled" },
            self.config.groups
        );
        Error::new(ErrorKind::OutOfRange, message)
    }

    /// Writes `count` pages from `lpn` on to the places from `first` on, all in one open unit.
    #[inline]
    fn fill(&mut self, first: u32, lpn: u32, count: u32) {
        if count == 1 {
            if let Some(old) = self.map.physical(lpn) {
                let unit = self.map.kill_one(old);
                self.died_in(unit, 1);
            }
            self.map.place(lpn, first);
            let unit = self.map.revive_one(first);
            self.written_in(unit, 1);
        } else {
            self.kill_runs(lpn, count);
            self.map.place_run(lpn, first, count);
            self.pages_written(first, count);
        }
        self.journal.programs(first, count);
    }

    /// Writes the pages `lpns`, `count` of them, to the places from `first` on, all in one open unit.
    ///
    /// The places count as live before the first page is written, so a page that is in `lpns` twice dies in this same
    /// unit. The unit is not full before the last page and so not yet a victim, exactly as with single-page writes.
    fn fill_scattered(&mut self, first: u32, lpns: &[u32], count: u32) {
        let unit = self.map.revive(first, count);
        self.units.get_mut(unit).live += count;
        for (&lpn, ppn) in lpns.iter().zip(first..) {
            if let Some(old) = self.map.replace(lpn, ppn) {
                let unit = self.map.kill_one(old);
                self.died_in(unit, 1);
            }
        }
        self.programmed_in(unit, count);
        self.journal.programs(first, count);
    }

    /// Marks the old places of `count` pages from `lpn` on as dead.
    fn kill_runs(&mut self, lpn: u32, count: u32) {
        let end = lpn + count;
        let mut next = lpn;
        while let Some((at, run)) = self.kill_next_run(next, end) {
            next = at + run;
        }
    }

    /// Marks the old places of the first run of mapped pages from `lpn` on, before `end`, as dead. Pages that were
    /// written together lie together, so a run dies in one step. Returns the first page of the run and its length.
    #[inline]
    fn kill_next_run(&mut self, lpn: u32, end: u32) -> Option<(u32, u32)> {
        let (at, old) = (lpn..end).find_map(|at| Some((at, self.map.physical(at)?)))?;
        let run = self.map.run_length(at, end, old);
        let unit = self.map.kill(old, run);
        self.died_in(unit, run);
        Some((at, run))
    }

    /// Counts `count` pages placed from `first` on, all in one unit, as live and written.
    pub(super) fn pages_written(&mut self, first: u32, count: u32) {
        let unit = self.map.revive(first, count);
        self.written_in(unit, count);
    }

    #[inline]
    fn written_in(&mut self, unit: u32, count: u32) {
        self.units.get_mut(unit).live += count;
        self.programmed_in(unit, count);
    }

    /// Counts `count` pages of `unit`, which are already counted as live, as written.
    #[inline]
    pub(super) fn programmed_in(&mut self, unit: u32, count: u32) {
        let written = self.medium.program(BlockIndex(unit), count);
        if written == self.config.geometry.pages_per_unit {
            self.seal(unit);
        }
    }

    /// Closes the unit that host frontier `index` fills. If it still had room, returns the unit and the number of
    /// padded pages.
    fn close_unit(&mut self, index: usize) -> Option<(u32, u32)> {
        let frontier = std::mem::take(self.frontiers.host_mut(index));
        self.pad(frontier);
        (frontier.room() > 0).then(|| (self.map.unit_of(frontier.next), frontier.room()))
    }

    /// Pads the rest of an open unit.
    pub(super) fn pad(&mut self, frontier: Frontier) {
        let count = frontier.room();
        if count == 0 {
            return;
        }
        let unit = self.map.unit_of(frontier.next);
        self.stats.padded_pages += u64::from(count);
        self.stats.media_pages += u64::from(count);
        self.medium.pad(BlockIndex(unit), PageIndex(frontier.next), count);
        self.seal(unit);
    }

    /// Marks a unit as full, after its last page was written: it may be reclaimed now.
    fn seal(&mut self, unit: u32) {
        self.units.get_mut(unit).state = UnitState::Full;
        self.become_victim(unit);
    }

    /// Adds a full unit to its set of victims.
    pub(super) fn become_victim(&mut self, unit: u32) {
        let group = self.units.group_of(unit);
        let set = match (self.config.victim_scope, self.units.get(unit).owner) {
            (VictimScope::Global, _) => group,
            (VictimScope::PerHandle, owner) => {
                let streams = self.frontiers.streams();
                let slot = self.frontiers.stream_of_owner(owner).unwrap_or(streams);
                group * (streams + 1) + slot
            }
        };
        let entry = self.units.get_mut(unit);
        entry.set = u32::try_from(set).unwrap_or(u32::MAX);
        let (set, live) = (entry.set, entry.live);
        self.victims.insert(unit, set, live);
    }

    /// Counts `count` pages of `unit` as dead.
    #[inline]
    pub(super) fn died_in(&mut self, unit: u32, count: u32) {
        let entry = self.units.get_mut(unit);
        entry.live -= count;
        if entry.state == UnitState::Full {
            let (set, live) = (entry.set, entry.live);
            self.victims.some_died(unit, set, live, count);
        }
    }
}

#[allow(clippy::cast_possible_truncation)] // at most a batch
fn narrow(n: usize) -> u32 {
    n as u32
}
