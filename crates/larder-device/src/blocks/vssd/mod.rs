//! The blocks of a virtual SSD: an array of open-channel drives that several tenants share, each with a store of
//! its own.
//!
//! ```text
//!   VssdBlocks   VssdBlocks   …       a store each: checks, numbers, appends that come out of order
//!        └───────────┴──────┐
//!                       VssdArray     the array behind one lock: makes vSSDs and ends them, exchanges channels
//!        ┌──────────────────┼──────────────────┐
//!   larder_ssd::vssd     word.rs, slots.rs   Keeper
//!   where pages are      a word a page says  the bytes of pages, and tails: in memory, or in a model image
//!                        which bytes it has
//! ```
//!
//! The raw firmware of the model keeps no bytes, but a word beside each page, which moves along with its page.
//! The word names the slot where the bytes of the page are kept, and their checksum: so a page that was moved to
//! another die, any number of times, has its own bytes or fails.
//!
//! A die programs a *stripe* at once, several pages. What of an append is no whole stripe waits in the drive's
//! protected buffer, as drives with capacitors have it: this *tail* outlives a loss of power, and goes to flash with
//! the pages that complete its stripe. So appends of a page are acknowledged and nothing is padded.
//!
//! [`TimedBlocks`] are such blocks in a drive's time (`timed.rs`), whose clients are threads that go on one at a time
//! (`turnstile.rs`); they are gone with their process.
//!
//! Invariants: a slot is named by one page of one block, or free; a tail is shorter than a stripe, and begins
//! where the pages on flash end; what is acknowledged is on flash or in a tail.

mod array;
mod errors;
mod holder;
mod image;
mod keeper;
mod pages;
mod slots;
mod state;
mod store;
mod timed;
mod turnstile;
mod unwritten;
mod word;

pub use array::VssdArray;
pub use image::ImageFile;
pub use keeper::{Keeper, MemoryKeeper, Tail};
pub use pages::Verified;
pub use store::VssdBlocks;
pub use timed::TimedBlocks;
pub use unwritten::UnwrittenImage;
