//! The SSD model against laws and published tables.

#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod conservation;
mod uniform;
