//! A block cache before a slow device, exported to the system.
//!
//! A *core* device is large and slow; a *cache* device before it is small and fast. What the cache keeps of a core it
//! keeps in lines, and a *layout* decides where on the cache device they lie and what has to be written beside them,
//! so that they are found again after a crash.

pub mod accounting;
mod error;
pub mod layout;

pub use error::{Error, ErrorKind};
