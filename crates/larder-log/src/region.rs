//! One region: its number, its current filling, its state.

use std::fmt;

use larder_device::PlacementHandle;

use crate::backoff::Backoff;

/// The number of a region: its position in the log, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId(u32);

impl RegionId {
    /// The region with this number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number of the region.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The number of the region, as an index.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for RegionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One filling of one region. No two fillings have the same sequence number, even in different regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionIdentity {
    /// The region.
    pub region: RegionId,
    /// The sequence number of the filling.
    pub sequence: u64,
}

/// The state of a region; [`Regions`](crate::Regions) draws the changes from one to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegionState {
    /// Its content does not count; it may be filled.
    Free,
    /// It is being filled, or its last pieces are on their way.
    Active,
    /// All of it is on flash, with its footer.
    Sealed,
    /// All its records have expired; the index may still have entries that point to it.
    Expired,
    /// A write of it failed; it is not used until its back-off is over.
    Retired,
    /// An earlier opening has left it, and its footer has not been read yet.
    Unknown,
}

/// The facts that are remembered about a region.
#[derive(Debug, Clone, Copy)]
pub struct Region {
    pub(crate) state: RegionState,
    /// Sequence number of the current filling, or of the last one that is void.
    pub(crate) sequence: u64,
    /// Tick of the latest hit on a record of the region.
    pub(crate) last_hit: u64,
    /// Number of the filling among those since the opening, from 1; 0 if an earlier opening filled it.
    pub(crate) filled_at: u64,
    /// The segment in which it is reclaimed, and when it came there.
    pub(crate) segment: usize,
    pub(crate) entered: u64,
    /// The stream that fills it or has filled it; `None` if that was before the opening, or the region is empty.
    pub(crate) stream: Option<u16>,
    /// The placement handle of these writes; `None` if they were before the opening, or the region is empty.
    pub(crate) handle: Option<PlacementHandle>,
    /// Whether it is only reclaimed by name.
    pub(crate) stays: bool,
    /// When its filling began, a second of the host's clock; 0 if that was before the opening, or the region is empty.
    pub(crate) begun_s: u32,
    /// When the last of its records expires, a second of the host's clock; 0 if one of them never does.
    pub(crate) latest_expiry_s: u32,
    /// The back-off since a write failed. It ends with the next filling that is completely on flash.
    pub(crate) backoff: Backoff,
}

impl Region {
    pub(crate) fn new(state: RegionState, sequence: u64) -> Self {
        Self {
            state,
            sequence,
            last_hit: 0,
            filled_at: 0,
            segment: 0,
            entered: 0,
            stream: None,
            handle: None,
            stays: false,
            begun_s: 0,
            latest_expiry_s: 0,
            backoff: Backoff::default(),
        }
    }

    /// The state of the region.
    pub fn state(&self) -> RegionState {
        self.state
    }

    /// Sequence number of the current filling, or of the last one that is void.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The stream that fills it or has filled it; `None` if that was before the opening, or the region is empty.
    pub fn stream(&self) -> Option<usize> {
        self.stream.map(usize::from)
    }

    /// The placement handle with which it is or was written; `None` if that was before the opening, or the region is
    /// empty.
    pub fn handle(&self) -> Option<PlacementHandle> {
        self.handle
    }

    /// When the last of its records expires, a second of the host's clock; 0 if one of them never does.
    pub fn latest_expiry_s(&self) -> u32 {
        self.latest_expiry_s
    }

    /// When its filling began, a second of the host's clock; `None` if that was before the opening, or the region is
    /// empty.
    pub fn begun_s(&self) -> Option<u32> {
        (self.begun_s > 0).then_some(self.begun_s)
    }
}
