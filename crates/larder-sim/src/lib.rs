//! The cache under conditions that a test cannot wait for, and judges of every answer that it gives.
//!
//! What is promised to callers is held here against what happened: a value comes back whole, for its own key,
//! alive and newest, or not at all. Each module has a way to make things happen, and a judge that knows what may
//! be answered after them. One that nothing fails would prove nothing, so each is tried with answers that cannot be.
//!
//! | module | what it is |
//! |---|---|
//! | [`soak`] | under virtual time, on one thread, with faults, crashes and power losses by seed |
//! | [`history`] | on real threads that change the same keys, judged by the history of each key |
//! | [`kills`] | in a real process, on a file, under `kill -9`, judged by the journals of its victims |
//! | `block` | a block cache in a real process, by NBD, under `kill -9`, judged by a shadow of every sector; on Linux |
//!
//! [`executor`] runs tasks under virtual time for whoever has some: thousands of clients of a cache, say, on a device
//! that takes as long as a model says.
//!
//! An [`Error`] is what goes wrong before anything is judged. Wrong answers of the cache are none: they are what a run
//! reports.

mod any_cache;
#[cfg(target_os = "linux")]
pub mod block;
pub mod executor;
pub mod history;
pub mod kills;
pub mod soak;
mod spawned;

pub use larder_workload::Error;
