//! The array engine beside what others do: indexes of large values on flash, expiry, collisions.
//!
//! | module | what it is |
//! |---|---|
//! | `index` | one trait over all indexes, and models of those that the array is compared with |
//! | `clients`, `shards` | drives in virtual time, each with an index and a log, and who asks them |
//! | `collisions` | the experiment `array-collisions`: what too short a hash loses |
//! | `expiry` | logs whose objects expire |
//! | `lifetimes` | the experiment `array-ttl`: how much of the flash is alive |
//! | `lookups` | the experiment `array-index`: what indexes read and write |
//! | `throughput` | the experiment `array-throughput`: what clients see of them |

mod clients;
mod collisions;
mod expiry;
mod index;
mod lifetimes;
mod lookups;
mod shards;
mod throughput;

pub(super) use collisions::ARRAY_COLLISIONS;
pub(super) use lifetimes::ARRAY_TTL;
pub(super) use lookups::ARRAY_INDEX;
pub(super) use throughput::ARRAY_THROUGHPUT;
