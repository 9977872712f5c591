//! A region of an engine for large objects, for programs that show a map of flash.

use std::time::Duration;

use larder_device::PlacementHandle;
use larder_device::plan::Class;
pub use larder_log::RegionState;

/// What is known about a region of large objects ([`Larder::flash_regions`](crate::Larder::flash_regions)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlashRegion {
    /// Its number among the regions of all engines. Those of the large-object engine come first, from
    /// [`Layout::loc_offset`](crate::Layout::loc_offset) on, then those of the array, from
    /// [`Layout::array_offset`](crate::Layout::array_offset) on.
    pub number: u32,
    /// State in the region's life cycle.
    pub state: RegionState,
    /// The number of its fill: a larger number began later. For a free region, the number of a fill that no longer
    /// counts.
    pub sequence: u64,
    /// The class of data that fills the region, or has filled it; `None` if that was before the opening, or it is
    /// empty.
    pub class: Option<Class>,
    /// The placement handle of its writes.
    pub handle: Option<PlacementHandle>,
    /// When its fill began, on the clock of the cache ([`Larder::now`](crate::Larder::now)), to the second; `None` if
    /// that was before the opening, or the region is empty.
    pub begun: Option<Duration>,
}
