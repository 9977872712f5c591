//! Servers in this process, and clients that speak to them by the byte.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod admin;
mod flash;
mod lifecycle;
mod memcached;
mod resp;
mod serving;
mod slow;
mod tls;
mod users;
