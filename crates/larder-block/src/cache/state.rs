//! The state and the options of a cache.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use slab::Slab;

use super::load_pace::Loading;
use super::locks::Locks;
use super::op::{IoUnderWay, Op};
use super::parts::Parts;
use super::request::{Ended, Request};
use super::statistics::Statistics;
use crate::layout::{CoreId, DeviceIo, Ending, IoId, Layout, Piece, RequestId};
use crate::mode::Mode;
use crate::policy::classes::IoClasses;
use crate::policy::cleaning::{Cleaning, CleaningOptions};
use crate::policy::pressure::{BypassPolicy, Pressure};
use crate::policy::routing::{Router, RoutingPolicy};
use crate::policy::{CutOffPolicy, Promotion, PromotionPolicy, ReadAheadPolicy, SequentialCutOff};

/// How long after a failed I/O the layout retries it.
pub(super) const RETRY: Duration = Duration::from_secs(1);

/// Options of a cache. Use `..Default::default()` for the rest. All of them may be changed while it runs.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// The mode. Default write-through.
    pub mode: Mode,
    /// Which sequential requests bypass the cache. Default [`CutOffPolicy::Full`]: only while the cache is full.
    pub cut_off: CutOffPolicy,
    /// Length in bytes from which a run of requests counts as sequential. Default 1 MiB.
    pub cut_off_bytes: u64,
    /// Which read streams are read ahead. Default none.
    pub read_ahead: ReadAheadPolicy,
    /// Which misses are cached. Default always.
    pub promotion: PromotionPolicy,
    /// When dirty data goes to the core in the background. Default ALRU.
    pub cleaning: CleaningOptions,
    /// Rules for requests that are cached differently. Default none.
    pub classes: IoClasses,
    /// Which clean hits the core serves. Default [`RoutingPolicy::Off`]: none.
    pub routing: RoutingPolicy,
    /// Which writes bypass the cache when the cache is full of dirty data. Default [`BypassPolicy::Cost`].
    pub bypass: BypassPolicy,
    /// Number of errors of the cache device after which it is no longer written to. 1 or more; default 8.
    pub cache_errors_max: u32,
    /// Time in which the rest of the metadata is loaded after a start, if there is too much of it to wait for. 0: as
    /// fast as possible. Requests are served during the loading. Default a minute.
    pub load_time: Duration,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            cut_off: CutOffPolicy::Full,
            cut_off_bytes: 1 << 20,
            read_ahead: ReadAheadPolicy::default(),
            promotion: PromotionPolicy::Always,
            cleaning: CleaningOptions::default(),
            classes: IoClasses::default(),
            routing: RoutingPolicy::default(),
            bypass: BypassPolicy::default(),
            cache_errors_max: 8,
            load_time: Duration::from_secs(60),
        }
    }
}

/// Properties of the devices of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheShape {
    /// Bytes for client data on the cache device.
    pub capacity_bytes: u64,
    /// Bytes of a cache line, 4 to 64 KiB.
    pub line_bytes: u32,
}

/// See the [module](super).
#[derive(Debug)]
pub struct Cache {
    pub(super) layout: Box<dyn Layout>,
    pub(super) shape: CacheShape,
    pub(super) options: CacheOptions,
    pub(super) cut_off: SequentialCutOff,
    pub(super) promotion: Promotion,
    pub(super) cleaning: Cleaning,
    pub(super) router: Router,
    pub(super) pressure: Pressure,
    /// Valid sectors when the cache device was last found saturated.
    pub(super) saturated_sectors: u64,
    /// Writes that the layout has sent around the cache and that are already counted.
    pub(super) writes_around: u64,
    /// The export name of each core.
    pub(super) exports: BTreeMap<CoreId, String>,
    /// The length of each core, if it was set.
    pub(super) core_sectors: BTreeMap<CoreId, u64>,
    /// Bytes that are being read ahead.
    pub(super) ahead_bytes: u64,
    pub(super) locks: Locks,
    pub(super) ops: Slab<Op>,
    pub(super) ios: Slab<IoUnderWay>,
    /// I/Os of the cache itself, for the next turn.
    pub(super) issued: Vec<(IoId, DeviceIo)>,
    pub(super) ended: Vec<Ended>,
    pub(super) health: Health,
    pub(super) mark: Mark,
    /// Writes that wait for the mark.
    pub(super) parked: Vec<usize>,
    /// I/Os that the cache device has refused.
    pub(super) cache_errors: u64,
    pub(super) statistics: Statistics,
    pub(super) parts: Parts,
    pub(super) now: Duration,
    /// The requests that are held back; `None` if requests are not held back.
    pub(super) held: Option<Vec<(RequestId, Request)>>,
    /// The core that is to be removed.
    pub(super) leaving: Option<CoreId>,
    /// Cores that are missing.
    pub(super) missing: BTreeSet<CoreId>,
    /// Writes that would be dirty also go to the core.
    pub(super) has_no_dirty: bool,
    /// When the last client request was submitted.
    pub(super) asked_at: Duration,
    /// When refused I/Os are retried.
    pub(super) retry_at: Option<Duration>,
    pub(super) loading: Loading,
    pub(super) pieces: Vec<Piece>,
    pub(super) layout_ended: Vec<(RequestId, Ending)>,
    pub(super) layout_ios: Vec<(IoId, DeviceIo)>,
}

/// Progress of the mark in the label that says that the content of the device is void.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mark {
    #[default]
    Unneeded,
    Wanted,
    Asked,
    Done,
}

/// The state of the cache device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Health {
    /// It is in use.
    Whole,
    /// It has failed too often. It is no longer written to, and clean data is no longer read from it.
    Failed,
    /// There is no cache device: all requests go to the cores.
    Detached,
}
