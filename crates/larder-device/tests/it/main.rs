//! The backends of `larder-device` through their public interface: what every device guarantees, and what each adds.

// The helpers are test code too, but the lint recognises only functions marked as tests.
#![allow(clippy::unwrap_used)]

mod allocations;
mod blocks;
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
mod zeroes;
