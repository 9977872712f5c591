//! Tests of the SSD model against invariants and published tables.

#![allow(clippy::unwrap_used)] // a test that cannot go on should stop
#![allow(clippy::cast_possible_truncation)] // page numbers of small drives are indexes here

mod cache_shape;
mod conservation;
mod events;
mod groups;
mod habits;
mod hot_cold;
mod isolation;
mod nvme;
mod policies;
mod power_loss;
mod raw;
mod raw_moves;
mod rollover;
mod scattered;
mod support;
mod uniform;
mod wear;
