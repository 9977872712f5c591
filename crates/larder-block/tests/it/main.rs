//! Tests of the public interface of the block cache, in one binary.

#![allow(clippy::unwrap_used, reason = "a test that fails panics, in its helpers too")]
#![allow(clippy::cast_precision_loss)]

mod cache_crash;
mod calibrated;
mod class_sums;
mod classes;
mod crash;
mod crashed;
mod destaging;
mod evicted;
mod full;
mod full_classes;
mod latencies;
mod loading;
mod log_bytes;
mod log_failed;
mod log_gaps;
mod log_refill;
mod log_start;
mod manage;
mod memory;
mod ocf_bytes;
mod ocf_doubt;
mod owed;
mod read_ahead;
mod rig;
mod routed;
mod running;
mod scenarios;
mod seeds;
mod shadow;
mod states;
mod subject;
mod timed;
mod two_settles;
mod written;
