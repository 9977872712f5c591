//! A log of regions on flash, below engines that differ in how they find what is in it.
//!
//! Records are appended to open regions, one for each stream of records that will die together. A region
//! is written piece by piece as it fills, several pieces at a time, and ends with a footer that lists its
//! records: then it is sealed. When no region is free, one gives way: the engine says which of its records
//! stay, and the region is filled anew under a higher number. To a drive these are large sequential
//! writes that overwrite each other in order.
//!
//! ```text
//!     append                    pieces                      footer
//!  ───────────► open region ─────────────► flash ... ───────────────► sealed ──► reclaimed, expired
//!                 one a stream               4 at a time
//! ```
//!
//! - [`Regions`] states and checks the life of a region.
//! - [`ActiveRegions`] is what is being filled, in memory as far as it is not on flash.
//! - [`record`] and [`footer`] are what lies on flash, byte by byte, in one of two forms ([`RecordForm`]).
//! - [`RegionLog`] writes, reads and reclaims. It knows where no record lies: that is the matter of an
//!   index behind [`Entries`], which is under the same lock. What has died in a way that a crash may not
//!   undo is the matter of a [`Host`].
//!
//! *Always:* each place is written once in a filling; what a footer lists was on flash before the footer
//! set out; numbers of fillings grow and are never used twice; a caller may be dropped at any await.

mod active;
mod backoff;
mod chunks;
mod eviction;
mod expired;
mod expiry;
pub mod footer;
mod form;
mod host;
mod identity;
mod in_flight;
mod log;
mod read;
mod reclaim;
pub mod record;
mod region;
mod regions;
mod unsealed;
mod writer;

pub use active::{ActiveRegion, ActiveRegions};
pub use backoff::Backoff;
pub use eviction::RegionEviction;
pub use expiry::is_expired;
pub use footer::{Closing, Footer, FooterEntry};
pub use form::RecordForm;
pub use host::{AsRecord, Entries, Event, Host, Kept, Rescue};
pub use identity::{CACHE_ID_BYTES, CacheId};
pub use in_flight::PIECES_IN_FLIGHT;
pub use log::{LogPlace, LogState, RegionLog, Stream, buffer_bytes};
pub use read::Unreadable;
pub use record::{NewRecord, Record, RecordIdentity};
pub use region::{Region, RegionId, RegionIdentity, RegionState};
pub use regions::{Next, Regions, SEGMENTS};
pub use writer::Writer;

/// What devices write whole.
const BLOCK_BYTES: usize = 4096;

/// A position in a region.
fn narrow(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a region is shorter than 4 GiB")
}
