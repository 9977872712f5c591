//! A region of an engine of large objects, as whoever draws a map of flash wants to know it.

use std::time::Duration;

use larder_device::PlacementHandle;
use larder_device::plan::Class;
pub use larder_log::RegionState;

/// What is known of a region of large objects ([`Larder::flash_regions`](crate::Larder::flash_regions)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlashRegion {
    /// Its number among the regions of all engines. Those of the large-object engine come first, from
    /// [`Layout::loc_offset`](crate::Layout::loc_offset) on, then those of the array, from
    /// [`Layout::array_offset`](crate::Layout::array_offset) on.
    pub number: u32,
    /// Where it is in its life.
    pub state: RegionState,
    /// The number of its filling: the larger, the later it was begun. Of one that is free, that of a filling that does
    /// not count any more.
    pub sequence: u64,
    /// What fills it, or has filled it; `None` if that was before the opening, or nothing is in it.
    pub class: Option<Class>,
    /// The placement handle that this is written with.
    pub handle: Option<PlacementHandle>,
    /// When its filling began, on the clock of the cache ([`Larder::now`](crate::Larder::now)), to the second; `None`
    /// if that was before the opening, or nothing is in it.
    pub begun: Option<Duration>,
}
