//! A cache server for memcached and Redis clients, on the caches of [`larder`].
//!
//! ```text
//!   acceptor ──► worker 0   a loop over its sockets, its timers and its ring to flash
//!            ├─► worker 1   a task per connection: bytes ─► requests ─► answers, in order
//!            └─► …          the caches of all tenants are shared by all workers
//! ```
//!
//! Each connection belongs to one thread. A hit in DRAM is answered within the turn in which it was requested. A
//! request that waits for flash does not block its thread, and the reads of one pipeline run in parallel.
//!
//! The acceptor gives each connection to the worker with the fewest (`acceptor.rs`). A worker (`event_loop.rs`,
//! `worker/`) sleeps in one place for all its event sources; the kernel interface of the loop is behind one trait
//! (`larder_net::sockets`). A connection (`connection.rs`) knows no protocol. The protocols are in `protocol/`, a
//! folder each, and know no sockets. Idle connections own no buffers.
//!
//! A server in memory, on a free port:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use larder::{RealClock, Tenant, Tenants, TenantsConfig, block_on};
//! use larder_server::{Endpoint, ListenerConfig, ProtocolKind, Server, ServerConfig};
//!
//! let config = TenantsConfig {
//!     dram_bytes: 16 << 20,
//!     tenants: vec![Tenant::new("default", 100.0)],
//!     ..TenantsConfig::default()
//! };
//! let tenants = block_on(Tenants::open(config, None, Arc::new(RealClock))).unwrap();
//! let port = Endpoint::Tcp(([127, 0, 0, 1], 0).into());
//! let listeners = vec![ListenerConfig::new(port, ProtocolKind::Resp)];
//! let server = Server::start(ServerConfig { listeners, ..ServerConfig::default() }, tenants)?;
//! println!("redis-cli -p {}", server.addresses()[0].port());
//! server.end(Duration::from_secs(10))?;
//! # Ok::<(), larder_server::Error>(())
//! ```
#![cfg(target_os = "linux")]

mod acceptor;
mod account;
mod admin;
mod answers;
mod block_caches;
mod caller;
mod channels;
mod collections;
mod config;
mod connection;
mod counters;
mod databases;
mod debug_clock;
mod dumps;
mod error;
mod escaped_key;
mod event_loop;
mod finder;
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod held;
mod housekeeper;
mod key_calls;
mod keyspace;
mod leveller;
mod listener;
mod mailbox;
mod metrics_text;
#[cfg(feature = "otlp")]
mod otlp;
mod policy;
mod prefixes;
mod protocol;
mod rates;
mod resp_board;
mod scripts;
mod server;
mod set_report;
mod shared;
mod sketch;
mod slow_log;
mod steps;
mod tenant;
mod users;
mod vssds;
mod waiters;
mod watchers;
mod wear;
mod work;
mod worker;

pub use admin::alone::MetricsServer;
pub use block_caches::{BlockCacheReport, BlockCaches};
pub use config::{
    KeyspaceEvents, ListenerConfig, MaxmemoryPolicy, NodeList, OpenedDevice, Otlp, ProtocolKind,
    ServerConfig, SlotMap, SlotNode,
};
pub use debug_clock::DebugClock;
pub use error::{Error, ErrorKind};
pub use larder_net::sockets::{Endpoint, SocketBackend};
pub use larder_net::tls::{Tls, TlsFault, TlsFile, TlsFiles};
pub use metrics_text::MetricsText;
pub use policy::{OverLimit, TenantPolicy};
pub use server::{BoundServer, Server};
pub use set_report::{
    LevellingReport, MovedReport, SetCounts, SetReport, ShardReport, StepReport, WearReport,
};
pub use users::{PasswordHash, User};
pub use vssds::{VssdOrder, VssdOrders};
pub use wear::WearReports;
