//! Numbers of the log's blocks, counted from the first block on. Slots in the ring are counted separately.

/// The number of a block, as opposed to its slot: blocks that share a slot have different numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct BlockNumber(u64);

impl BlockNumber {
    /// The first block of a log.
    pub(super) const FIRST: Self = Self(0);

    pub(super) const fn new(number: u64) -> Self {
        Self(number)
    }

    pub(super) const fn get(self) -> u64 {
        self.0
    }

    /// The block that is opened after this one.
    pub(super) const fn next(self) -> Self {
        assert!(self.0 < u64::MAX, "no cache writes as many blocks, and no part names one");
        Self(self.0 + 1)
    }

    /// Number of blocks from `older` up to the one before this. `None` if `older` is not older.
    pub(super) const fn since(self, older: Self) -> Option<u64> {
        self.0.checked_sub(older.0)
    }

    /// Its slot in a ring of this number of slots.
    pub(super) const fn slot(self, slots: u64) -> u64 {
        assert!(slots > 0, "a ring has slots");
        self.0 % slots
    }
}
