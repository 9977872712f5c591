//! The firmware of an open-channel drive: the host sees dies and blocks, and does its own mapping.
//!
//! The host allocates a block on a die, with a [`Tag`](crate::nand::Tag) of out-of-band bytes that identifies its data
//! ([`BlockTag`] is the format that FlashBlox publishes). It programs the pages of the block in order, a stripe at a
//! time, reads programmed pages, and erases the block when none of its data is needed any more. The drive tracks what
//! the host cannot: which block of a die is least worn, which blocks failed, and, after a power loss, the state of the
//! media.
//!
//! ```text
//!            allocate          program, in order          last stripe
//!   free ──────────────► open ───────────────────► open ──────────────► full
//!     ▲                    │                         │                    │
//!     └────────────────────┴───────── erase ─────────┴────────────────────┘
//! ```
//!
//! Each die keeps a spare (1 %, at least a block) for failed blocks. When more have failed, the die accepts no more
//! blocks ([`DieView::read_only`]). Blocks that hosts move ([`RawSsd::copy_to`], [`RawSsd::level_step`]) may
//! temporarily use the spare.
//!
//! After a power loss, every acknowledged program and erase is present. The block of an interrupted operation is torn:
//! it keeps the pages programmed before (none after an erase), accepts no more, and must be erased. A tag is on flash
//! from the first program of its block on; a block that was allocated but not programmed is free again.
//!
//! The drive stores no payload, and operations take no time: if recording is on, [`RawSsd::take_ops`] returns what it
//! did, for [`Media`](crate::timed::Media) to charge. An optional word per page records what the host put there.
//!
//! | file | content |
//! |---|---|
//! | `config` | configuration of the drive and of its failures |
//! | `drive` | the drive: its state, allocation, views |
//! | `commands` | host commands on blocks: program, read, erase |
//! | `die`, `free` | failed blocks and counters of each die; its free blocks, least worn first |
//! | `moves` | copies to other dies, levelling within one |
//! | `block_tag` | the published out-of-band bytes of a block |
//! | `power` | power loss, and the scan afterwards |
//! | `changes`, `restore` | changes for a caller that stores the media, and a drive made from them |
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
mod image;
mod moves;
mod power;
mod restore;

pub use block_tag::BlockTag;
pub use config::RawConfig;
pub use die::{DieCounters, DieView};
pub use drive::{BlockView, RawSsd};
pub use image::{BlockChange, BlockImage};
pub use moves::Levelled;
pub use power::FoundBlock;
