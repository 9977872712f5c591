//! Append-only storage: blocks that are allocated, written in order, read and freed.
//!
//! Erase blocks of raw flash, zones, and reclaim units that are written in order have this in common. A [`BlockStore`]
//! gives them one interface (FlashBlox §3.3 has these calls for a virtual SSD; zoned namespaces have the same under
//! other names). For addresses that can be overwritten use a [`Device`](larder_device::Device).
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
//! All stores guarantee:
//!
//! 1. A request that has returned is durable: a loss of power undoes no allocation, append or freeing that was
//!    acknowledged. Each of those in flight happens or does not.
//! 2. Appends to a block land in order, even if several are in flight at once: if one has landed, so have all before
//!    it.
//! 3. A number names one block forever. A freed block never comes back.
//! 4. After a loss of power [`BlockStore::list`] has every block with its tag and its readable bytes: all that were
//!    acknowledged, and perhaps more that were in flight.
//!
//! Stores are built on what [`larder_device`] offers (devices, zoned devices, requests and buffers) and on the virtual
//! SSDs of [`larder_ssd`]. They know neither caches nor file systems.
//!
//! ```
//! use larder_blocks::{BlockStore, MemoryBlocks, Stream};
//! use larder_device::IoBuffer;
//!
//! let store = MemoryBlocks::new(8, 1 << 20, 4096)?; // eight blocks of 1 MiB, in pages of 4 KiB
//! let block = store.alloc(Stream::DEFAULT, 7).wait()?;
//! store.append(block, 0, IoBuffer::zeroed(8192)).wait()?;
//! assert_eq!(store.list()[0].written_bytes, 8192);
//! store.free(block).wait()?;
//! assert!(store.list().is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | file | content |
//! |---|---|
//! | `store` | the trait |
//! | `info`, `request` | descriptions of stores, names of blocks; requests |
//! | [`ledger`] | the state of the blocks, and all checks of requests |
//! | [`isolation`] | what a tenant shares with others, and the mechanisms that a drive offers |
//! | [`memory`] | blocks in memory: the simplest store, for tests |
//! | [`on_device`] | blocks on any [`Device`](larder_device::Device) |
//! | [`vssd`] | the blocks of a virtual SSD on the model's open-channel drives |
//! | [`zoned`] | the zones of a zoned block device |
//! | [`device`] | the reverse: a [`Device`](larder_device::Device) on any blocks |

pub mod device;
mod info;
pub mod isolation;
pub mod ledger;
pub mod memory;
pub mod on_device;
mod request;
mod store;
pub mod vssd;
pub mod zoned;

pub use device::{DeviceOnBlocks, DeviceOnBlocksOptions, OnBlocksCounts};
pub use info::{BlockId, StoreInfo, Stream};
pub use isolation::IsolationLevel;
pub use ledger::{BlockState, Ledger};
pub use memory::MemoryBlocks;
pub use on_device::{BlocksOnDevice, BlocksOptions};
pub use request::{BlockIo, CheckedBlockIo};
pub use store::{AllocFuture, BlockStore};
pub use vssd::{TimedBlocks, VssdArray, VssdBlocks};
pub use zoned::ZonedBlocks;
