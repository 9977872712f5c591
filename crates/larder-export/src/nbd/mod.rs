//! Exports volumes by NBD, the network block device protocol: for QEMU, libnbd, fio and the kernel's own client.
//!
//! ```text
//!   acceptor ──► worker 0   a loop over its sockets, its timers and its ring to the devices
//!            ├─► worker 1   a connection: handshake ─► requests ─► volume ─► replies
//!            └─► …
//! ```
//!
//! Fixed newstyle negotiation with structured replies, block status, several connections per export, read-only
//! exports, trim, write-zeroes, cache, flush, FUA and block sizes. The protocol (`negotiation.rs`, `request.rs`,
//! `reply.rs`) is bytes in and bytes out, without sockets. A connection (`connection.rs`, `transmission.rs`) reads
//! everything that has arrived, begins all of it, and answers what has ended with one send. `presence.rs` ensures that
//! a request of a dead connection never overwrites what its client has written since.
//!
//! A hostile client uses a bounded amount of memory, gets an error or the end of its connection, and delays no other
//! client.

mod connection;
mod contexts;
mod exports;
mod fields;
#[doc(hidden)]
pub mod fuzzing;
mod negotiation;
mod presence;
mod reply;
mod request;
mod server;
mod transmission;
mod under_way;
mod wire;
mod withdrawal;
mod worker;
mod worker_loop;

pub use exports::{Export, Exports};
pub use server::{NbdConfig, NbdServer};
pub use withdrawal::Withdrawn;
