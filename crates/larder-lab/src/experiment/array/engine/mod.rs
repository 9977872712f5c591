//! The array engine itself, for the experiments that compare it with models.
//!
//! | module | what it is |
//! |---|---|
//! | `config` | a cache with only the array engine |
//! | `watched` | a memory device that records its requests and their purpose |
//! | `values` | values that contain their key |
//! | `expiring` | the engine as a cache whose objects expire |
//! | `looked_up` | the engine as one of the indexes: the device requests of each operation |
//! | `many` | the engine on several drives in virtual time |
//! | `loaded` | the engine on several drives under a load of clients |

mod config;
mod expiring;
mod loaded;
mod looked_up;
mod many;
mod values;
mod watched;

pub(super) use config::engine_alone;
pub(super) use expiring::EngineCache;
pub(super) use loaded::{Played, array_of, play_engine};
pub(super) use looked_up::EngineIndex;
pub(super) use many::EngineShards;
pub(super) use values::Values;
