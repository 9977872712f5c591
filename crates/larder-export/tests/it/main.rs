//! Tests of the public interface of exports, in one binary.

#![allow(clippy::unwrap_used, reason = "a test that fails panics, in its helpers too")]

mod client;
mod held;
mod nbd;
mod volume;
