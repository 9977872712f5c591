//! A block cache before a slow device, exported to the system.
//!
//! A *core* device is large and slow; a *cache* device before it is small and fast. What the cache keeps of a core it
//! keeps in lines, and a *layout* decides where on the cache device they lie and what has to be written beside them,
//! so that they are found again after a crash.
//!
//! What is exported is a [`Volume`](volume::Volume), a cache or any device; how, a protocol says
//! (`export`, Linux).

pub mod accounting;
pub mod cache;
pub mod calibration;
mod error;
#[cfg(target_os = "linux")]
pub mod export;
pub mod fingerprint;
pub mod layout;
pub mod manage;
pub mod policy;
pub mod running;
mod streams;
pub mod volume;

pub use error::{Error, ErrorKind};
