//! Many caches as one: several devices, several tenants, and the calls that find the right cache for a key.
//!
//! Uses all other wings; none of them uses this one.
//!
//! Invariants:
//!
//! 1. A key has one place in each state of a set of shards; a change of the state leaves no older value where a later
//!    look-up could find it (`shards`).
//! 2. A tenant's part of a device overlaps no other part (`partition`).
//! 3. A tenant cannot take from others what its configuration guarantees to them (`tenants`).
//!
//! | file | what it is |
//! |---|---|
//! | `front/` | routes from keys to caches, and the calls over a route, for tasks and for blocking threads |
//! | `partition/` | the partition table of a device: its parts, and which shard it is |
//! | `shards/` | several devices as shards, which fail independently |
//! | `tenants/` | several tenants on one or more devices |
//! | `typed` | typed keys and values over a cache of bytes |

pub(crate) mod front;
pub(crate) mod partition;
pub mod shards;
pub mod tenants;
pub(crate) mod typed;
