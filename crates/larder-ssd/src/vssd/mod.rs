//! Virtual SSDs: tenants with channels and dies of their own, on the raw firmware.
//!
//! "The paper" below is Huang et al., "FlashBlox: Achieving Both Performance Isolation and Uniform Lifetime for
//! Virtualized SSDs" (FAST 2017).
//!
//! | module | content |
//! |---|---|
//! | `kind` | requests of tenants, names |
//! | `units` | which channels, dies and soft planes are free, and their allocation |
//! | `array` | creates and destroys vSSDs |
//! | `blocks` | their logical blocks: allocate, append, read, free |
//! | `table` | the map from logical to physical blocks |
//! | `moves`, `swap` | moves of parts of blocks, dies that swap their data |
//! | [`share`] | scheduling of a die that several tenants share |
//! | [`timed`] | latencies, and swaps in parallel with tenants |
//! | `wear` | the input of the levelling rules |
//! | [`levelling`] | which channels or dies swap their tenants so that all wear out together |
//! | `state`, `catalogue`, `record`, `images` | the state that survives a power loss, and its byte format |
//! | `recovery` | opening an array after a power loss |
//! | `audit` | checks that map, drives and quotas agree |
//!
//! The guarantees, tested at thousands of points of power loss: an acknowledged append is present; a freed block stays
//! freed; no physical block is part of two logical ones; no tenant reads data of another; no erase count is lost.

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
