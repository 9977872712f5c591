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

/// The health of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Health {
    /// Fully usable.
    Good,
    /// The power failed while the block was programmed or erased. Pages programmed before are readable (after an erase
    /// none are). It must be erased before the next program.
    Torn,
    /// A program failed. Pages programmed before are readable; it is never programmed or erased again.
    ReadOnly,
    /// It was bad from the factory, or its erase failed. It can neither be read nor written.
    Bad,
}

/// State of one block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    /// Pages programmed since the last erase: the write pointer. A bad block keeps its last value.
    pub(crate) written: u32,
    /// Erases of the block.
    pub(crate) erases: u32,
    pub(crate) health: Health,
}

impl Block {
    pub(crate) const FRESH: Self = Self { written: 0, erases: 0, health: Health::Good };

    /// Whether a failure took it out of use permanently.
    pub(crate) fn is_retired(&self) -> bool {
        matches!(self.health, Health::ReadOnly | Health::Bad)
    }

    /// Pages that can be read.
    pub(crate) fn readable(&self) -> u32 {
        if self.health == Health::Bad { 0 } else { self.written }
    }
}

// The blocks of a terabyte, in blocks of a megabyte, must not need more than a few dozen megabytes.
const _: () = assert!(size_of::<Block>() <= 12);
