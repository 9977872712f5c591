//! What ties a cache to its cores: their identity, and checksums of some hundred blocks of each.
//!
//! Names of devices change, and a core may be written, replaced or restored while its cache is away. With clean data in
//! the cache that shows when they are compared; with dirty data alone nothing would show it, and they would go to a
//! device that they do not belong to. So the cache device has a *fingerprint* of each core, in two slots that are
//! written in turns: blocks spread over the core, and others that were destaged lately or that the cache has dirty
//! data for.
//!
//! ```text
//!   a write of a core ──► Watch ──► the block has a fingerprint: it is void, durably ──► core
//! ```
//!
//! *Always:* a fingerprint is void, durably, before the cache changes the block on the core; and a block is on the core
//! durably before it has one. So whatever a crash leaves, a block that differs was not written by this cache.

mod blocks;
mod file_system;
mod slot;
mod watch;

use std::ops::Range;

pub use blocks::{Compared, compare, file_system};
pub use slot::{Content, Entry, Origin, SLOT_BYTES, Slot};
pub(crate) use watch::{Change, ChangeKind};
pub use watch::{Home, Watch, read};

/// Bytes of a core of which one checksum is taken.
pub const BLOCK_BYTES: u64 = 4096;

/// Cores that a cache has room for, at least.
const PLACES_MIN: u16 = 8;
/// And at most: those that come beyond have no fingerprint.
const PLACES_MAX: u16 = 512;

/// Places for the fingerprints of a cache that is made with `cores` cores: as many again are for cores that come later.
pub fn places_for(cores: usize) -> u16 {
    let wanted = cores.saturating_mul(2).checked_next_power_of_two();
    let wanted = wanted.and_then(|wanted| u16::try_from(wanted).ok()).unwrap_or(PLACES_MAX);
    wanted.clamp(PLACES_MIN, PLACES_MAX)
}

/// Bytes of `places` places.
pub fn area_bytes(places: u16) -> u64 {
    u64::from(places) * 2 * SLOT_BYTES as u64
}

/// The blocks that have a byte in common with these of a core.
fn blocks_of(bytes: Range<u64>) -> Range<u64> {
    bytes.start / BLOCK_BYTES..bytes.end.div_ceil(BLOCK_BYTES)
}
