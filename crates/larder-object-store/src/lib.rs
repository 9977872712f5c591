//! A caching `ObjectStore`.
//!
#![doc = include_str!("../README.md")]
// The crate, from the bottom up. `store` is all that does not depend on the version of `object_store`; `adapter.rs` is
// compiled once for each version, in `v0_13` and `v0_14`.
//
//   error, path_rule, background, options      what the user says
//   key, head, layout, source                  names, heads, parts; an object of the store below
//   epochs, promise, flight, in_flight         what is under way
//   metrics                                    numbers
//   store                                      the cache
#![allow(clippy::duplicate_mod)] // adapter.rs, on purpose

mod background;
mod epochs;
mod error;
mod flight;
mod head;
mod in_flight;
mod key;
mod layout;
mod metrics;
mod options;
mod path_rule;
mod promise;
mod source;
mod store;
#[cfg(feature = "object_store-0-13")]
pub mod v0_13;
#[cfg(feature = "object_store-0-14")]
pub mod v0_14;

pub use background::{Spawn, Task};
pub use error::Error;
pub use metrics::Metrics;
pub use options::Options;
pub use path_rule::PathRule;
pub use store::read::CacheStatus;
