//! Storage for whoever only appends: blocks that are allocated, written in order, read and freed.
//!
//! Erase blocks of raw flash, zones, and reclaim units that somebody writes in order have this in common. A
//! [`BlockStore`] gives them one face (FlashBlox §3.3 has the calls of a virtual SSD; zoned namespaces have the same
//! with other names). Who needs addresses that can be overwritten takes a [`Device`](crate::Device).
//!
//! ```text
//!           alloc              append … append, in order
//!   (none) ──────► open, empty ───────────────────► open ─────► full
//!                     │                              │  a failed append │
//!                     │                              ▼                  │
//!                     │                           closed                │
//!                     └──────────────┬───────────────┴──────────────────┘
//!                                    ▼ free
//!                              gone, and its number is not used again
//! ```
//!
//! What all of them promise:
//!
//! 1. What has returned is durable: a loss of power undoes no allocation, no append and no freeing that was
//!    acknowledged. Of those under way each happens or does not.
//! 2. Appends to a block land in the order of their places, though several may be under way together: if one has
//!    landed, so have all before it.
//! 3. A number names one block for ever. A freed block is not found again, whatever happens.
//! 4. After a loss of power [`BlockStore::list`] has every block with its tag and the bytes that can be read of it: all
//!    that were acknowledged, and perhaps more that was under way.
//!
//! | module | what it is |
//! |---|---|
//! | [`BlockStore`] | the trait |
//! | [`ledger`] | the state of the blocks, and all checks of requests |
//! | [`memory`] | blocks in memory: the simplest store, for tests |
//! | [`on_device`] | blocks on any [`Device`](crate::Device) |
//! | [`vssd`] | the blocks of a virtual SSD on open-channel drives of the model |
//! | [`zoned`] | the zones of a zoned block device |
//! | [`device`] | the other way round: a [`Device`](crate::Device) on any blocks |

pub mod device;
mod info;
pub mod ledger;
pub mod memory;
pub mod on_device;
mod request;
mod store;
pub mod vssd;
pub mod zoned;

pub use device::{DeviceOnBlocks, DeviceOnBlocksOptions, OnBlocksCounts};
pub use info::{BlockId, IsolationRung, StoreInfo, Stream};
pub use ledger::{BlockState, Ledger};
pub use memory::MemoryBlocks;
pub use on_device::{BlocksOnDevice, BlocksOptions};
pub use request::{BlockIo, CheckedBlockIo};
pub use store::{AllocFuture, BlockStore};
pub use vssd::{TimedBlocks, VssdArray, VssdBlocks};
pub use zoned::ZonedBlocks;
