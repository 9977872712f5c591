//! A cache in front of its cores: modes, range locks, bypass decisions, and the handling of device failures.
//!
//! Like the [layout](crate::layout) below it, a [`Cache`] only decides. It does no I/O and has no clock, so that byte
//! accounting, simulation and rings drive the same code. It turns a client request into one or two requests to the
//! layout. It decides about a request when the request gets its lock, so a mode change under load applies to all
//! requests that have not begun.
//!
//! ```text
//!   submit ──► lock by range ──► way, by mode and policies ──► layout ──► ended
//!                                  │                             ▲
//!                                  └ second step: keep, retry ───┘
//! ```
//!
//! *Always:* nothing that overlaps a write is in flight together with it. Cached clean data equals the data of the
//! core. A request that bypasses the cache invalidates the cached data of its range before it is acknowledged.
//!
//! ```text
//!   Cache ─┬─ admission: options and policies, what a request is allowed      serving: the steps of requests
//!          ├─ ops: requests, locks and I/Os in flight                         background: what it does by itself
//!          ├─ device_health: errors of the cache device                       health: what follows from them
//!          ├─ tally: counts                                                   exchanging: devices and cores change
//!          └─ layout
//! ```
//!
//! Types: `request` and `state` (options, shape) for clients; `op`, `locks`, `coverage`, `ahead`, `load_pace`,
//! `statistics`, `parts` below.

mod admission;
mod ahead;
mod background;
mod coverage;
mod device_health;
mod exchanging;
mod health;
mod load_pace;
mod locks;
mod op;
mod ops;
mod parts;
mod request;
mod serving;
mod state;
mod statistics;
mod tally;

use std::collections::BTreeSet;
use std::time::Duration;

use crate::Error;
use crate::layout::{
    ClassId, CoreId, Data, DeviceIo, Ending, IoId, Layout, Outcome, Piece, RequestId,
    ShutdownState, Span, Usage,
};
pub use crate::mode::Mode;
use crate::policy::classes::IoClasses;
use crate::policy::cleaning::{Cleaning, CleaningOptions};
use crate::policy::pressure::{BypassPolicy, PressureState};
use crate::policy::routing::{RoutingPolicy, RoutingState};
use crate::policy::{CutOffPolicy, PromotionPolicy, ReadAheadPolicy};
use admission::Admission;
use ahead::AheadLimits;
use device_health::DeviceHealth;
use load_pace::LoadProgress;
use op::IoUnderWay;
use ops::{Ops, key_of};
pub use parts::PartCounts;
pub use request::{Keep, Request, RequestCompletion};
pub use state::{CacheOptions, CacheShape, Health};
pub use statistics::{BypassReason, Errors, ReadAheadCounts, RequestCounts, Statistics};
use tally::Tally;

/// See the [module](self).
#[derive(Debug)]
pub struct Cache {
    layout: Box<dyn Layout>,
    admission: Admission,
    ops: Ops,
    health: DeviceHealth,
    cleaning: Cleaning,
    ahead: AheadLimits,
    loading: LoadProgress,
    tally: Tally,
    /// Cores that are missing.
    missing: BTreeSet<CoreId>,
    now: Duration,
    /// When the last client request was submitted.
    asked_at: Duration,
    /// Empty: reusable buffers for look-ups, for ended requests of the layout, and for its I/Os.
    pieces: Vec<Piece>,
    layout_ended: Vec<(RequestId, Ending)>,
    layout_ios: Vec<(IoId, DeviceIo)>,
}

impl Cache {
    /// A cache on `layout`.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`](crate::ErrorKind::Setup), naming the option, if an option is invalid.
    pub fn new(
        mut layout: Box<dyn Layout>,
        shape: CacheShape,
        options: CacheOptions,
    ) -> Result<Self, Error> {
        options.check()?;
        layout.set_shares(options.classes.shares());
        Ok(Self {
            layout,
            cleaning: Cleaning::new(options.cleaning, shape.line_bytes)?,
            admission: Admission::new(options, shape)?,
            ops: Ops::default(),
            health: DeviceHealth::new(Health::Whole),
            ahead: AheadLimits::default(),
            loading: LoadProgress::default(),
            tally: Tally::default(),
            missing: BTreeSet::new(),
            now: Duration::ZERO,
            asked_at: Duration::ZERO,
            pieces: Vec::new(),
            layout_ended: Vec::new(),
            layout_ios: Vec::new(),
        })
    }

    /// Submits a request. The caller need not act before the next [`turn`](Self::turn).
    pub fn submit(&mut self, id: RequestId, request: Request) {
        self.asked_at = self.now;
        if let Some(key) = self.ops.submit(id, request) {
            self.begin(key);
        }
    }

    /// Reports how an I/O of an earlier turn has ended.
    pub fn completed(&mut self, io: IoId, outcome: Outcome) {
        let under_way = self.ops.io_ended(io);
        if matches!(outcome, Outcome::Failed) {
            self.io_failed(&under_way);
        }
        match under_way {
            IoUnderWay::Layout { io, target, start, .. } => {
                let is_done = matches!(outcome, Outcome::Done);
                self.admission.io_ended(start, target, is_done, self.now);
                self.layout.completed(io, outcome);
            }
            IoUnderWay::Own { key, .. } => {
                let is_well = !matches!(outcome, Outcome::Failed);
                if let Outcome::Read(data) = outcome {
                    self.ops[key].data = Some(data);
                }
                self.step_ended(key, is_well);
            }
        }
    }

    /// Appends the requests that have ended since the last call, each with the sectors whose data is to be cached. For
    /// these the caller answers with [`keep`](Self::keep).
    pub fn ended(&mut self, ended: &mut Vec<RequestCompletion>) {
        self.hear_of_layout();
        self.ops.take_ended(ended);
    }

    /// Appends the I/Os to carry out. Requests may end in a turn.
    pub fn turn(&mut self, ios: &mut Vec<(IoId, DeviceIo)>) {
        self.hear_of_layout();
        self.begin_loaded();
        let mut of_layout = std::mem::take(&mut self.layout_ios);
        loop {
            self.layout.turn(&mut of_layout);
            for (io, mut what) in of_layout.drain(..) {
                if let DeviceIo::Read { reader: Some((request, _)), .. } = &mut what {
                    *request = self.ops.user_of(*request);
                }
                self.tally.io(&what);
                let start = self.admission.io_begins(&what, self.now);
                let (target, reads) = (what.target(), what.reads());
                let under_way = IoUnderWay::Layout { io, target, reads, start };
                ios.push((self.ops.io_begins(under_way), what));
            }
            // An op whose step ended in this turn may need another step.
            if !self.hear_of_layout() && !self.settle_parked() {
                break;
            }
        }
        self.tally.writes_around(self.layout.writes_around());
        self.layout_ios = of_layout;
        self.ops.take_issued(ios);
    }

    /// Continues with the requests that the layout has ended. Returns whether there were any.
    fn hear_of_layout(&mut self) -> bool {
        let mut of_layout = std::mem::take(&mut self.layout_ended);
        self.layout.ended(&mut of_layout);
        let has_ended = !of_layout.is_empty();
        for (id, ending) in of_layout.drain(..) {
            self.step_ended(key_of(id), ending == Ending::Done);
        }
        self.layout_ended = of_layout;
        has_ended
    }

    /// Gives the data of a read that is to be cached; `None` if the data is not available after all.
    pub fn keep(&mut self, keep: Keep, data: Option<Data>) {
        let op = &mut self.ops[keep.key];
        op.data = data;
        op.is_given = true;
        if op.is_locked {
            self.insert_kept(keep.key);
        }
    }

    /// The state of the sectors of a span, ascending, without gaps.
    pub fn lookup(&mut self, span: Span, pieces: &mut Vec<Piece>) {
        self.layout.lookup(span, pieces);
    }

    /// The first run of dirty sectors of a core at or after `sector`, among the loaded parts.
    pub fn dirty_after(&self, core: CoreId, sector: u64) -> Option<Span> {
        self.layout.dirty_after(core, sector)
    }

    /// What is cached; for the parts that are not loaded, an upper bound.
    pub fn usage(&self) -> Usage {
        self.layout.usage()
    }

    /// The dirty sectors of a core, among the loaded parts.
    pub fn dirty_sectors(&self, core: CoreId) -> u64 {
        self.layout.dirty_sectors(core)
    }

    /// Whether the cores durably have all that is cached.
    pub fn is_on_cores(&self) -> bool {
        self.layout.is_on_cores()
    }

    /// If the cores have all data: the value for the label that says so ([`Layout::tell_clean`]).
    pub fn tell_clean(&mut self) -> Option<u64> {
        self.layout.tell_clean()
    }

    /// The value for the label about data that is clean while the cores have power ([`Layout::tell_settled`]).
    pub fn tell_settled(&self) -> Option<u64> {
        self.layout.tell_settled()
    }

    /// The state in which the layout is left, once [`Request::PrepareStop`] has succeeded ([`Layout::left`]).
    pub fn left(&self) -> Option<ShutdownState> {
        self.layout.left()
    }

    /// The dirty sectors of a core that a start will then find.
    pub fn dirty_when_left(&self, core: CoreId) -> u64 {
        self.layout.dirty_when_left(core)
    }

    /// The statistics up to now.
    pub fn statistics(&self) -> &Statistics {
        self.tally.statistics()
    }

    /// Counts of the requests to a core.
    pub fn core_counts(&self, core: CoreId) -> PartCounts {
        self.tally.core(core)
    }

    /// Counts of the requests of an IO class.
    pub fn class_counts(&self, class: ClassId) -> PartCounts {
        self.tally.class(class)
    }

    /// The valid cached sectors of an IO class. The sum over all classes equals [`usage`](Self::usage). Data that was
    /// cached before a start belongs to class 0 until it is hit.
    pub fn class_sectors(&self, class: ClassId) -> u64 {
        self.layout.occupied_sectors(class)
    }

    /// Resets the statistics.
    pub fn reset_statistics(&mut self) {
        self.tally.reset();
    }

    /// The state of the cache device.
    pub fn health(&self) -> Health {
        self.health.get()
    }

    /// The options of the cache.
    pub fn options(&self) -> &CacheOptions {
        self.admission.options()
    }

    /// The shape of its devices.
    pub fn shape(&self) -> CacheShape {
        self.admission.shape()
    }

    /// Changes the mode for requests that have not begun. Dirty data stays until it is destaged ([`Request::Clean`]).
    pub fn set_mode(&mut self, mode: Mode) {
        self.admission.set_mode(mode);
    }

    /// Changes which sequential requests bypass the cache.
    pub fn set_cut_off(&mut self, policy: CutOffPolicy, threshold_bytes: u64) {
        self.admission.set_cut_off(policy, threshold_bytes);
    }

    /// Changes which read streams are read ahead, from the next read on.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`](crate::ErrorKind::Setup) if the policy is invalid.
    pub fn set_read_ahead(&mut self, policy: ReadAheadPolicy) -> Result<(), Error> {
        self.admission.set_read_ahead(policy)
    }

    /// Changes which misses are cached.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`](crate::ErrorKind::Setup) if the policy is invalid.
    pub fn set_promotion(&mut self, policy: PromotionPolicy) -> Result<(), Error> {
        self.admission.set_promotion(policy)
    }

    /// Changes when dirty data goes to the core in the background.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`](crate::ErrorKind::Setup) if the options are invalid.
    pub fn set_cleaning(&mut self, cleaning: CleaningOptions) -> Result<(), Error> {
        self.cleaning.set(cleaning)?;
        self.admission.note_cleaning(cleaning);
        Ok(())
    }

    /// Changes the IO classes for requests that have not begun. Cached data keeps its class until a request of another
    /// class hits it. If a class now has more than its share, its data is evicted before that of other classes.
    pub fn set_classes(&mut self, classes: IoClasses) {
        self.layout.set_shares(classes.shares());
        self.cleaning.shares_change();
        self.admission.set_classes(classes);
    }

    /// Changes which clean hits the core serves, and resets the measurements.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`](crate::ErrorKind::Setup) if the policy is invalid.
    pub fn set_routing(&mut self, policy: RoutingPolicy) -> Result<(), Error> {
        self.admission.set_routing(policy)
    }

    /// The state of routing, and the share of clean hits that go to the core, in thousandths. `None` if it is off.
    pub fn routing(&self) -> Option<(RoutingState, u16)> {
        self.admission.routing()
    }

    /// Whether it must be told the time ([`at`](Self::at)) before each turn and each completion of an I/O.
    pub fn wants_time(&self) -> bool {
        self.admission.wants_time()
    }

    /// Changes which writes bypass the cache when the cache is full of dirty data, and resets the measurements.
    pub fn set_bypass(&mut self, policy: BypassPolicy) {
        self.admission.set_bypass(policy);
    }

    /// How short of room writes of dirty data are.
    pub fn pressure(&self) -> PressureState {
        self.admission.pressure()
    }

    /// Sets the export name of a core, for rules of IO classes.
    pub fn set_export(&mut self, core: CoreId, name: impl Into<String>) {
        self.admission.set_export(core, name.into());
    }

    /// Tells the cleaning policy which data of these cores a start has found dirty. It learns of parts that are not
    /// loaded when they are.
    pub fn look_for_dirty(&mut self, cores: impl IntoIterator<Item = CoreId>) {
        drop(self.layout.take_loaded_dirty());
        for core in cores {
            for dirty in health::dirty_runs(&*self.layout, core) {
                self.cleaning.found_dirty(dirty);
            }
        }
    }

    /// Bytes of memory that grow with the cached data.
    pub fn memory_bytes(&self) -> usize {
        self.layout.memory_bytes() + self.admission.memory_bytes() + self.cleaning.memory_bytes()
    }

    /// The number of requests that have not ended.
    pub fn under_way(&self) -> usize {
        self.ops.under_way()
    }

    /// Sets the time. A time before the current one is ignored, so a clock that was set back does no harm.
    pub fn at(&mut self, now: Duration) {
        self.now = self.now.max(now);
        if self.admission.at(now, &*self.layout) {
            self.tally.saturated();
        }
    }

    /// The time that was set last.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// The number of parts that are not loaded yet.
    pub fn unloaded_parts(&self) -> usize {
        self.layout.unloaded_parts()
    }

    /// Sets the length of a core in bytes, in whole blocks of the core and of the cache device. Cores of unknown
    /// length are not read ahead.
    pub fn set_core_bytes(&mut self, core: CoreId, bytes: u64) {
        self.ahead.set_core_bytes(core, bytes);
    }
}
