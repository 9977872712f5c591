//! A cache: what it knows, and how it is set.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use slab::Slab;

use super::loading::Loading;
use super::locks::Locks;
use super::mode::Mode;
use super::op::{IoUnderWay, Op};
use super::parts::Parts;
use super::request::{Ended, Request};
use super::statistics::Statistics;
use crate::layout::{CoreId, DeviceIo, Ending, IoId, Layout, Piece, RequestId};
use crate::policy::classes::IoClasses;
use crate::policy::cleaning::{Cleaning, CleaningOptions};
use crate::policy::pressure::{BypassPolicy, Pressure};
use crate::policy::routing::{Router, RoutingPolicy};
use crate::policy::{CutOffPolicy, Promotion, PromotionPolicy, ReadAheadPolicy, SequentialCutOff};

/// How long after a device has refused something it is asked once more.
pub(super) const RETRY: Duration = Duration::from_secs(1);

/// What a user may say of a cache. `..Default::default()` for the rest. All of it may be changed while it runs.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// Default write-through.
    pub mode: Mode,
    /// Which sequential requests pass the cache by. Default [`CutOffPolicy::Full`]: when there is no room left.
    pub cut_off: CutOffPolicy,
    /// Bytes of a run of requests from which on they are sequential. Default 1 MiB.
    pub cut_off_bytes: u64,
    /// Which streams of reads are read ahead. Default none.
    pub read_ahead: ReadAheadPolicy,
    /// What is kept of what was missed. Default always.
    pub promotion: PromotionPolicy,
    /// When dirty data go to the core without being asked. Default ALRU.
    pub cleaning: CleaningOptions,
    /// Requests that are cached in a way of their own. Default none.
    pub classes: IoClasses,
    /// Which clean hits the core serves. Default none.
    pub routing: RoutingPolicy,
    /// Which writes pass by where the cache is full of dirty data. Default [`BypassPolicy::Cost`].
    pub bypass: BypassPolicy,
    /// Errors of the cache device after which it is not written to any more. 1 or more; default 8.
    pub cache_errors_max: u32,
    /// In which time the rest of what a start has found is loaded, where that is too much to wait for; 0: as fast as
    /// that can be. Requests are served meanwhile. Default a minute.
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

/// What a cache has to know of its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheShape {
    /// Bytes that user data have on the cache device.
    pub capacity_bytes: u64,
    /// Bytes of a line, 4 to 64 KiB.
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
    /// What was cached when the cache device was found saturated last.
    pub(super) saturated_sectors: u64,
    /// Writes that the layout has taken around and that are counted.
    pub(super) writes_around: u64,
    /// By what name each core is exported.
    pub(super) exports: BTreeMap<CoreId, String>,
    /// How long each core is, where that was said.
    pub(super) core_sectors: BTreeMap<CoreId, u64>,
    /// What is being read ahead.
    pub(super) ahead_bytes: u64,
    pub(super) locks: Locks,
    pub(super) ops: Slab<Op>,
    pub(super) ios: Slab<IoUnderWay>,
    /// Issued by the cache itself, for the next turn.
    pub(super) issued: Vec<(IoId, DeviceIo)>,
    pub(super) ended: Vec<Ended>,
    pub(super) health: Health,
    pub(super) mark: Mark,
    /// Requests that wait for it.
    pub(super) parked: Vec<usize>,
    /// I/Os that the cache device has refused.
    pub(super) cache_errors: u64,
    pub(super) statistics: Statistics,
    pub(super) parts: Parts,
    pub(super) now: Duration,
    /// Requests that are held back, if they are.
    pub(super) held: Option<Vec<(RequestId, Request)>>,
    /// The core that is to be taken away.
    pub(super) leaving: Option<CoreId>,
    /// Cores that are not there.
    pub(super) missing: BTreeSet<CoreId>,
    /// Writes that would be dirty go to the core too.
    pub(super) has_no_dirty: bool,
    /// When a user asked last.
    pub(super) asked_at: Duration,
    /// When what a device has refused is tried once more.
    pub(super) retry_at: Option<Duration>,
    pub(super) loading: Loading,
    pub(super) pieces: Vec<Piece>,
    pub(super) layout_ended: Vec<(RequestId, Ending)>,
    pub(super) layout_ios: Vec<(IoId, DeviceIo)>,
}

/// How far the label says that nothing on the device must be believed.
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
    /// It is used.
    Whole,
    /// It has failed too often and is not written to any more. What is clean there is not read.
    Failed,
    /// There is none: everything goes to the cores.
    Detached,
}
