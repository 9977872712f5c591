//! The engine itself, where the experiments compare it with models.
//!
//! | module | what it is |
//! |---|---|
//! | `config` | a cache that is nothing but the engine |
//! | `watched` | a device in memory that says what it was asked, and for what |
//! | `values` | values that say whose they are |
//! | `expiring` | the engine as a cache whose objects expire |
//! | `looked_up` | the engine as one of the indexes: what the device is asked for each operation |
//! | `many` | the engine on several drives in virtual time |

mod config;
mod expiring;
mod looked_up;
mod many;
mod values;
mod watched;

pub(super) use config::engine_alone;
pub(super) use expiring::EngineCache;
pub(super) use looked_up::EngineIndex;
pub(super) use many::EngineShards;
pub(super) use values::Values;
