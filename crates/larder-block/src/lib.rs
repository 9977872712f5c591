//! A block cache in front of a slow device, exported to the system.
//!
//! A *core* device is large and slow. A *cache* device in front of it is small and fast. The cache keeps parts of a
//! core in cache lines. A *layout* decides where on the cache device the lines are stored, and which metadata is
//! written with them so that they are found again after a crash.
//!
//! An export serves a [`Volume`](volume::Volume): a cached core or any other device. The protocols are in `export`
//! (Linux).

pub mod accounting;
pub mod cache;
pub mod calibration;
mod error;
#[cfg(target_os = "linux")]
pub mod export;
pub mod fingerprint;
pub mod layout;
pub mod manage;
mod mode;
pub mod policy;
pub mod running;
mod span;
mod streams;
pub mod volume;

pub use error::{Error, ErrorKind};
