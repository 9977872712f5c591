//! The firmware of an open-channel drive: the host sees dies and blocks, and maps by itself.
//!
//! The host allocates a block on a die, with a [`Tag`](crate::nand::Tag) of out-of-band bytes that say
//! what it is for ([`BlockTag`] is the packing that FlashBlox publishes); programs its pages in
//! order, a stripe at a time; reads what is programmed; erases it when nothing of it is needed any
//! more. The drive keeps what the host cannot: which block of a die is worn least, which ones failed,
//! and, over a power loss, what the media tell.
//!
//! ```text
//!            allocate          program, in order          last stripe
//!   free ──────────────► open ───────────────────► open ──────────────► full
//!     ▲                    │                         │                    │
//!     └────────────────────┴───────── erase ─────────┴────────────────────┘
//! ```
//!
//! Of each die a spare is kept (1 %, at least a block) for blocks that fail; when more have failed,
//! the die takes no more blocks ([`DieView::read_only`]). Blocks that hosts move ([`RawSsd::copy_to`],
//! [`RawSsd::level_step`]) may use the spare meanwhile.
//!
//! What a power loss leaves: every program and erase that was answered. Of the operation that it
//! interrupts, the block is torn: its pages of before are there, it takes no more, and it must be
//! erased. A tag is on flash from the first program of its block on; a block that was allocated and
//! not programmed is free again.
//!
//! The drive holds no payload, and takes no time: [`RawSsd::take_ops`] says what it did, if
//! that is recorded, for [`Media`](crate::timed::Media) to book. A word beside each page, if asked
//! for, says what the host put there.
//!
//! ```
//! use larder_ssd::nand::DieIndex;
//! use larder_ssd::raw::{RawConfig, RawSsd};
//! use larder_ssd::timed::small;
//!
//! # fn main() -> Result<(), larder_ssd::Error> {
//! let mut ssd = RawSsd::new(RawConfig::new(small().geometry(16)?))?;
//! let block = ssd.allocate(DieIndex(3), *b"segment 17      ")?;
//! ssd.program(block, 0, ssd.geometry().stripe_pages())?;
//! ssd.power_loss();
//! let found = ssd.power_on();
//! assert_eq!(found[0].tag, Some(*b"segment 17      "));
//! # Ok(())
//! # }
//! ```

mod block_tag;
mod changes;
mod commands;
mod config;
mod die;
mod drive;
mod free;
mod moves;
mod power;
mod restore;

pub use block_tag::BlockTag;
pub use changes::{BlockChange, BlockImage};
pub use config::RawConfig;
pub use die::{DieCounters, DieView};
pub use drive::{BlockView, RawSsd};
pub use moves::Levelled;
pub use power::FoundBlock;
