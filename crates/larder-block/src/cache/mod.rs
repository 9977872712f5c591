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

mod ahead;
mod cleaning;
mod coverage;
mod exchanging;
mod full_classes;
mod health;
mod leaving;
mod load_pace;
mod loading;
mod locks;
mod missing;
mod op;
mod parts;
mod reading;
mod request;
mod state;
mod statistics;
mod work;
mod writing;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use slab::Slab;

use crate::layout::{
    ClassId, CoreId, Data, DeviceIo, Ending, IoId, Layout, Left, Outcome, Piece, RequestId, Span,
    Target, Usage,
};
pub use crate::mode::Mode;
use crate::policy::classes::IoClasses;
use crate::policy::cleaning::{Cleaning, CleaningOptions};
use crate::policy::pressure::{BypassPolicy, Pressure, PressureState};
use crate::policy::routing::{Router, RoutingPolicy, RoutingState};
use crate::policy::{CutOffPolicy, Promotion, PromotionPolicy, ReadAheadPolicy, SequentialCutOff};
use crate::{Error, ErrorKind};
use load_pace::Loading;
use locks::Locks;
use op::{IoUnderWay, Op};
pub use parts::PartCounts;
use parts::Parts;
pub use request::{Ended, Keep, Request};
use state::Mark;
pub use state::{Cache, CacheOptions, CacheShape, Health};
pub use statistics::{BypassReason, Errors, ReadAheadCounts, RequestCounts, Statistics};

impl Cache {
    /// A cache on `layout`.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`], naming the option, if an option is invalid.
    pub fn new(
        mut layout: Box<dyn Layout>,
        shape: CacheShape,
        options: CacheOptions,
    ) -> Result<Self, Error> {
        options.check()?;
        layout.set_shares(options.classes.shares());
        let lines = shape.capacity_bytes / u64::from(shape.line_bytes);
        Ok(Self {
            layout,
            shape,
            cut_off: SequentialCutOff::new(options.cut_off, options.cut_off_bytes),
            promotion: Promotion::new(options.promotion, lines, shape.line_bytes)?,
            cleaning: Cleaning::new(options.cleaning, shape.line_bytes)?,
            exports: BTreeMap::new(),
            core_sectors: BTreeMap::new(),
            ahead_bytes: 0,
            router: Router::new(options.routing),
            pressure: Pressure::new(options.bypass),
            saturated_sectors: 0,
            writes_around: 0,
            options,
            locks: Locks::default(),
            ops: Slab::new(),
            ios: Slab::new(),
            issued: Vec::new(),
            ended: Vec::new(),
            health: Health::Whole,
            mark: Mark::default(),
            parked: Vec::new(),
            cache_errors: 0,
            statistics: Statistics::default(),
            parts: Parts::default(),
            held: None,
            leaving: None,
            missing: BTreeSet::new(),
            has_no_dirty: false,
            now: Duration::ZERO,
            asked_at: Duration::ZERO,
            retry_at: None,
            loading: Loading::default(),
            pieces: Vec::new(),
            layout_ended: Vec::new(),
            layout_ios: Vec::new(),
        })
    }

    /// Submits a request. The caller need not act before the next [`turn`](Self::turn).
    pub fn submit(&mut self, id: RequestId, request: Request) {
        self.asked_at = self.now;
        let Some(request) = self.held_back(id, request) else { return };
        let op = Op::new(id, request);
        let lock = op.lock();
        let key = self.ops.insert(op);
        let may_begin = match lock {
            Some((span, is_exclusive)) => self.locks.acquire(key, span, is_exclusive),
            None => true,
        };
        if may_begin {
            self.begin(key);
        }
    }

    /// Reports how an I/O of an earlier turn has ended.
    pub fn completed(&mut self, io: IoId, outcome: Outcome) {
        let under_way = self.ios.remove(io.0);
        if matches!(outcome, Outcome::Failed) {
            self.io_failed(&under_way);
        }
        match under_way {
            IoUnderWay::Layout { io, target, began, of_core, .. } => {
                if let Some(of_core) = of_core {
                    self.pressure.ended(&of_core, self.now);
                }
                match (began, &outcome) {
                    (Some(began), _) if target != Target::Cache => self.router.core_io_ended(began),
                    (Some(began), Outcome::Done) => self.router.read_ended(began),
                    _ => {}
                }
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
    pub fn ended(&mut self, ended: &mut Vec<Ended>) {
        self.hear_of_layout();
        ended.append(&mut self.ended);
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
                    *request = self.user_of(*request);
                }
                self.statistics.io(&what);
                let (target, reads) = (what.target(), what.reads());
                let is_timed = target != Target::Cache || is_of_user(&what);
                let began = self.router.read_begins().filter(|_| is_timed);
                let of_core = self.pressure.begins(&what, self.now);
                let under_way = IoUnderWay::Layout { io, target, reads, began, of_core };
                ios.push((IoId(self.ios.insert(under_way)), what));
            }
            // An op whose step ended in this turn may need another step.
            if !self.hear_of_layout() && !self.settle_parked() {
                break;
            }
        }
        self.count_writes_around();
        self.layout_ios = of_layout;
        ios.append(&mut self.issued);
    }

    /// Continues with the requests that the layout has ended. Returns whether there were any.
    fn hear_of_layout(&mut self) -> bool {
        let mut of_layout = std::mem::take(&mut self.layout_ended);
        self.layout.ended(&mut of_layout);
        let has_ended = !of_layout.is_empty();
        for (RequestId(key), ending) in of_layout.drain(..) {
            let key = usize::try_from(key).expect("a key of this cache");
            self.step_ended(key, ending == Ending::Done);
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
    pub fn left(&self) -> Option<Left> {
        self.layout.left()
    }

    /// The dirty sectors of a core that a start will then find.
    pub fn dirty_when_left(&self, core: CoreId) -> u64 {
        self.layout.dirty_when_left(core)
    }

    /// The statistics up to now.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Counts of the requests to a core.
    pub fn core_counts(&self, core: CoreId) -> PartCounts {
        self.parts.core(core)
    }

    /// Counts of the requests of an IO class.
    pub fn class_counts(&self, class: ClassId) -> PartCounts {
        self.parts.class(class)
    }

    /// The valid cached sectors of an IO class. The sum over all classes equals [`usage`](Self::usage). Data that was
    /// cached before a start belongs to class 0 until it is hit.
    pub fn class_sectors(&self, class: ClassId) -> u64 {
        self.layout.occupied_sectors(class)
    }

    /// Resets the statistics.
    pub fn reset_statistics(&mut self) {
        self.statistics = Statistics::default();
        self.parts = Parts::default();
    }

    /// The state of the cache device.
    pub fn health(&self) -> Health {
        self.health
    }

    /// The options of the cache.
    pub fn options(&self) -> &CacheOptions {
        &self.options
    }

    /// The shape of its devices.
    pub fn shape(&self) -> CacheShape {
        self.shape
    }

    /// Changes the mode for requests that have not begun. Dirty data stays until it is destaged ([`Request::Clean`]).
    pub fn set_mode(&mut self, mode: Mode) {
        self.options.mode = mode;
    }

    /// Changes which sequential requests bypass the cache.
    pub fn set_cut_off(&mut self, policy: CutOffPolicy, threshold_bytes: u64) {
        (self.options.cut_off, self.options.cut_off_bytes) = (policy, threshold_bytes);
        self.cut_off.set(policy, threshold_bytes);
    }

    /// Changes which read streams are read ahead, from the next read on.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if the policy is invalid.
    pub fn set_read_ahead(&mut self, policy: ReadAheadPolicy) -> Result<(), Error> {
        policy.check()?;
        self.options.read_ahead = policy;
        Ok(())
    }

    /// Changes which misses are cached.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if the policy is invalid.
    pub fn set_promotion(&mut self, policy: PromotionPolicy) -> Result<(), Error> {
        self.promotion.set(policy)?;
        self.options.promotion = policy;
        Ok(())
    }

    /// Changes when dirty data goes to the core in the background.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if the options are invalid.
    pub fn set_cleaning(&mut self, cleaning: CleaningOptions) -> Result<(), Error> {
        self.cleaning.set(cleaning)?;
        self.options.cleaning = cleaning;
        Ok(())
    }

    /// Changes the IO classes for requests that have not begun. Cached data keeps its class until a request of another
    /// class hits it. If a class now has more than its share, its data is evicted before that of other classes.
    pub fn set_classes(&mut self, classes: IoClasses) {
        self.layout.set_shares(classes.shares());
        self.cleaning.shares_change();
        self.options.classes = classes;
    }

    /// Changes which clean hits the core serves, and resets the measurements.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if the policy is invalid.
    pub fn set_routing(&mut self, policy: RoutingPolicy) -> Result<(), Error> {
        policy.check()?;
        self.options.routing = policy;
        self.router = Router::new(policy);
        Ok(())
    }

    /// The state of routing, and the share of clean hits that go to the core, in thousandths. `None` if it is off.
    pub fn routing(&self) -> Option<(RoutingState, u16)> {
        self.router.state()
    }

    /// Whether it must be told the time ([`at`](Self::at)) before each turn and each completion of an I/O.
    pub fn wants_time(&self) -> bool {
        self.router.measures() || self.pressure.measures()
    }

    /// Changes which writes bypass the cache when the cache is full of dirty data, and resets the measurements.
    pub fn set_bypass(&mut self, policy: BypassPolicy) {
        self.options.bypass = policy;
        self.pressure = Pressure::new(policy);
    }

    /// How short of room writes of dirty data are.
    pub fn pressure(&self) -> PressureState {
        self.pressure.state()
    }

    /// Sets the export name of a core, for rules of IO classes.
    pub fn set_export(&mut self, core: CoreId, name: impl Into<String>) {
        self.exports.insert(core, name.into());
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
        self.layout.memory_bytes() + self.promotion.memory_bytes() + self.cleaning.memory_bytes()
    }

    /// The number of requests that have not ended.
    pub fn under_way(&self) -> usize {
        self.ops.len() + self.held.as_ref().map_or(0, Vec::len)
    }

    fn user_of(&self, RequestId(key): RequestId) -> RequestId {
        self.ops[usize::try_from(key).expect("a key of this cache")].user
    }

    /// The used share of the capacity, in percent.
    fn occupancy_percent(&self) -> u8 {
        self.percent_of(self.layout.usage().valid_sectors)
    }

    /// The dirty share of the capacity, in percent.
    fn dirty_percent(&self) -> u8 {
        self.percent_of(self.layout.usage().dirty_sectors)
    }

    fn percent_of(&self, sectors: u64) -> u8 {
        let bytes = sectors * crate::layout::SECTOR_BYTES as u64;
        u8::try_from((bytes * 100 / self.shape.capacity_bytes.max(1)).min(100))
            .expect("100 at most")
    }
}

impl CacheOptions {
    /// Checks the options.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`], naming the option, if one is invalid.
    pub fn check(&self) -> Result<(), Error> {
        if self.cache_errors_max == 0 {
            let message = "cache_errors_max of 0: give how many errors of the cache device are one too many, 1 or more";
            return Err(Error::new(ErrorKind::Setup, message));
        }
        self.cleaning.check()?;
        self.routing.check()?;
        self.read_ahead.check()?;
        Promotion::new(self.promotion, 1, 4096).map(drop)
    }
}

/// Whether the I/O reads data for a client.
fn is_of_user(io: &DeviceIo) -> bool {
    matches!(io, DeviceIo::Read { reader: Some(_), .. })
}
