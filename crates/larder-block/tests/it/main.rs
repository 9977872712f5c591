//! Tests of the block cache as a whole.

#![allow(clippy::unwrap_used, clippy::cast_precision_loss)]

mod log_bytes;
mod log_crash;
mod log_memory;
mod rig;
mod shadow;
