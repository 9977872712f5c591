//! Which cache a key belongs to, and the calls over whatever says so.
//!
//! [`Larder`] is one cache. A [`Route`] leads each key to one: a cache to itself, [`Shards`](crate::Shards) to that of
//! a device. The calls are written once over a route, for tasks ([`Routed`]) and for threads that block ([`Blocking`]);
//! `calls.rs` lists them. Whoever writes something on top (types, a server) writes it over a route, and never asks
//! how many caches there are.
//!
//! A call of one key goes to a plain cache as it is: no allocation, no `dyn`, and no step more than its own method.
//! Over shards it goes to where the key is, and is made again if that changes meanwhile (`shards/calls.rs`). A call of
//! many keys is divided among the caches (`many.rs`); one of everything goes to all of them, and its answers are added
//! up (`everything.rs`).

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
