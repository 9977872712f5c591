//! Tests of the store in front of `InMemory`, for both versions of `object_store`.

#![allow(clippy::unwrap_used)] // a test that cannot continue should stop
#![allow(clippy::duplicate_mod)] // the same tests, once for each version

mod rig;
#[cfg(feature = "object_store-0-13")]
mod v0_13;
#[cfg(feature = "object_store-0-14")]
mod v0_14;
