//! One block.
//!
//! ```text
//!             program, in order        last page
//!   erased ───────────────────► written ─────────► full
//!      ▲                           │                │ erase
//!      └───────────────────────────┴────────────────┤
//!                                bad ◄──────────────┘ it failed
//! ```

/// What a medium knows of one block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    /// Pages programmed since the last erase: the write pointer. A bad block keeps its last one.
    pub(crate) written: u32,
    /// Times that it was erased.
    pub(crate) erases: u32,
    /// When a page of it was programmed last, in programs of the medium.
    pub(crate) last_program: u64,
    /// A failure took it out of use, for good.
    pub(crate) bad: bool,
}

impl Block {
    pub(crate) const FRESH: Self = Self { written: 0, erases: 0, last_program: 0, bad: false };
}

// A terabyte in blocks of a megabyte must not take more than a few dozen megabytes.
const _: () = assert!(size_of::<Block>() <= 24);
