//! Tests of the cache under conditions that ordinary tests cannot wait for, with judges for every answer that it gives.
//!
//! The guarantee to callers is checked against the actual history: a value is returned intact, for its own key, not
//! expired and newest, or not at all. Each module has a way to produce events, and a judge that knows the allowed
//! answers after them. A judge that never fails would prove nothing, so each is also tested with impossible answers.
//!
//! | module | content |
//! |---|---|
//! | [`soak`] | under virtual time, on one thread, with faults, crashes and power losses by seed |
//! | [`history`] | on real threads that change the same keys, judged by the history of each key |
//! | [`kills`] | in a real process, on a file, under `kill -9`, judged by the journals of its victims |
//! | `block` | a block cache in a real process, by NBD, under `kill -9`, judged by a shadow of every sector; on Linux |
//!
//! [`executor`] runs tasks under virtual time for any purpose: for example thousands of clients of a cache, on a device
//! with the timing of a model.
//!
//! An [`Error`] is a failure before anything is judged. Wrong answers of the cache are not errors: a run reports them.

mod any_cache;
#[cfg(target_os = "linux")]
pub mod block;
pub mod executor;
pub mod history;
pub mod kills;
pub mod soak;
mod spawned;

pub use larder_workload::Error;
