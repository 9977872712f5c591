//! The tiers of the cache: where an item was found, and where a value may be.

/// The tier where an item was found.
///
/// ```
/// use larder::Tier;
///
/// assert_ne!(Tier::Dram, Tier::SmallObjects);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Tier {
    /// In DRAM; flash may hold it too.
    Dram,
    /// On flash, in the small-object engine.
    SmallObjects,
    /// On flash, in the large-object engine.
    LargeObjects,
    /// On flash, in the array engine.
    ArrayObjects,
}

/// The tiers that may hold a value. Without flash all of these mean DRAM.
///
/// ```
/// # use larder::{Larder, RealClock, SetOptions, Tiers, block_on};
/// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
/// let secret = SetOptions { tiers: Tiers::DramOnly, ..SetOptions::default() };
/// block_on(cache.set_with(b"token", b"rye and salt", secret))?;
/// # Ok::<(), larder::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Tiers {
    /// In DRAM first; after its eviction on flash, if the admission policy admits it.
    #[default]
    Both,
    /// In DRAM only: it is never written to flash, not by a flush or a close either. When DRAM evicts it, it is lost,
    /// and counted ([`Stats::dram_evicted_objects`](crate::Stats::dram_evicted_objects)). `touch`, `append`, `incr`
    /// and similar calls keep this setting.
    DramOnly,
    /// On flash at once, past DRAM: when the set returns, flash has it, or the admission policy has rejected it, as
    /// with every object. A read that finds it does not bring it to DRAM; its version is 0 then, which `cas` never
    /// replaces. `touch`, `append`, `incr` and similar calls keep this setting.
    FlashOnly,
}

impl Tiers {
    /// The tiers of a value on flash: `only` means for flash only.
    pub(crate) fn on_flash(only: bool) -> Self {
        if only { Self::FlashOnly } else { Self::Both }
    }
}
