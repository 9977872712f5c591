//! Virtual SSDs: tenants on channels and dies of their own, over the raw firmware.
//!
//! "The paper" in here is Huang et al., "FlashBlox: Achieving Both Performance Isolation and Uniform
//! Lifetime for Virtualized SSDs" (FAST 2017).
//!
//! | module | what it is |
//! |---|---|
//! | `kind` | what a tenant asks for, names |
//! | `units` | which channels, dies and soft planes are free, and who gets which |
//! | `array` | makes and ends vSSDs |
//! | `blocks` | their logical blocks: allocate, append, read, free |
//! | `table` | the map from logical to physical blocks |
//! | `moves`, `swap` | parts of blocks that move, dies that exchange what they hold |
//! | [`share`] | who is served when by a die that several share |
//! | [`timed`] | how long it all takes, swaps beside tenants |
//! | `wear` | what rules of levelling choose by |
//! | [`levelling`] | which channels or dies exchange their tenants so that all wear out together |
//! | `state`, `catalogue`, `record`, `images` | what outlives a loss of power, and its bytes |
//! | `recovery` | opening an array after one |
//! | `audit` | whether map, drives and promises agree |
//!
//! What is promised, and tested at thousands of points where the power fails: an append that was
//! acknowledged is there; a block that was freed stays freed; no physical block is part of two logical
//! ones; nobody reads what another wrote; erases are counted for good.

mod array;
mod audit;
mod blocks;
mod catalogue;
mod images;
mod kind;
pub mod levelling;
mod moves;
mod record;
mod recovery;
pub mod share;
mod state;
mod swap;
mod table;
pub mod timed;
mod units;
mod wear;

pub use array::{NotOpened, VssdInfo, Vssds};
pub use blocks::{BlockState, Pages};
pub use images::{IMAGES, ImageFailed, Images, MemoryImages};
pub use kind::{Isolation, LogicalBlock, Request, Throughputs, VssdId};
pub use recovery::Recovered;
pub use state::SwapState;
pub use swap::{Swap, channel_pairs};
pub use wear::WearSinceSwap;
