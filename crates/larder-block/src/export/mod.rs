//! Volumes for others to use.

pub mod nbd;
