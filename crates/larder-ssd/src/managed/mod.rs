//! The firmware of an ordinary drive: page-mapped FTL, garbage collection, Flexible Data Placement,
//! wear, and recovery from power loss.
//!
//! The host writes logical pages with a placement: a reclaim group and a handle in it. Each handle fills a reclaim unit
//! of its own; an overwrite or a deallocation makes the old copy of a page dead. When erased units run short, a full
//! unit is reclaimed (the one with the fewest live pages, unless another policy is configured): its live pages are
//! copied, which is write amplification, then it is erased. With FDP disabled every write goes to handle 0; nothing
//! else changes.
//!
//! | file | content |
//! |---|---|
//! | `config`, `geometry`, `options` | the drive: its size, its options, and the check that such a drive can work |
//! | `host` | host commands: write, also many single pages at once; deallocate, close a unit |
//! | `frontier` | where the next page is written: placements, streams, open units |
//! | `map` | the two page maps and the live bits |
//! | `units` | reclaim units: their state, and the owner of their data |
//! | `gc` | garbage collection, wear levelling, failed erases, end of life |
//! | `victim` | the choice of victims, one file per policy |
//! | `events`, `stats` | the FDP event log, counters |
//! | `journal` | an optional record of the operations on the media, for the timed drive |
//! | `out_of_band`, `recovery` | data beside the pages, power loss and recovery |
//! | `sequential` | detection of sequential streams |
//! | `audit` | checks all counts and maps from scratch |
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
mod sequential;
mod stats;
mod units;
mod victim;

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

pub use crate::nand::Endurance;

use crate::error::Error;
use crate::nand::{BlockIndex, DieIndex, Division, Medium};
use events::Events;
use frontier::Frontiers;
use journal::Journal;
use map::PageMap;
use out_of_band::OutOfBand;
use sequential::Detector;
use units::Units;
use victim::Victims;

/// A drive with its own firmware. It has no clock: operations take no time.
#[derive(Debug)]
pub struct ManagedSsd {
    config: ManagedConfig,
    medium: Medium,
    map: PageMap,
    units: Units,
    victims: Victims,
    frontiers: Frontiers,
    stats: Stats,
    events: Events,
    sequential: Option<Detector>,
    out_of_band: Option<Box<OutOfBand>>,
    /// Collection runs while a group has fewer erased units than this. From the configuration.
    reserve: usize,
    read_only: bool,
    journal: Journal,
}

/// A read-only view of one reclaim unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnitView {
    /// The state of the unit.
    pub state: UnitState,
    /// The owner of its data.
    pub owner: Owner,
    /// Pages whose data is current.
    pub live_pages: u32,
    /// Pages written since the last erase.
    pub written_pages: u32,
    /// Erases of the unit.
    pub erases: u32,
}

/// Wear of the drive. Retired units are not included in the erase counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wear {
    /// Erases of the least worn unit.
    pub min_erases: u32,
    /// Mean erases per unit.
    pub mean_erases: f64,
    /// Erases of the most worn unit.
    pub max_erases: u32,
    /// Retired units.
    pub retired_units: u64,
    /// Units that may still be retired before the drive becomes read-only. If there are several groups, one group may
    /// reach its limit earlier.
    pub spare_units: u64,
    /// Whether the drive is at the end of its life.
    pub read_only: bool,
}

impl ManagedSsd {
    /// A new drive: everything erased, nothing mapped.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if no such drive could work.
    pub fn new(config: ManagedConfig) -> Result<Self, Error> {
        config.check()?;
        let geometry = &config.geometry;
        Ok(Self {
            medium: medium(&config),
            map: PageMap::new(geometry),
            units: Units::new(config.groups, config.units_per_group()),
            victims: Victims::new(&config, sets(&config)),
            frontiers: Frontiers::new(&config),
            stats: Stats::new(config.handles),
            events: Events::new(config.event_capacity),
            sequential: config.save_sequential.map(Detector::new),
            out_of_band: config.out_of_band.then(|| Box::new(OutOfBand::new(geometry))),
            reserve: config.reserve_units() as usize,
            read_only: false,
            journal: Journal::default(),
            config,
        })
    }

    /// The configuration of the drive.
    pub fn config(&self) -> &ManagedConfig {
        &self.config
    }

    /// Counters since the drive was created.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The newest events, oldest first.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter()
    }

    /// Number of events of each type since the drive was created.
    pub fn event_counts(&self) -> EventCounts {
        self.events.counts()
    }

    /// Starts or stops keeping a record of every event, in addition to the ring of the newest. The record grows until
    /// it is taken.
    pub fn keep_event_record(&mut self, keep: bool) {
        self.events.keep_record(keep);
    }

    /// Takes the events since the last call; empty if no record is kept.
    pub fn take_event_record(&mut self) -> EventRecord {
        self.events.take_record()
    }

    /// Starts or stops recording the operations on the media.
    pub fn record_media_ops(&mut self, record: bool) {
        self.journal.keep(record);
    }

    /// Appends the operations recorded since the last call to `ops`, in order.
    pub fn take_media_ops(&mut self, ops: &mut Vec<MediaOp>) {
        self.journal.take(ops);
    }

    /// Whether `lpn` holds data.
    pub fn is_mapped(&self, lpn: u64) -> bool {
        self.physical_page(lpn).is_some()
    }

    /// The physical page that holds `lpn`, if it is mapped.
    pub fn physical_page(&self, lpn: u64) -> Option<u32> {
        let lpn =
            u32::try_from(lpn).ok().filter(|&lpn| (lpn as usize) < self.map.logical_pages())?;
        self.map.physical(lpn)
    }

    /// All units, in order of their numbers; those of group 0 come first.
    pub fn units(&self) -> impl Iterator<Item = UnitView> {
        self.units.iter().zip(self.medium.blocks()).map(|(unit, block)| UnitView {
            state: unit.state,
            owner: unit.owner,
            live_pages: unit.live,
            written_pages: block.written,
            erases: block.erases,
        })
    }

    /// The dies that the units of `group` lie on, in the order in which stripes go round them; empty if there is no
    /// such group. A drive without a configured array has one die.
    pub fn dies_of_group(&self, group: u16) -> &[DieIndex] {
        if group >= self.config.groups {
            return &[];
        }
        let first = self.units.of_group(usize::from(group)).start;
        self.medium.spans().dies(self.medium.spans().of_block(BlockIndex(first)))
    }

    /// The logical pages that are live in `unit`, in the order in which they were written.
    pub fn live_pages_of(&self, unit: u32) -> impl Iterator<Item = u64> {
        self.map.live_pages(unit)
    }

    /// The current wear of the drive.
    pub fn wear(&self) -> Wear {
        let counts = self.medium.wear();
        Wear {
            min_erases: counts.min(),
            mean_erases: counts.mean(),
            max_erases: counts.max(),
            retired_units: self.stats.retired_units,
            spare_units: self.units.good_of_all().saturating_sub(self.config.units_required()),
            read_only: self.read_only,
        }
    }

    /// Bytes of memory of the maps, including out-of-band data if it is kept.
    pub fn map_memory_bytes(&self) -> u64 {
        let beside = self.out_of_band.as_ref().map_or(0, |beside| beside.memory_bytes());
        self.map.memory_bytes() + beside + self.medium.out_of_band_bytes()
    }

    fn sets(&self) -> usize {
        sets(&self.config)
    }
}

/// A new medium, where each unit is a block.
fn medium(config: &ManagedConfig) -> Medium {
    let division = Division { spans: config.spans(), block_pages: config.geometry.pages_per_unit };
    let medium = Medium::new(division, &config.endurance, config.seed);
    if config.out_of_band { medium.with_words() } else { medium }
}

/// Number of victim sets: one per group, or in each group one per stream and one for mixed units.
fn sets(config: &ManagedConfig) -> usize {
    let per_group = match config.victim_scope {
        VictimScope::Global => 1,
        VictimScope::PerHandle => config.streams() + 1,
    };
    usize::from(config.groups) * per_group
}
