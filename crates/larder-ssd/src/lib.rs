//! A software SSD. Pure computation: no threads, no clock, no I/O, no `unsafe`; everything is a
//! function of its inputs.
//!
//! [`managed`] is the firmware of an ordinary drive: a page-mapped flash translation layer (FTL)
//! with over-provisioning, garbage collection and NVMe Flexible Data Placement (FDP). It counts
//! what the drive writes to its media, so that device-level write amplification (DLWA) can be
//! studied without a drive. Payload bytes are not its business: it maps logical pages to places,
//! and whoever wants contents keeps them by logical address.
//!
//! [`raw`] is the firmware of an open-channel drive: blocks of dies for a host that maps by itself.
//!
//! [`vssd`] divides such drives among tenants: virtual SSDs on channels, dies or parts of dies of their own, whose wear
//! it levels.
//!
//! [`image`] keeps such drives in a file, in whatever state.
//!
//! [`nand`] is the medium that both stand on: blocks, wear, failures, power.
//!
//! [`analytic`] is what theory says about such a drive: write amplification in closed form, life,
//! embodied and operational carbon.
//!
//! [`timed`] is a clock for either: dies, channels, a link, a write buffer.
//!
//! [`nvme`] is the drive at the level of commands, as hosts see it, and the encoders and decoders
//! that a host needs.

#![forbid(unsafe_code)]

pub mod analytic;
pub mod error;
mod fields;
pub mod image;
pub mod managed;
pub mod nand;
pub mod nvme;
pub mod raw;
mod rng;
pub mod timed;
pub mod vssd;

pub use error::{Error, ErrorKind};
