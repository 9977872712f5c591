//! What devices do, measured by size, direction and depth: where routing begins.
//!
//! [`measure`] keeps a device busy for a bounded time a point, at offsets drawn by a seed. Reads leave it as it is; a
//! device that has nothing to lose may be written too. What came out is a [`DeviceProfile`]; those of a cache device
//! and its cores are a [`Profile`], which the label of a cache keeps.

mod measure;
mod profile;

pub use measure::{MeasureOptions, measure};
pub use profile::{CoreProfile, DeviceProfile, Point, Profile};

/// Bytes of the requests that are measured.
pub const SIZES: [u32; 3] = [4 << 10, 64 << 10, 512 << 10];

/// Requests at a time that are measured.
pub const DEPTHS: [u16; 2] = [1, 32];
