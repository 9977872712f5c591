//! Virtual SSDs: tenants with channels and dies of their own, on open-channel drives ([`larder_ssd::raw`]). Pure
//! computation, as the drives: no threads, no clock, no I/O, no `unsafe`.
//!
//! "The paper" below is Huang et al., "FlashBlox: Achieving Both Performance Isolation and Uniform Lifetime for
//! Virtualized SSDs" (FAST 2017).
//!
//! A drive with two channels, each of them a tenant's:
//!
//! ```
//! use larder_ssd::nand::{DieArray, NandGeometry};
//! use larder_ssd::raw::{RawConfig, RawSsd};
//! use larder_vssd::{Isolation, MemoryImages, Pages, Request, Throughputs, Vssds};
//!
//! let geometry = NandGeometry {
//!     array: DieArray { channels: 2, dies_per_channel: 2 },
//!     planes: 1,
//!     bits: 1,
//!     blocks_per_die: 16,
//!     pages_per_block: 8,
//!     page_bytes: 4096,
//!     mapping_bytes: 4096,
//! };
//! let drives = vec![RawSsd::new(RawConfig::new(geometry))?];
//! let rates = Throughputs { channel_mb_s: 400, die_mb_s: 100, soft_plane_mb_s: 25 };
//! let mut array = Vssds::create(drives, MemoryImages::default(), [7; 16], rates)?;
//! let channel = Request { isolation: Isolation::Channel, mb_s: 1, bytes: 1 };
//! let (one, other) = (array.alloc(channel)?, array.alloc(channel)?);
//! let block = array.alloc_block(one, 0)?;
//! array.append(one, block, 0, Pages::Count(4))?;
//! assert_eq!(array.written_pages(one, block)?, 4);
//! assert!(array.written_pages(other, block).is_err()); // no tenant reaches data of another
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | file | content |
//! |---|---|
//! | `kind` | requests of tenants, names |
//! | `units` | which channels, dies and soft planes are free, and their allocation |
//! | `array` | the array: vSSDs and their logical blocks, moves, swaps, recovery |
//! | `table` | the map from logical to physical blocks |
//! | [`share`] | scheduling of a die that several tenants share |
//! | [`timed`] | latencies, and swaps in parallel with tenants |
//! | [`levelling`] | which channels or dies swap their tenants so that all wear out together |
//! | [`service`] | levelling in service: a step machine that counts, exchanges at a pace, and rests |
//! | `state`, `catalogue`, `record`, `images` | the state that survives a power loss, and its byte format |
//! | [`image`] | drives, with all content of their media, in a file |
//! | `fields` | decodes numbers |
//!
//! The guarantees, tested at thousands of points of power loss: an acknowledged append is present; a freed block stays
//! freed; no physical block is part of two logical ones; no tenant reads data of another; no erase count is lost.

#![forbid(unsafe_code)]

mod array;
mod catalogue;
mod fields;
mod idle;
pub mod image;
mod images;
mod kind;
pub mod levelling;
mod record;
pub mod service;
pub mod share;
mod state;
mod table;
pub mod timed;
mod units;

pub use array::{
    BlockState, Copied, EndedLoan, LendingRules, LoanEnd, LoanInfo, LoanTotals, NotOpened,
    OpenParts, Pages, Recovered, Swap, VssdInfo, Vssds, WearSinceSwap, channel_pairs,
};
pub use images::{IMAGES, ImageFailed, Images, MemoryImages};
pub use kind::{Isolation, LogicalBlock, NAME_BYTES_MAX, Request, Throughputs, VssdId};
pub use state::SwapState;
