//! The blocks of a virtual SSD (vSSD): several tenants share an array of open-channel drives, each with a store of its
//! own.
//!
//! ```text
//!   VssdBlocks   VssdBlocks   …       a store each: checks, numbers, appends that come out of order
//!        └───────────┴──────┐
//!                       VssdArray     the array behind one lock: makes vSSDs and ends them, exchanges channels
//!        ┌──────────────────┼──────────────────┐
//!   larder_vssd     word.rs, slots.rs   Keeper
//!   where pages are      a word a page says  the bytes of pages, and tails: in memory, or in a model image
//!                        which bytes it has
//! ```
//!
//! The raw firmware of the model keeps no bytes, only a word per page, which moves along with the page. The word names
//! the slot where the bytes of the page are kept, and their checksum. So a page that was moved to another die, any
//! number of times, has its own bytes or fails.
//!
//! A die programs several pages at once, a *stripe*. Pages of an append that do not fill a stripe wait in the drive's
//! protected buffer, as in drives with capacitors. This *tail* survives a loss of power, and goes to flash together
//! with the pages that complete its stripe. So appends of single pages are acknowledged without padding.
//!
//! [`TimedBlocks`] are such blocks in a drive's time (`timed.rs`). Their clients are threads that run one at a time
//! (`scheduler.rs`), and the blocks are gone with their process.
//!
//! [`Levelling`] is a thread that exchanges channels so that they wear out together. It goes by the wear of the drives
//! and the latencies of the stores (`load.rs`).
//!
//! A vSSD may lend blocks of idle dies to others, which put clean data there (`lending.rs`): such a block is gone when
//! its loan ends.
//!
//! Invariants: a slot is named by one page of one block, or is free; a tail is shorter than a stripe, and begins where
//! the pages on flash end; everything acknowledged is on flash or in a tail.

mod array;
mod errors;
mod holder;
mod image;
mod keeper;
mod lending;
mod levelling;
mod load;
mod pages;
mod scheduler;
mod slots;
mod state;
mod store;
mod timed;
mod unwritten;
mod word;

pub use array::VssdArray;
pub use image::ImageFile;
pub use keeper::{Keeper, MemoryKeeper, Tail};
pub use lending::{LoansReport, TenantLoans};
pub use levelling::Levelling;
pub use pages::Verified;
pub use store::VssdBlocks;
pub use timed::TimedBlocks;
pub use unwritten::UnwrittenImage;
