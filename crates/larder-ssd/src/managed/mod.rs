//! The firmware of an ordinary drive: page-mapped FTL, garbage collection, Flexible Data Placement,
//! wear, and recovery from power loss.
//!
//! The host writes logical pages with a placement: a reclaim group and a handle in it. Each handle
//! fills a reclaim unit of its own; an overwrite or a deallocation kills the old copy of a page
//! where it lies. When erased units run short, a full unit is reclaimed (the one with the fewest
//! live pages, unless another policy is asked for): its live pages are copied (that is write
//! amplification), then it is erased. With FDP disabled every write goes to handle 0 and nothing
//! else changes.
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
mod events;
mod frontier;
mod gc;
mod geometry;
mod host;
mod journal;
mod map;
mod options;
mod out_of_band;
mod recovery;
mod scattered;
mod sequential;
mod stats;
mod units;
mod victim;
mod wear;

pub use config::ManagedConfig;
pub use events::{Event, EventCounts, EventRecord};
pub use frontier::Placement;
pub use geometry::{Geometry, PAGE_BYTES};
pub use journal::MediaOp;
pub use options::{
    GcDestination, GroupDies, InvalidPid, LazyCollection, SaveSequential, VictimPolicy, VictimScope,
};
pub use recovery::Recovery;
pub use stats::Stats;
pub use units::{Owner, UnitState};
pub use wear::Wear;

pub use crate::nand::Endurance;

use crate::error::Error;
use crate::nand::{BlockIndex, DieIndex, Division, Medium};
use events::Events;
use frontier::Frontier;
use map::PageMap;
use out_of_band::OutOfBand;
use sequential::Detector;
use units::Units;
use victim::Victims;

/// A drive with its own firmware. Counting clock: it takes no time at all.
#[derive(Debug)]
pub struct ManagedSsd {
    config: ManagedConfig,
    medium: Medium,
    map: PageMap,
    units: Units,
    victims: Victims,
    /// One per stream in each group.
    host_frontiers: Vec<Frontier>,
    /// In each group none, one, or one per stream: see [`GcDestination`].
    gc_frontiers: Vec<Frontier>,
    stats: Stats,
    events: Events,
    sequential: Option<Detector>,
    out_of_band: Option<Box<OutOfBand>>,
    /// From the configuration.
    active_handles: u16,
    /// Host frontiers of a group, from the configuration.
    streams: usize,
    /// Erased units of a group below which collection runs, from the configuration.
    reserve: usize,
    read_only: bool,
    /// What was done to the media, if somebody asks.
    journal: Option<Vec<MediaOp>>,
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
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if no such drive could work.
    pub fn new(config: ManagedConfig) -> Result<Self, Error> {
        config.check()?;
        let groups = usize::from(config.groups);
        let geometry = &config.geometry;
        Ok(Self {
            medium: medium(&config),
            map: PageMap::new(geometry),
            units: Units::new(config.groups, config.units_per_group()),
            victims: Victims::new(&config, sets(&config)),
            host_frontiers: vec![Frontier::default(); groups * config.streams()],
            gc_frontiers: vec![Frontier::default(); groups * config.gc_frontiers()],
            stats: Stats::new(config.handles),
            events: Events::new(config.event_capacity),
            sequential: config.save_sequential.map(Detector::new),
            out_of_band: config.out_of_band.then(|| Box::new(OutOfBand::new(geometry))),
            active_handles: config.active_handles(),
            streams: config.streams(),
            reserve: config.reserve_units() as usize,
            read_only: false,
            journal: None,
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

    /// The newest events, oldest first.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter()
    }

    /// How many events of each type there were since the drive was made.
    pub fn event_counts(&self) -> EventCounts {
        self.events.counts()
    }

    /// Whether `lpn` holds data.
    pub fn is_mapped(&self, lpn: u64) -> bool {
        u32::try_from(lpn).is_ok_and(|lpn| {
            (lpn as usize) < self.map.logical_pages() && self.map.physical(lpn).is_some()
        })
    }

    /// All units, in the order of the drive; those of group 0 come first.
    pub fn units(&self) -> impl Iterator<Item = UnitView> {
        self.units.iter().zip(self.medium.blocks()).map(|(unit, block)| UnitView {
            state: unit.state,
            owner: unit.owner,
            live_pages: unit.live,
            written_pages: block.written,
            erases: block.erases,
        })
    }

    /// The dies that the units of `group` lie on, in the order in which stripes go round them; none
    /// if there is no such group. A drive whose dies nobody named has one.
    pub fn dies_of_group(&self, group: u16) -> &[DieIndex] {
        if group >= self.config.groups {
            return &[];
        }
        let first = self.units.of_group(usize::from(group)).start;
        self.medium.spans().dies(self.medium.spans().of_block(BlockIndex(first)))
    }

    /// The logical pages that live in `unit`, in the order in which they were written.
    pub fn live_pages_of(&self, unit: u32) -> impl Iterator<Item = u64> {
        let pages = self.config.geometry.pages_per_unit;
        let first = unit * pages;
        (first..first + pages)
            .filter(|&ppn| self.map.is_live(ppn))
            .filter_map(|ppn| self.map.logical(ppn).map(u64::from))
    }

    /// Bytes of memory that the maps take, out-of-band data included if it is kept.
    pub fn map_memory_bytes(&self) -> u64 {
        let beside = self.out_of_band.as_ref().map_or(0, |beside| beside.memory_bytes());
        self.map.memory_bytes() + beside + self.medium.out_of_band_bytes()
    }

    fn sets(&self) -> usize {
        sets(&self.config)
    }
}

/// A fresh medium, each unit of which is a block.
fn medium(config: &ManagedConfig) -> Medium {
    let division = Division { spans: config.spans(), block_pages: config.geometry.pages_per_unit };
    let medium = Medium::new(division, &config.endurance, config.seed);
    if config.out_of_band { medium.with_words() } else { medium }
}

/// Sets of victims: one per group, or one per stream and one for mixed units in each group.
fn sets(config: &ManagedConfig) -> usize {
    let per_group = match config.victim_scope {
        VictimScope::Global => 1,
        VictimScope::PerHandle => config.streams() + 1,
    };
    usize::from(config.groups) * per_group
}
