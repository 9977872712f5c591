//! Volumes exported by NBD, the protocol of network block devices: for QEMU, libnbd, fio and the kernel's own client.
//!
//! ```text
//!   acceptor ──► worker 0   a loop over its sockets, its timers and its ring to the devices
//!            ├─► worker 1   a connection: handshake ─► requests ─► volume ─► replies
//!            └─► …
//! ```
//!
//! Fixed newstyle negotiation with structured replies, block status, several connections to an export, read-only
//! exports; trim, write-zeroes, cache, flush, FUA and block sizes. The protocol (`negotiation.rs`, `request.rs`,
//! `reply.rs`) is bytes in and bytes out, and knows no sockets. A connection (`connection.rs`, `transmission.rs`) reads
//! all that has come, begins all of it, and answers with one send what has ended. `presence.rs` has the rules by which
//! a request of a dead connection never lands on what its client has written since.
//!
//! What a hostile client sends takes bounded memory, is answered with an error or by the end of its connection, and
//! holds up nobody else.

mod connection;
mod contexts;
mod encryption;
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

pub use exports::{Export, Exports};
pub use server::{NbdConfig, NbdServer};
pub use withdrawal::Withdrawn;
