//! Measures the performance of devices by size, direction and depth. Routing starts from it.
//!
//! [`measure`] keeps a device busy for a bounded time per point, at offsets selected by a seed. Reads do not change
//! the device; a device without data to lose may also be written. The result is a [`DeviceProfile`]. The results of a
//! cache device and its cores are a [`Profile`], which is stored in the label of a cache.

mod measure;
mod profile;

pub use measure::{MeasureOptions, measure};
pub use profile::{CoreProfile, DeviceProfile, Point, Profile};

/// Request sizes that are measured, in bytes.
pub const SIZES: [u32; 3] = [4 << 10, 64 << 10, 512 << 10];

/// Queue depths that are measured.
pub const DEPTHS: [u16; 2] = [1, 32];
