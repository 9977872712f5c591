//! The medium: blocks that are programmed in order, page after page, and erased as a whole; out-of-band data; wear and
//! the failures that it causes; the power supply and the state after a power loss.
//!
//! Both firmwares use it: [`managed`](crate::managed) maps logical pages to it, and its blocks are superblocks across
//! the dies of a reclaim group; [`raw`](crate::raw) exposes the blocks of single dies. The medium has no notion of
//! logical pages, host or time. It stores no payload either.
//!
//! Invariants, asserted where the state changes:
//! - Pages of a block are programmed in order, each once between two erases.
//! - A failed block is never programmed or erased again, and keeps its state.
//! - After a power failure during a program or erase, the block is erased before it is programmed.
//! - The effects of an erase or a program on wear and on out-of-band data happen with the operation, not later.
//!
//! | file | content |
//! |---|---|
//! | `array`, `geometry`, `index` | channels, dies, planes, blocks, pages, and types for their numbers |
//! | `block` | the life of a block: write pointer, erases, health |
//! | `span` | the dies on which a block lies |
//! | `medium` | the whole medium: what an operation does to all of this |
//! | `op` | an operation on a die, for a clock to charge |
//! | `failures`, `wear` | which erases and programs fail; erase counts |
//! | `out_of_band`, `tags` | data beside pages, and beside blocks |
//! | `power` | the power supply |

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
