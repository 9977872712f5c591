//! A cache server that memcached and Redis clients speak to, on the caches of [`larder`].
//!
//! ```text
//!   acceptor ──► worker 0   a loop over its sockets, its timers and its ring to flash
//!            ├─► worker 1   a task per connection: bytes ─► requests ─► answers, in order
//!            └─► …          the caches of all tenants are shared by all workers
//! ```
//!
//! Everything of a connection belongs to one thread. A hit in DRAM is answered within the turn in which it was asked;
//! a request that waits for flash leaves the thread to others, and reads of one pipeline run beside each other.
//!
//! An acceptor gives each connection to the worker that has the fewest (`acceptor.rs`). A worker (`event_loop.rs`,
//! `worker/`) sleeps once for all it has; what a loop asks of the kernel is behind one trait (`net/`). A connection
//! (`connection.rs`) knows no protocol: those are in `protocol/`, a folder each, and know no sockets. Idle connections
//! own no buffers.

#[cfg(target_os = "linux")]
mod acceptor;
#[cfg(target_os = "linux")]
mod admin;
#[cfg(target_os = "linux")]
mod answers;
#[cfg(target_os = "linux")]
mod caller;
#[cfg(target_os = "linux")]
mod config;
#[cfg(target_os = "linux")]
mod connection;
#[cfg(target_os = "linux")]
mod counters;
#[cfg(target_os = "linux")]
mod error;
#[cfg(target_os = "linux")]
mod event_loop;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(target_os = "linux")]
mod listener;
#[cfg(target_os = "linux")]
mod net;
#[cfg(target_os = "linux")]
mod peer;
#[cfg(target_os = "linux")]
mod protocol;
#[cfg(target_os = "linux")]
mod server;
#[cfg(target_os = "linux")]
mod shared;
#[cfg(target_os = "linux")]
mod tenant;
#[cfg(target_os = "linux")]
mod users;
#[cfg(target_os = "linux")]
mod within;
#[cfg(target_os = "linux")]
mod worker;

#[cfg(target_os = "linux")]
pub use config::{Endpoint, ProtocolKind, ServerConfig, SocketBackend};
#[cfg(target_os = "linux")]
pub use error::{Error, ErrorKind};
#[cfg(target_os = "linux")]
pub use protocol::resp::{SlotMap, SlotNode};
#[cfg(target_os = "linux")]
pub use server::Server;
#[cfg(target_os = "linux")]
pub use users::{PasswordHash, User};
