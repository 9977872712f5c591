//! A hybrid cache: DRAM in front of flash. On flash it separates objects by how long they live.
//!
//! The position of a write on flash decides what the write costs. A drive erases in large units, and a unit whose
//! bytes all die together is erased without copying. So small objects (rewritten at random), large objects (written
//! and dropped in order) and metadata each go to the device under a placement handle of their own.
//! ```text
//!    get / set / delete
//!          │
//!      DRAM tier ──── evicts ────► admission ──┬─ small ─► SOC: 4 KiB buckets, set-associative, rewritten in place
//!          ▲                                   └─ large ─► LOC: regions, filled in order, dropped whole
//!          └───────────── a flash hit returns ─────────────────┘
//! ```
//!
//! ```
//! use std::sync::Arc;
//! use larder::{Config, Larder, RealClock, block_on};
//!
//! # fn main() -> Result<(), larder::Error> {
//! let config = Config { dram_bytes: 1 << 20, ..Config::default() };
//! let cache = block_on(Larder::open(config, None, Arc::new(RealClock)))?;
//! block_on(cache.set(b"bread", b"rye", None))?;
//! assert_eq!(block_on(cache.get(b"bread"))?.as_deref(), Some(&b"rye"[..]));
//! # Ok(())
//! # }
//! ```
//!
//! One device can serve several [`Tenants`]; one cache can use several devices ([`Shards`]). The [`plan`] assigns the
//! placement handle of each write stream.
//!
//! With the feature `tracing` the cache logs events for the operator, with the target `larder`: the outcome of each
//! opening, device errors, places that go out of use and come back, whether writes are suspended, and whether a crash
//! would empty flash. A subscriber must not call the cache.
//!
//! The cache guarantees this: a value is returned whole and for its own key, or not at all; a replaced, deleted or
//! expired value never comes back. Anything in the cache may be evicted at any time.

pub mod admission;
mod array;
mod breaker;
mod cache;
pub mod config;
mod dram;
pub mod endurance;
mod engine;
pub mod error;
mod events;
mod flash;
mod flash_region;
mod front;
mod item;
mod key;
mod latency;
mod layout;
mod loc;
mod long;
mod metrics;
mod open_metrics;
mod partition;
pub mod plan;
mod recovery;
mod region_tombstones;
mod removal;
pub mod shards;
mod shared_flush;
mod side_by_side;
mod signal;
mod soc;
pub mod stats;
mod stored;
mod superblock;
mod sync;
pub mod tenants;
mod tier;
mod time;
mod tombstones;
mod ttl_groups;
mod turns;
mod typed;

pub use admission::AdmissionPolicy;
pub use array::memory::ArrayMemory;
pub use cache::stream::{Chunk, ValueStream};
pub use cache::{
    Cas, Change, Copied, EstimatedItems, FetchError, Fetched, Flushed, Larder, Scan, ScanPage,
    Scanned, SetOptions,
};
pub use config::{
    ArrayConfig, Config, CrashSafety, DramPolicy, LocConfig, OnChange, RegionEviction, Reinsertion,
    SocConfig,
};
pub use dram::value::{Value, ValueMeta};
pub use endurance::{DriveLife, Endurance};
pub use error::{Error, ErrorKind};
pub use flash_region::{FlashRegion, RegionState};
pub use front::{AnyRoute, Blocking, Lead, Route, Routed, Shards, Walk};
pub use key::VALUE_BYTES_MAX;
/// The device layer: all kinds of devices and their options.
pub use larder_device as device;
pub use larder_device::{
    Clock, Device, DirectIo, FileDevice, FileOptions, IoEngine, RealClock, VirtualClock, block_on,
};
pub use latency::{Histogram, Latency};
pub use layout::Layout;
pub use metrics::{Metric, MetricKind};
pub use open_metrics::OpenMetrics;
pub use partition::ShardState;
pub use plan::PlacementPlan;
pub use recovery::Recovery;
pub use removal::{Removal, RemovalListener, RemovalReason};
pub use shards::offline::{ClosedSet, SetOrder};
pub use shards::status::{SetStatus, ShardDeviceStatus, ShardStatus};
pub use shards::{Shard, ShardMap, ShardOptions, Upkeep};
pub use stats::Stats;
pub use tenants::{Tenant, Tenants, TenantsConfig};
pub use tier::{Tier, Tiers};
pub use time::Moment;
pub use typed::{Codec, Typed, TypedError};
#[cfg(feature = "serde")]
pub use typed::{Postcard, PostcardError};

/// Compiles the example on that page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/vssds.md")]
struct VssdsPage;

#[doc(hidden)]
pub mod fuzzing;
