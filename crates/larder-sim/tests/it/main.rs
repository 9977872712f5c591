//! Tests of the simulation from outside, in one binary.
#![allow(clippy::unwrap_used, reason = "a test that fails panics, in its helpers too")]

mod kills;
mod overwritten;
mod shards;
mod soak;
