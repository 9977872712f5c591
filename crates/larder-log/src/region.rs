//! One region: its number, the filling that is in it, where it is in its life.

use std::fmt;

use larder_device::PlacementHandle;

use crate::backoff::Backoff;

/// The number of a region: its place in the log, from 0 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId(u32);

impl RegionId {
    /// The region with this number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self.0
    }

    /// Its number, to index with.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for RegionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One filling of one region. No two fillings have the same sequence number, whatever their regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionIdentity {
    /// Which region.
    pub region: RegionId,
    /// Which filling of it.
    pub sequence: u64,
}

/// Where a region is in its life; [`Regions`](crate::Regions) draws how one follows the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegionState {
    /// Nothing in it counts; it may be filled.
    Free,
    /// It is being filled, or its last pieces are on their way.
    Active,
    /// All of it is on flash, with its footer.
    Sealed,
    /// All that was in it has expired; the index may still point to it.
    Expired,
    /// A write of it failed; it rests until its back-off is over.
    Retired,
    /// An earlier opening has left it, and nobody has looked at it yet.
    Unknown,
}

/// What is remembered of a region.
#[derive(Debug, Clone, Copy)]
pub struct Region {
    pub(crate) state: RegionState,
    /// Of the filling that is in it, or of the last one that is void.
    pub(crate) sequence: u64,
    /// Tick of the latest hit on a record of the region.
    pub(crate) last_hit: u64,
    /// Number of the filling among those since the opening, from 1 on; 0 is an earlier one's.
    pub(crate) filled_at: u64,
    /// In which segment it is reclaimed, and when it came there.
    pub(crate) segment: usize,
    pub(crate) entered: u64,
    /// Which stream fills it, or has filled it; `None` if that was before the opening, or nothing is in it.
    pub(crate) stream: Option<u16>,
    /// The placement handle that this is written with; `None` if that was before the opening, or nothing is in it.
    pub(crate) handle: Option<PlacementHandle>,
    /// Whether it gives way only by name.
    pub(crate) stays: bool,
    /// When its filling began, a second of the host's clock; 0 if that was before the opening, or nothing is in it.
    pub(crate) begun_s: u32,
    /// When the last of its records expires, a second of the host's clock; 0 is never.
    pub(crate) latest_expiry_s: u32,
    /// Since a write failed; ends with the next filling that is on flash whole.
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

    /// Where it is in its life.
    pub fn state(&self) -> RegionState {
        self.state
    }

    /// Of the filling that is in it, or of the last one that is void.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Which stream fills it, or has filled it; `None` if that was before the opening, or nothing is in it.
    pub fn stream(&self) -> Option<usize> {
        self.stream.map(usize::from)
    }

    /// The placement handle that it is written with, or was; `None` if that was before the opening, or nothing is in
    /// it.
    pub fn handle(&self) -> Option<PlacementHandle> {
        self.handle
    }

    /// When the last of its records expires, a second of the host's clock; 0 is never.
    pub fn latest_expiry_s(&self) -> u32 {
        self.latest_expiry_s
    }

    /// When its filling began, a second of the host's clock; `None` if that was before the opening, or nothing
    /// is in it.
    pub fn begun_s(&self) -> Option<u32> {
        (self.begun_s > 0).then_some(self.begun_s)
    }
}
