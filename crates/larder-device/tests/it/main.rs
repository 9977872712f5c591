//! The backends of `larder-device` from outside: what any device promises, and what each adds.

// The helpers are tests too, but the lint sees only functions marked as such.
#![allow(clippy::unwrap_used)]

mod allocations;
mod block_stores;
mod blocks;
mod device_on_blocks;
mod disorder;
mod fault;
mod file;
#[cfg(target_os = "linux")]
mod fixed;
mod history;
#[cfg(target_os = "linux")]
mod hosted;
mod lists;
#[cfg(target_os = "linux")]
mod mapped;
mod striped;
mod support;
mod timed_blocks;
mod zeroes;
