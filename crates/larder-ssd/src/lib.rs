//! A software SSD. Pure computation: no threads, no clock, no I/O, no `unsafe`; everything is a
//! function of its inputs.
//!
//! [`managed`] is the firmware of an ordinary drive: a page-mapped flash translation layer (FTL) with
//! over-provisioning, garbage collection and NVMe Flexible Data Placement (FDP). It counts the writes of the drive to
//! its media, so that device-level write amplification (DLWA) can be studied without a drive. It does not store payload
//! bytes: it maps logical pages to places, and a caller that needs contents keeps them by logical address.
//!
//! [`raw`] is the firmware of an open-channel drive: it exposes the blocks of its dies to a host that does its own
//! mapping. `larder-vssd` is such a host: it divides drives among tenants.
//!
//! [`nand`] is the medium under both: blocks, wear, failures, power.
//!
//! [`analytic`] has closed-form models of such a drive: write amplification, life, embodied and operational carbon.
//!
//! [`timed`] adds a clock to either: dies, channels, a link, a write buffer.
//!
//! [`nvme`] is the drive at the level of NVMe commands, as a host sees it, with the encoders and decoders that a host
//! needs.
//!
//! A drive whose host overwrites at random must copy live pages to free units:
//!
//! ```
//! use larder_ssd::managed::{Geometry, ManagedConfig, ManagedSsd};
//!
//! // 64 MiB, in units of 256 KiB, with 17 % more flash than the host can address.
//! let geometry = Geometry::with_overprovisioning(64 << 20, 256 << 10, 17.0)?;
//! let mut ssd = ManagedSsd::new(ManagedConfig::new(geometry))?;
//! ssd.write(0, geometry.logical_pages, 0)?;
//! let full = ssd.stats().clone();
//! let mut page = 1;
//! for _ in 0..4 * geometry.logical_pages {
//!     page = page * 48_271 % 2_147_483_647;
//!     ssd.write(page % geometry.logical_pages, 1, 0)?;
//! }
//! let dlwa = ssd.stats().dlwa_since(&full).unwrap();
//! assert!((2.0..4.0).contains(&dlwa), "{dlwa}");
//! # Ok::<(), larder_ssd::Error>(())
//! ```

#![forbid(unsafe_code)]

pub mod analytic;
pub mod error;
pub mod managed;
pub mod nand;
pub mod nvme;
pub mod raw;
mod rng;
pub mod timed;

pub use error::{Error, ErrorKind};
