//! The tiers of the cache.

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
