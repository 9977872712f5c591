//! Cores, and ranges of their sectors.

/// Bytes of a sector, the unit of valid and dirty data.
pub const SECTOR_BYTES: usize = 512;

/// Most cores of a cache.
pub const CORES_MAX: u16 = 4096;

/// The number of a core device of a cache, below [`CORES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoreId(u16);

impl CoreId {
    /// The core of this number. `None` from [`CORES_MAX`] on.
    pub fn new(number: u16) -> Option<Self> {
        (number < CORES_MAX).then_some(Self(number))
    }

    /// The number of the core.
    pub fn get(self) -> u16 {
        self.0
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Consecutive sectors of a core, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The core.
    pub core: CoreId,
    /// The first sector.
    pub first: u64,
    /// The number of sectors.
    pub sectors: u32,
}

impl Span {
    /// The sector after the last one.
    pub fn end(self) -> u64 {
        self.first + u64::from(self.sectors)
    }

    /// Length in bytes.
    pub fn bytes(self) -> usize {
        self.sectors as usize * SECTOR_BYTES
    }

    /// Offset on its core, in bytes.
    pub fn offset(self) -> u64 {
        self.first * SECTOR_BYTES as u64
    }

    /// Whether the spans have a sector in common.
    pub fn overlaps(self, other: Self) -> bool {
        self.core == other.core && self.first < other.end() && other.first < self.end()
    }
}
