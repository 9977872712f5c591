//! Compares the array engine with alternatives: indexes of large values on flash, expiry, collisions.
//!
//! | module | what it is |
//! |---|---|
//! | `failure` | the experiment `array-failure`: a drive that dies twice |
//! | `victims` | its clients, which know what they may find |
//! | `index` | one trait for all indexes, and models of the alternatives |
//! | `clients`, `shards` | drives in virtual time, each with an index and a log, and their clients |
//! | `collisions` | the experiment `array-collisions`: the cost of a hash that is too short |
//! | `crash` | the experiment `array-crash`: what is found after a restart |
//! | `engine` | the engine itself, behind the same interfaces |
//! | `expiry` | logs whose objects expire |
//! | `lifetimes` | the experiment `array-ttl`: how much of the flash is alive |
//! | `lookups` | the experiment `array-index`: reads and writes of the indexes |
//! | `memory` | the experiment `array-memory`: bytes of DRAM for each object |
//! | `placement` | the experiment `array-placement`: write amplification of drives under the engine |
//! | `pressure` | the experiment `array-pressure`: reinsertion on a fast full drive |
//! | `reinsertion` | the experiment `array-reinsertion`: gain and cost of reinsertion |
//! | `throughput` | the experiment `array-throughput`: throughput and latency by index |

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
mod pressure;
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
pub(super) use pressure::ARRAY_PRESSURE;
pub(super) use reinsertion::ARRAY_REINSERTION;
pub(super) use throughput::ARRAY_THROUGHPUT;
