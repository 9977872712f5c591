//! Protocols that export volumes.

mod mailbox;
pub mod nbd;
pub mod ublk;
