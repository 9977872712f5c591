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

// The wings. Each uses only those above it in this list; `dram` and `engine` do not use each other. The page of each
// says what it is for, and what its files are.
//
//   base      what all wings use: items, keys, time, errors, waiting
//   observe   counters, latencies, events
//   config    settings, and their limits
//   dram      the DRAM tier
//   engine    the flash engines: soc, loc, array; and the log of tombstones
//   flash     the flash side: its division, admission, placement, opening and closing
//   cache     `Larder`: both tiers as one cache
//   fleet     many caches as one: shards, tenants, routes
pub mod advice;
mod base;
mod cache;
pub mod config;
mod dram;
mod engine;
mod flash;
mod fleet;
mod observe;

pub use base::error::{self, Error, ErrorKind};
pub use base::key::VALUE_BYTES_MAX;
pub use base::layout::Layout;
pub use base::removal::{Removal, RemovalListener, RemovalReason};
pub use base::tier::{Tier, Tiers};
pub use base::time::Moment;
pub use cache::stream::{Chunk, ValueStream};
pub use cache::streams::{HandleReport, StreamReport};
pub use cache::{
    Cas, Change, Copied, EstimatedItems, FetchError, Fetched, Flushed, Larder, Scan, ScanPage,
    Scanned, SetOptions,
};
pub use config::{
    ArrayConfig, Config, CrashSafety, DramPolicy, LocConfig, OnChange, RegionEviction, Reinsertion,
    SocConfig, SocEviction, SocLayout,
};
pub use dram::value::{Value, ValueMeta};
pub use engine::array::memory::ArrayMemory;
pub use engine::flash_region::{FlashRegion, RegionState};
pub use flash::admission::{self, AdmissionPolicy};
pub use flash::plan::{self, PlacementPlan};
pub use fleet::front::{AnyRoute, Blocking, Lead, Route, Routed, Shards, Walk};
pub use fleet::partition::ShardState;
pub use fleet::shards::offline::{ClosedSet, SetOrder};
pub use fleet::shards::status::{MovedShare, SetStatus, ShardDeviceStatus, ShardStatus};
pub use fleet::shards::wear::rule::{
    DriveLevelling, DriveWear, LEVELLING_RATIO_END, LEVELLING_RATIO_MIN, LEVELLING_STEP_PARTS,
    LevellingChoice, LevellingPause,
};
pub use fleet::shards::wear::{LevellingOptions, LevellingStatus, LevellingStep, ShardWear};
pub use fleet::shards::{self, Shard, ShardMap, ShardOptions, Upkeep};
pub use fleet::tenants::{self, Tenant, Tenants, TenantsConfig};
pub use fleet::typed::{Codec, Typed, TypedError};
#[cfg(feature = "serde")]
pub use fleet::typed::{Postcard, PostcardError};
pub use larder_blocks::isolation::DeviceShare;
pub use larder_device::{
    Clock, Device, DirectIo, FileDevice, FileOptions, IoEngine, RealClock, VirtualClock, block_on,
};
pub use observe::endurance::{self, DriveLife, Endurance};
pub use observe::latency::{Histogram, Latency};
pub use observe::load::{self, FlashLoad};
pub use observe::metrics::{Metric, MetricKind};
pub use observe::open_metrics::OpenMetrics;
pub use observe::recovery::Recovery;
pub use observe::stats::{self, Stats};

/// The device layer: all kinds of devices and their options, and the stores of blocks.
pub mod device {
    pub use larder_blocks as blocks;
    pub use larder_blocks::{
        BlockId, BlockState, BlockStore, BlocksOnDevice, DeviceOnBlocks, DeviceOnBlocksOptions,
        MemoryBlocks, StoreInfo, Stream, ZonedBlocks,
    };
    pub use larder_device::*;
}

/// Compiles the example on that page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/vssds.md")]
struct VssdsPage;

#[doc(hidden)]
pub mod fuzzing;
