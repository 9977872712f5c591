//! One block.
//!
//! ```text
//!             program, in order        last page
//!   erased ───────────────────► written ─────────► full
//!      ▲                         │   │              │
//!      │ erase                   │   │ erase        │ erase
//!      ├─────────────────────────│───┴──────────────┤
//!      │                         │                  │ it failed
//!      │        power failed     ▼                  ▼
//!      └────────────────────── torn                bad
//!                                │ a program failed, not the power
//!                                ▼
//!                             read-only
//! ```

/// What a block is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Health {
    /// Everything.
    Good,
    /// The power failed during a program or an erase of it. What had been programmed before is
    /// readable (after an erase nothing is); it takes no program until it is erased.
    Torn,
    /// A program of it failed. What had been programmed before is readable; it is never programmed
    /// nor erased again.
    ReadOnly,
    /// It was bad from the factory, or its erase failed. It is good for nothing.
    Bad,
}

/// What a medium knows of one block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    /// Pages programmed since the last erase: the write pointer. A bad block keeps its last one.
    pub(crate) written: u32,
    /// Times that it was erased.
    pub(crate) erases: u32,
    pub(crate) health: Health,
}

impl Block {
    pub(crate) const FRESH: Self = Self { written: 0, erases: 0, health: Health::Good };

    /// Whether a failure took it out of use, for good.
    pub(crate) fn is_retired(&self) -> bool {
        matches!(self.health, Health::ReadOnly | Health::Bad)
    }

    /// Pages that can be read.
    pub(crate) fn readable(&self) -> u32 {
        if self.health == Health::Bad { 0 } else { self.written }
    }
}

// A terabyte in blocks of a megabyte must not take more than a few dozen megabytes.
const _: () = assert!(size_of::<Block>() <= 12);
