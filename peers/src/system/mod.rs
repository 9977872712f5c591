//! The systems: each one does the same work through its own calls.

mod foyer;
mod harness;
mod larder;
mod moka;
mod quick_cache;

use std::future::Future;
use std::path::Path;

pub(crate) use self::foyer::{FoyerDram, FoyerHybrid};
pub(crate) use self::harness::Harness;
pub(crate) use self::larder::{LarderDram, LarderHybrid};
pub(crate) use self::moka::Moka;
pub(crate) use self::quick_cache::QuickCache;

use crate::item::Item;
use crate::workload::{Flash, Workload};

/// A cache in memory, used by threads.
pub(crate) trait DramCache: Sync {
    /// Asks for an item and checks the answer. Says whether it was there.
    fn get(&self, item: &Item) -> Result<bool, String>;
    /// Stores `value` for an item.
    fn set(&self, item: &Item, value: &[u8]) -> Result<(), String>;
}

/// A cache in memory of small items, of which about `items` fit, for looks at one cache or two.
pub(crate) fn open_in_dram(
    system: System,
    dram_bytes: u64,
    items: u64,
) -> Result<Box<dyn DramCache>, String> {
    match system {
        System::Larder => Ok(Box::new(LarderDram::open(dram_bytes)?)),
        System::QuickCache => Ok(Box::new(QuickCache::open(dram_bytes, items))),
        other => Err(format!("--system {}: use larder or quick_cache", other.name())),
    }
}

/// A cache in memory and on flash, used by tasks.
pub(crate) trait HybridCache: Send + Sync + 'static {
    /// As [`DramCache::get`].
    fn get(&self, item: &Item) -> impl Future<Output = Result<bool, String>> + Send;
    /// As [`DramCache::set`].
    fn set(&self, item: &Item, value: &[u8]) -> impl Future<Output = Result<(), String>> + Send;
    /// Bytes that it says it wrote to its file: to hold against what the kernel says.
    fn counted_written_bytes(&self) -> u64;
}

/// What a hybrid cache is opened with.
pub(crate) struct HybridPlan<'a> {
    pub(crate) flash: Flash,
    pub(crate) dram_bytes: u64,
    /// The flash file, which is there and as long as it must be.
    pub(crate) file: &'a Path,
}

/// Who does the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum System {
    /// Larder as it comes: but for the budget of memory nothing is set.
    Larder,
    /// Larder with a share of flash as the small-object engine.
    LarderSoc,
    /// The same with a log in front of that engine.
    LarderSocLog,
    /// Larder with all flash as the large-object engine.
    LarderLoc,
    /// foyer with S3-FIFO.
    Foyer,
    /// foyer with LRU.
    FoyerLru,
    QuickCache,
    Moka,
    /// Nobody: what the benchmark itself costs.
    Harness,
}

impl System {
    pub(crate) const ALL: [(&'static str, Self); 9] = [
        ("larder", Self::Larder),
        ("larder-soc", Self::LarderSoc),
        ("larder-soc-log", Self::LarderSocLog),
        ("larder-loc", Self::LarderLoc),
        ("foyer", Self::Foyer),
        ("foyer-lru", Self::FoyerLru),
        ("quick_cache", Self::QuickCache),
        ("moka", Self::Moka),
        ("harness", Self::Harness),
    ];
    /// What a workload without flash is run with.
    pub(crate) const IN_DRAM: [Self; 6] =
        [Self::Larder, Self::Foyer, Self::FoyerLru, Self::QuickCache, Self::Moka, Self::Harness];
    /// What a workload with flash is run with.
    pub(crate) const HYBRID: [Self; 6] = [
        Self::Larder,
        Self::LarderSoc,
        Self::LarderSocLog,
        Self::LarderLoc,
        Self::Foyer,
        Self::FoyerLru,
    ];
    /// The same where nothing is small.
    pub(crate) const HYBRID_LARGE: [Self; 4] =
        [Self::Larder, Self::LarderLoc, Self::Foyer, Self::FoyerLru];

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, system)| *system == self).map_or("", |(name, _)| name)
    }

    /// Whether it is Larder, however set.
    pub(crate) fn is_larder(self) -> bool {
        matches!(self, Self::Larder | Self::LarderSoc | Self::LarderSocLog | Self::LarderLoc)
    }

    /// Whether it can do a workload.
    pub(crate) fn can(self, workload: &Workload) -> bool {
        match self {
            Self::Larder | Self::Foyer | Self::FoyerLru => true,
            Self::LarderSoc | Self::LarderSocLog | Self::LarderLoc => workload.flash.is_some(),
            Self::QuickCache | Self::Moka | Self::Harness => workload.flash.is_none(),
        }
    }
}
