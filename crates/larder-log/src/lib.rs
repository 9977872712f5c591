//! A log of regions on flash, below engines that differ in how they find records in it.
//!
//! Records are appended to open regions, one for each stream of records that will die together. A region is written
//! piece by piece as it fills, several pieces at a time. Its last piece has a footer that lists its records: then the
//! region is sealed. When no region is free, the log reclaims one: the engine says which of its records stay, and the
//! region is filled again under a higher number. To a drive these are large sequential writes that overwrite each other
//! in order.
//!
//! ```text
//!     append                    pieces                      footer
//!  ───────────► open region ─────────────► flash ... ───────────────► sealed ──► reclaimed, expired
//!                 one a stream               4 at a time
//! ```
//!
//! - [`Regions`] states and checks the life of a region.
//! - [`ActiveRegions`] holds the regions that are being filled, in memory as far as they are not on flash.
//! - [`record`] and [`footer`] define the data on flash, byte by byte, in one of two forms ([`RecordForm`]).
//! - [`RegionLog`] writes, reads and reclaims. It does not know where a record lies: an index behind [`Entries`], under
//!   the same lock, does. A [`Host`] stores what has died in a way that a crash must not undo.
//!
//! *Always:* each place is written once in a filling; all records that a footer lists were on flash before the footer
//! was sent; numbers of fillings grow and are never used twice; a caller may be dropped at any await.
//!
//! The life of a region, without its bytes:
//!
//! ```
//! use larder_log::{RegionState, Regions};
//!
//! let mut regions = Regions::new(2, 1);
//! let region = regions.in_state(RegionState::Free)[0];
//! let sequence = regions.number_filling();
//! regions.activate(region, sequence);
//! assert_eq!(regions.get(region).state(), RegionState::Active);
//! regions.seal(region, 0, 3600); // its last record expires in second 3600
//! assert!(regions.expired(3599).is_empty());
//! assert_eq!(regions.expired(3600), [region]);
//! ```
//!
//! | file | content |
//! |---|---|
//! | `log` | the log: appends, writes, reads and reclaims |
//! | `region`, `regions` | one region; all regions and their states |
//! | `active`, `chunks`, `in_flight` | regions that are being filled: their bytes in memory, and on the way to flash |
//! | `record`, `footer`, `form`, `identity`, `expiry` | the bytes on flash |
//! | `eviction`, `sweep` | which region is reclaimed next; forgets what pointed into regions given up whole |
//! | `host` | the traits of the engine above: `Entries`, `Host`, `Rescue` |
//! | `backoff` | when to try again after a failure |

mod active;
mod backoff;
mod chunks;
mod eviction;
mod expiry;
pub mod footer;
mod form;
mod host;
mod identity;
mod in_flight;
mod log;
pub mod record;
mod region;
mod regions;
mod sweep;

pub use active::{ActiveRegion, ActiveRegions};
pub use backoff::Backoff;
pub use eviction::RegionEviction;
pub use expiry::is_expired;
pub use footer::{Closing, Footer, FooterEntry};
pub use form::RecordForm;
pub use host::{AsRecord, Entries, Event, Host, Kept, Rescue};
pub use identity::{CACHE_ID_BYTES, CacheId};
pub use in_flight::{PIECES_IN_FLIGHT, Writer};
pub use log::{LogPlace, LogState, RegionLog, Stream, Unreadable, buffer_bytes};
pub use record::{NewRecord, Record, RecordIdentity};
pub use region::{Region, RegionId, RegionIdentity, RegionState};
pub use regions::{Next, Regions, SEGMENTS};

/// The unit that devices write whole.
const BLOCK_BYTES: usize = 4096;

/// Converts a position in a region.
fn narrow(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a region is shorter than 4 GiB")
}
