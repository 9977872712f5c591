//! The block cache from outside, in one binary.

#![allow(clippy::unwrap_used, reason = "a test that fails panics, in its helpers too")]
#![allow(clippy::cast_precision_loss)]

mod cache_crash;
mod client;
mod held;
mod log_bytes;
mod log_cleaning;
mod log_crash;
mod log_memory;
mod log_refill;
mod nbd;
mod rig;
mod seeds;
mod shadow;
mod volume;
