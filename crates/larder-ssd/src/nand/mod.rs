//! The medium: blocks that are programmed in order, page after page, and erased whole; what lies
//! beside the pages; wear and what it breaks; the power and what its loss leaves.
//!
//! The firmwares stand on it: [`managed`](crate::managed) maps logical pages to it, and its blocks
//! are superblocks that go round the dies of a reclaim group. The medium knows no logical page, no
//! host and no time. It keeps no payload either.
//!
//! Invariants, asserted where the state changes:
//! - pages of a block are programmed in order, each once between two erases;
//! - a bad block is neither programmed nor erased any more; it stays bad;
//! - what an erase or a program does to wear and to out-of-band data happens with it, not later.

mod array;
mod block;
mod failures;
mod index;
mod medium;
mod op;
mod out_of_band;
mod power;
mod span;
mod wear;

pub use array::DieArray;
pub use failures::Endurance;
pub use index::{BlockIndex, ChannelIndex, DieIndex, PageIndex};
pub use op::PhysicalOp;
pub use span::Spans;

pub(crate) use medium::{Division, Medium};
