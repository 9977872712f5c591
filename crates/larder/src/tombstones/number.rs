//! Which block of the log is meant: blocks are counted from the first one on, and their slots in the
//! ring are another count.

/// The number of a block. Not the slot that it lies in: blocks that share a slot have different numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct BlockNumber(u64);

impl BlockNumber {
    /// Of the first block of a log.
    pub(super) const FIRST: Self = Self(0);

    pub(super) const fn new(number: u64) -> Self {
        Self(number)
    }

    pub(super) const fn get(self) -> u64 {
        self.0
    }

    /// The block that is opened behind this one.
    pub(super) const fn next(self) -> Self {
        assert!(self.0 < u64::MAX, "no cache writes as many blocks, and no part names one");
        Self(self.0 + 1)
    }

    /// How many blocks there are from `older` on to the one before this. `None` if that is no older one.
    pub(super) const fn since(self, older: Self) -> Option<u64> {
        self.0.checked_sub(older.0)
    }

    /// The slot that it lies in, in a ring of so many.
    pub(super) const fn slot(self, slots: u64) -> u64 {
        assert!(slots > 0, "a ring has slots");
        self.0 % slots
    }
}
