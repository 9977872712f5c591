//! Volumes for others to use.

mod mailbox;
pub mod nbd;
pub mod ublk;
