//! Routes from keys to caches, and the calls over a route.
//!
//! [`Larder`] is one cache. A [`Route`] leads each key to a cache: a cache leads to itself, [`Shards`](crate::Shards)
//! lead to the cache of a device. The calls are written once over a route, for tasks ([`Routed`]) and for threads
//! that block ([`Blocking`]); `calls.rs` lists them. Code on top of the cache (types, a server) is written over a
//! route, independent of the number of caches.
//!
//! A call with one key goes to a plain cache directly: without allocation, `dyn`, or any step beyond that cache's own
//! method. Over shards it goes to the shard that has the key, and is repeated if that changes during the call
//! (`shards/calls.rs`). A call with many keys is divided among the caches (`many.rs`). A call that concerns the whole
//! cache goes to all caches, and the answers are added up (`everything.rs`).

mod blocking;
mod calls;
mod everything;
mod many;
mod route;
mod routed;
mod set;
mod walk;

pub use blocking::Blocking;
pub use route::{Lead, Route};
pub use routed::Routed;
pub use set::{AnyRoute, Shards};
pub use walk::Walk;
