//! The firmware of an ordinary drive: page-mapped FTL, greedy garbage collection, Flexible Data
//! Placement.
//!
//! The host writes logical pages with a placement handle. Each handle fills a reclaim unit of its
//! own; an overwrite or a deallocation kills the old copy of a page where it lies. When erased
//! units run short, the full unit with the fewest live pages is reclaimed: its live pages are
//! copied (that is write amplification), then it is erased. With FDP disabled every write goes to
//! handle 0 and nothing else changes.
//!
//! ```
//! use larder_ssd::managed::{Geometry, ManagedConfig, ManagedSsd};
//!
//! # fn main() -> Result<(), larder_ssd::Error> {
//! let geometry = Geometry::with_overprovisioning(64 << 20, 256 << 10, 17.0)?;
//! let mut ssd = ManagedSsd::new(ManagedConfig::new(geometry))?;
//! for _ in 0..3 {
//!     ssd.write(0, geometry.logical_pages, 1)?; // overwritten in order, all of it dies in order
//! }
//! assert_eq!(ssd.stats().copied_pages, 0);
//! # Ok(())
//! # }
//! ```

mod audit;
mod config;
mod gc;
mod map;
mod stats;
mod units;
mod victims;

pub use config::{GcDestination, Geometry, ManagedConfig, PAGE_BYTES};
pub use stats::Stats;
pub use units::{Owner, UnitState};

use crate::error::{Error, ErrorKind};
use map::PageMap;
use units::Units;
use victims::Victims;

/// A drive with its own firmware. Counting clock: it takes no time at all.
#[derive(Debug)]
pub struct ManagedSsd {
    config: ManagedConfig,
    map: PageMap,
    units: Units,
    victims: Victims,
    /// One per handle.
    host_frontiers: Vec<Frontier>,
    /// None, one, or one per handle: see [`GcDestination`].
    gc_frontiers: Vec<Frontier>,
    stats: Stats,
}

/// The pages of an open unit that are still to be written; empty when no unit is open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Frontier {
    next: u32,
    end: u32,
}

impl Frontier {
    fn room(self) -> u32 {
        self.end - self.next
    }
}

/// One reclaim unit, for those who look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnitView {
    /// What the unit is good for now.
    pub state: UnitState,
    /// Whose data it holds.
    pub owner: Owner,
    /// Pages whose data is current.
    pub live_pages: u32,
    /// Pages written since the last erase.
    pub written_pages: u32,
    /// Times that it was erased.
    pub erases: u32,
}

impl ManagedSsd {
    /// A fresh drive: everything erased, nothing mapped.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if no such drive could work.
    pub fn new(config: ManagedConfig) -> Result<Self, Error> {
        config.check()?;
        let handles = usize::from(config.active_handles());
        let gc_frontiers = match config.gc_destination {
            GcDestination::HostFrontier => 0,
            GcDestination::Shared => 1,
            GcDestination::PerHandle => handles,
        };
        let geometry = &config.geometry;
        Ok(Self {
            map: PageMap::new(geometry),
            units: Units::new(geometry.units),
            victims: Victims::new(geometry.units, geometry.pages_per_unit),
            host_frontiers: vec![Frontier::default(); handles],
            gc_frontiers: vec![Frontier::default(); gc_frontiers],
            stats: Stats::new(config.handles),
            config,
        })
    }

    /// What the drive is made of.
    pub fn config(&self) -> &ManagedConfig {
        &self.config
    }

    /// Counters since the drive was made.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Writes `pages` logical pages from `lpn` on, with placement handle `handle`.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`] for pages or handles that the drive does not have; nothing was
    /// written.
    pub fn write(&mut self, lpn: u64, pages: u64, handle: u16) -> Result<(), Error> {
        let (mut lpn, mut left) = self.check_range(lpn, pages)?;
        if handle >= self.config.handles {
            return Err(Error::new(
                ErrorKind::OutOfRange,
                format!("placement handle {handle}: the drive has {}", self.config.handles),
            ));
        }
        let handle = if self.config.fdp { handle } else { 0 };
        self.stats.host_pages += u64::from(left);
        self.stats.media_pages += u64::from(left);
        self.stats.host_pages_by_handle[usize::from(handle)] += u64::from(left);
        while left > 0 {
            if self.host_frontiers[usize::from(handle)].room() == 0 {
                self.open_for_host(handle)?;
            }
            let count = left.min(self.host_frontiers[usize::from(handle)].room());
            self.fill(handle, lpn, count);
            lpn += count;
            left -= count;
        }
        Ok(())
    }

    /// Declares `pages` logical pages from `lpn` on dead.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`] for pages that the drive does not have.
    pub fn deallocate(&mut self, lpn: u64, pages: u64) -> Result<(), Error> {
        let (lpn, pages) = self.check_range(lpn, pages)?;
        for lpn in lpn..lpn + pages {
            if let Some(ppn) = self.map.physical(lpn) {
                self.page_died(ppn);
                self.map.unmap(lpn);
                self.stats.deallocated_pages += 1;
            }
        }
        Ok(())
    }

    /// Closes the unit that `handle` is filling (NVMe: reclaim unit handle update). What was left
    /// of it is padded.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`] for a handle that the drive does not have.
    pub fn update_handle(&mut self, handle: u16) -> Result<(), Error> {
        let active = if self.config.fdp { handle } else { 0 };
        let Some(frontier) = self.host_frontiers.get_mut(usize::from(active)) else {
            return Err(Error::new(
                ErrorKind::OutOfRange,
                format!("placement handle {handle}: the drive has {}", self.config.handles),
            ));
        };
        let frontier = std::mem::take(frontier);
        if frontier.room() > 0 {
            let unit = self.map.unit_of(frontier.next);
            self.stats.padded_pages += u64::from(frontier.room());
            self.stats.media_pages += u64::from(frontier.room());
            self.units.get_mut(unit).written += frontier.room();
            self.seal_if_written(unit);
        }
        Ok(())
    }

    /// Pages that `handle` can write before its unit is full (NVMe: RUAMW). A handle without an
    /// open unit has a whole one.
    pub fn available_pages(&self, handle: u16) -> u32 {
        match self.host_frontiers.get(usize::from(handle)) {
            Some(frontier) if frontier.room() > 0 => frontier.room(),
            _ => self.config.geometry.pages_per_unit,
        }
    }

    /// Whether `lpn` holds data.
    pub fn is_mapped(&self, lpn: u64) -> bool {
        u32::try_from(lpn).is_ok_and(|lpn| {
            (lpn as usize) < self.map.logical_pages() && self.map.physical(lpn).is_some()
        })
    }

    /// All units, in the order of the drive.
    pub fn units(&self) -> impl Iterator<Item = UnitView> {
        self.units.iter().map(|unit| UnitView {
            state: unit.state,
            owner: unit.owner,
            live_pages: unit.live,
            written_pages: unit.written,
            erases: unit.erases,
        })
    }

    /// The logical pages that live in `unit`, in the order in which they were written.
    pub fn live_pages_of(&self, unit: u32) -> impl Iterator<Item = u64> {
        let pages = self.config.geometry.pages_per_unit;
        let first = unit * pages;
        (first..first + pages)
            .filter(|&ppn| self.map.is_live(ppn))
            .filter_map(|ppn| self.map.logical(ppn).map(u64::from))
    }

    /// Bytes of memory that the maps take.
    pub fn map_memory_bytes(&self) -> u64 {
        self.map.memory_bytes()
    }

    fn check_range(&self, lpn: u64, pages: u64) -> Result<(u32, u32), Error> {
        let capacity = self.config.geometry.logical_pages;
        let out_of_range = || {
            let message = format!("pages {lpn} + {pages}: the drive has {capacity} logical pages");
            Error::new(ErrorKind::OutOfRange, message)
        };
        let end = lpn.checked_add(pages).filter(|&end| end <= capacity).ok_or_else(out_of_range)?;
        let narrow = |n: u64| u32::try_from(n).map_err(|_| out_of_range());
        Ok((narrow(lpn)?, narrow(end - lpn)?))
    }

    /// Writes `count` pages to the open unit of `handle`, which has room for them.
    fn fill(&mut self, handle: u16, lpn: u32, count: u32) {
        let first = self.host_frontiers[usize::from(handle)].next;
        for i in 0..count {
            if let Some(old) = self.map.physical(lpn + i) {
                self.page_died(old);
            }
            self.map.place(lpn + i, first + i);
        }
        self.host_frontiers[usize::from(handle)].next += count;
        self.pages_written(first, count);
    }

    /// Books `count` live pages that were placed from `first` on, all in one unit.
    fn pages_written(&mut self, first: u32, count: u32) {
        self.map.revive(first, count);
        let unit = self.map.unit_of(first);
        let entry = self.units.get_mut(unit);
        entry.live += count;
        entry.written += count;
        self.seal_if_written(unit);
    }

    /// A unit whose last page was written is full and may be reclaimed.
    fn seal_if_written(&mut self, unit: u32) {
        let pages_per_unit = self.config.geometry.pages_per_unit;
        let entry = self.units.get_mut(unit);
        if entry.written == pages_per_unit {
            entry.state = UnitState::Full;
            let live = entry.live;
            self.victims.insert(unit, live);
        }
    }

    #[inline]
    fn page_died(&mut self, ppn: u32) {
        let unit = self.map.kill(ppn);
        let entry = self.units.get_mut(unit);
        entry.live -= 1;
        if entry.state == UnitState::Full {
            let live = entry.live;
            self.victims.one_died(unit, live);
        }
    }
}
