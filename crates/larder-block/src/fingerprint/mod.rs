//! Ties a cache to its cores, by their identity and by checksums of some hundred blocks of each.
//!
//! Device names change, and a core may be written, replaced or restored while its cache is away. If the cache has
//! clean data, comparing it with the core reveals this. With dirty data alone nothing would, and the data would be
//! destaged to a device to which it does not belong. So the cache device stores a *fingerprint* of each core, in two
//! slots that are written alternately. It covers blocks spread over the core, and blocks that were destaged recently
//! or for which the cache has dirty data.
//!
//! ```text
//!   a write of a core ──► Watch ──► the block has a fingerprint: it is void, durably ──► core
//! ```
//!
//! *Always:* a fingerprint of a block is void, durably, before the cache changes the block on the core; and a block is
//! durable on the core before it has a fingerprint. So whatever a crash leaves, a block that differs was not written
//! by this cache.

mod blocks;
mod file_system;
mod slot;
mod watch;

use std::ops::Range;

pub use blocks::{DeviceComparison, compare, file_system};
pub use slot::{Content, Entry, Origin, SLOT_BYTES, Slot};
pub(crate) use watch::{Change, ChangeKind};
pub use watch::{Home, Watch, read};

/// Bytes of a block, of which one checksum is taken.
pub const BLOCK_BYTES: u64 = 4096;

/// Fewest cores for which a cache has room.
const PLACES_MIN: u16 = 8;
/// Most cores for which a cache has room; further cores have no fingerprint.
const PLACES_MAX: u16 = 512;

/// Number of places for fingerprints in a cache made with `cores` cores: twice that number, so that cores can be
/// added.
pub fn places_for(cores: usize) -> u16 {
    let wanted = cores.saturating_mul(2).checked_next_power_of_two();
    let wanted = wanted.and_then(|wanted| u16::try_from(wanted).ok()).unwrap_or(PLACES_MAX);
    wanted.clamp(PLACES_MIN, PLACES_MAX)
}

/// Size in bytes of an area of `places` places.
pub fn area_bytes(places: u16) -> u64 {
    u64::from(places) * 2 * SLOT_BYTES as u64
}

/// The blocks that overlap these bytes of a core.
fn blocks_of(bytes: Range<u64>) -> Range<u64> {
    bytes.start / BLOCK_BYTES..bytes.end.div_ceil(BLOCK_BYTES)
}
