//! The medium: blocks that are programmed in order, page after page, and erased whole; what lies
//! beside the pages; wear and what it breaks; the power and what its loss leaves.
//!
//! The firmwares stand on it: [`managed`](crate::managed) maps logical pages to it, and its blocks
//! are superblocks that go round the dies of a reclaim group; [`raw`](crate::raw) hands out the
//! blocks of single dies. The medium knows no logical page, no
//! host and no time. It keeps no payload either.
//!
//! Invariants, asserted where the state changes:
//! - pages of a block are programmed in order, each once between two erases;
//! - a block that failed is neither programmed nor erased any more, and stays as it is;
//! - a block during whose program or erase the power failed is erased before it is programmed;
//! - what an erase or a program does to wear and to out-of-band data happens with it, not later.

mod array;
mod block;
mod failures;
mod geometry;
mod index;
mod medium;
mod op;
mod out_of_band;
mod power;
mod span;
mod tags;
mod wear;

pub use array::DieArray;
pub use block::Health;
pub use failures::Endurance;
pub use geometry::NandGeometry;
pub use index::{BlockIndex, ChannelIndex, DieIndex, PageIndex};
pub use op::PhysicalOp;
pub use span::Spans;
pub use tags::Tag;

pub(crate) use block::Block;
pub(crate) use failures::ProgramFailures;
pub(crate) use medium::{Division, Medium};
