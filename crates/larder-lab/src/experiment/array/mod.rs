//! The array engine beside what others do: indexes of large values on flash, expiry, collisions.
//!
//! | module | what it is |
//! |---|---|
//! | `failure` | the experiment `array-failure`: a drive that dies twice |
//! | `victims` | its clients, who know what they may find |
//! | `index` | one trait over all indexes, and models of those that the array is compared with |
//! | `clients`, `shards` | drives in virtual time, each with an index and a log, and who asks them |
//! | `collisions` | the experiment `array-collisions`: what too short a hash loses |
//! | `crash` | the experiment `array-crash`: what is found after a restart |
//! | `engine` | the engine itself, as one of them |
//! | `expiry` | logs whose objects expire |
//! | `lifetimes` | the experiment `array-ttl`: how much of the flash is alive |
//! | `lookups` | the experiment `array-index`: what indexes read and write |
//! | `memory` | the experiment `array-memory`: bytes for each object |
//! | `placement` | the experiment `array-placement`: what drives write for the engine |
//! | `reinsertion` | the experiment `array-reinsertion`: what it brings to write again what is asked for |
//! | `throughput` | the experiment `array-throughput`: what clients see of them |

mod clients;
mod collisions;
mod crash;
mod engine;
mod expiry;
mod failure;
mod index;
mod lifetimes;
mod lookups;
mod memory;
mod placement;
mod reinsertion;
mod shards;
mod throughput;
mod victims;

pub(super) use collisions::ARRAY_COLLISIONS;
pub(super) use crash::ARRAY_CRASH;
pub(super) use failure::ARRAY_FAILURE;
pub(super) use lifetimes::ARRAY_TTL;
pub(super) use lookups::ARRAY_INDEX;
pub(super) use memory::ARRAY_MEMORY;
pub(super) use placement::ARRAY_PLACEMENT;
pub(super) use reinsertion::ARRAY_REINSERTION;
pub(super) use throughput::ARRAY_THROUGHPUT;
