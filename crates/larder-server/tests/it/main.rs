//! Runs servers in this process, with clients that check every byte.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod admin;
mod administrators;
mod deployment;
mod drive;
mod flash;
mod lifecycle;
mod limits;
mod memcached;
mod neighbours;
#[cfg(feature = "otlp")]
mod otlp;
mod prefixes;
mod relocation;
mod resp;
mod serving;
mod sick_drive;
mod slow;
mod tls;
mod users;
mod weights;
mod work;
