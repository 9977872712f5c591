//! The systems: each does the same work through its own API.

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
    /// Gets an item and checks the value. Returns whether it was a hit.
    fn get(&self, item: &Item) -> Result<bool, String>;
    /// Stores `value` for an item.
    fn set(&self, item: &Item, value: &[u8]) -> Result<(), String>;
}

/// A cache in memory for small items, of which about `items` fit, for the measurements of single caches.
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
    /// Bytes that it claims to have written to its file, to compare with the kernel's counter.
    fn counted_written_bytes(&self) -> u64;
}

/// The parameters of a hybrid cache.
pub(crate) struct HybridPlan<'a> {
    pub(crate) flash: Flash,
    pub(crate) dram_bytes: u64,
    /// The flash file, which exists in its full length.
    pub(crate) file: &'a Path,
}

/// A system under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum System {
    /// Larder with defaults, except for the memory budget.
    Larder,
    /// Larder with a share of flash as the small-object engine, in buckets.
    LarderSoc,
    /// The same in pages by set.
    LarderPages,
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
    /// No cache: the cost of the benchmark itself.
    Harness,
}

impl System {
    pub(crate) const ALL: [(&'static str, Self); 10] = [
        ("larder", Self::Larder),
        ("larder-soc", Self::LarderSoc),
        ("larder-pages", Self::LarderPages),
        ("larder-soc-log", Self::LarderSocLog),
        ("larder-loc", Self::LarderLoc),
        ("foyer", Self::Foyer),
        ("foyer-lru", Self::FoyerLru),
        ("quick_cache", Self::QuickCache),
        ("moka", Self::Moka),
        ("harness", Self::Harness),
    ];
    /// The systems for a workload without flash.
    pub(crate) const IN_DRAM: [Self; 6] =
        [Self::Larder, Self::Foyer, Self::FoyerLru, Self::QuickCache, Self::Moka, Self::Harness];
    /// The systems for a workload with flash.
    pub(crate) const HYBRID: [Self; 7] = [
        Self::Larder,
        Self::LarderSoc,
        Self::LarderPages,
        Self::LarderSocLog,
        Self::LarderLoc,
        Self::Foyer,
        Self::FoyerLru,
    ];
    /// The systems for a workload with flash and without small values.
    pub(crate) const HYBRID_LARGE: [Self; 4] =
        [Self::Larder, Self::LarderLoc, Self::Foyer, Self::FoyerLru];

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, system)| *system == self).map_or("", |(name, _)| name)
    }

    /// Whether it is Larder, in any configuration.
    pub(crate) fn is_larder(self) -> bool {
        matches!(
            self,
            Self::Larder
                | Self::LarderSoc
                | Self::LarderPages
                | Self::LarderSocLog
                | Self::LarderLoc
        )
    }

    /// Whether it can run a workload.
    pub(crate) fn can(self, workload: &Workload) -> bool {
        match self {
            Self::Larder | Self::Foyer | Self::FoyerLru => true,
            Self::LarderSoc | Self::LarderPages | Self::LarderSocLog | Self::LarderLoc => {
                workload.flash.is_some()
            }
            Self::QuickCache | Self::Moka | Self::Harness => workload.flash.is_none(),
        }
    }
}
