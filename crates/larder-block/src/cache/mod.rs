//! A cache before its cores: modes, locks by range, what passes by and why, what happens when devices fail.
//!
//! Like the [layout](crate::layout) on which it stands, a [`Cache`] decides and does no I/O, and has no clock: byte
//! accounting, simulation and rings drive the same code. What it is asked for by users, it asks of the layout in one
//! step or two; what a request becomes is decided when it holds its lock, so a mode that changes under load applies to
//! whatever has not begun.
//!
//! ```text
//!   submit ──► lock by range ──► way, by mode and policies ──► layout ──► ended
//!                                  │                             ▲
//!                                  └ second step: keep, retry ───┘
//! ```
//!
//! *Always:* nothing that overlaps a write is under way beside it; what is kept is what the core has; what passes the
//! cache by makes void what was cached of it, before it is acknowledged.

mod ahead;
mod cleaning;
mod coverage;
mod exchanging;
mod full_classes;
mod health;
mod leaving;
mod loading;
mod locks;
mod missing;
mod mode;
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
use crate::policy::classes::IoClasses;
use crate::policy::cleaning::{Cleaning, CleaningOptions};
use crate::policy::pressure::{BypassPolicy, Pressure, PressureState};
use crate::policy::routing::{Router, RoutingPolicy, RoutingState};
use crate::policy::{CutOffPolicy, Promotion, PromotionPolicy, ReadAheadPolicy, SequentialCutOff};
use crate::{Error, ErrorKind};
use loading::Loading;
use locks::Locks;
pub use mode::Mode;
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
    /// [`ErrorKind::Setup`], naming the option, if one cannot be.
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

    /// Takes a request. Nothing is to be done before the next [`turn`](Self::turn).
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

    /// Says how an I/O of an earlier turn has ended.
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

    /// Appends the requests that have ended since it was asked last, each with what shall be kept of it: whoever gets
    /// that answers with [`keep`](Self::keep).
    pub fn ended(&mut self, ended: &mut Vec<Ended>) {
        self.hear_of_layout();
        ended.append(&mut self.ended);
    }

    /// Appends what is to be carried out. Requests may end in a turn.
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
            // What ends in a turn may go on to another step.
            if !self.hear_of_layout() && !self.settle_parked() {
                break;
            }
        }
        self.count_writes_around();
        self.layout_ios = of_layout;
        ios.append(&mut self.issued);
    }

    /// Goes on with what the layout has ended. Whether it has ended anything.
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

    /// Gives the data of what shall be kept of a read; `None`: they cannot be had after all.
    pub fn keep(&mut self, keep: Keep, data: Option<Data>) {
        let op = &mut self.ops[keep.key];
        op.data = data;
        op.is_given = true;
        if op.is_locked {
            self.insert_kept(keep.key);
        }
    }

    /// What is known of some sectors, in their order, without holes.
    pub fn lookup(&mut self, span: Span, pieces: &mut Vec<Piece>) {
        self.layout.lookup(span, pieces);
    }

    /// The first run of dirty sectors of a core at `sector` or behind it, of what is loaded.
    pub fn dirty_after(&self, core: CoreId, sector: u64) -> Option<Span> {
        self.layout.dirty_after(core, sector)
    }

    /// What is cached; of what is not loaded, what may be at most.
    pub fn usage(&self) -> Usage {
        self.layout.usage()
    }

    /// How much of a core only the cache device has, in sectors, of what is loaded.
    pub fn dirty_sectors(&self, core: CoreId) -> u64 {
        self.layout.dirty_sectors(core)
    }

    /// Whether the cores have durably all that is cached.
    pub fn is_on_cores(&self) -> bool {
        self.layout.is_on_cores()
    }

    /// If they have: what a label may say of that ([`Layout::tell_clean`]).
    pub fn tell_clean(&mut self) -> Option<u64> {
        self.layout.tell_clean()
    }

    /// What a label may say of what is clean as long as cores have power ([`Layout::tell_settled`]).
    pub fn tell_settled(&self) -> Option<u64> {
        self.layout.tell_settled()
    }

    /// How the layout is left, once [`Request::PrepareStop`] has ended well ([`Layout::left`]).
    pub fn left(&self) -> Option<Left> {
        self.layout.left()
    }

    /// How much of a core a start finds dirty then, in sectors.
    pub fn dirty_when_left(&self, core: CoreId) -> u64 {
        self.layout.dirty_when_left(core)
    }

    /// What has happened so far.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// What has become of the requests of a core.
    pub fn core_counts(&self, core: CoreId) -> PartCounts {
        self.parts.core(core)
    }

    /// What has become of the requests of an IO class.
    pub fn class_counts(&self, class: ClassId) -> PartCounts {
        self.parts.class(class)
    }

    /// The sectors of an IO class that are cached and valid: over all classes as many as
    /// [`usage`](Self::usage) has. What was cached before a start is of class 0 until it is hit.
    pub fn class_sectors(&self, class: ClassId) -> u64 {
        self.layout.occupied_sectors(class)
    }

    /// Forgets what has happened so far.
    pub fn reset_statistics(&mut self) {
        self.statistics = Statistics::default();
        self.parts = Parts::default();
    }

    /// In which state the cache device is.
    pub fn health(&self) -> Health {
        self.health
    }

    /// How the cache is set.
    pub fn options(&self) -> &CacheOptions {
        &self.options
    }

    /// What it knows of its devices.
    pub fn shape(&self) -> CacheShape {
        self.shape
    }

    /// Changes the mode, for requests that have not begun. Dirty data stay until they are destaged
    /// ([`Request::Clean`]).
    pub fn set_mode(&mut self, mode: Mode) {
        self.options.mode = mode;
    }

    /// Changes which sequential requests pass the cache by.
    pub fn set_cut_off(&mut self, policy: CutOffPolicy, threshold_bytes: u64) {
        (self.options.cut_off, self.options.cut_off_bytes) = (policy, threshold_bytes);
        self.cut_off.set(policy, threshold_bytes);
    }

    /// Changes which streams of reads are read ahead, from the next read on.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if that cannot be.
    pub fn set_read_ahead(&mut self, policy: ReadAheadPolicy) -> Result<(), Error> {
        policy.check()?;
        self.options.read_ahead = policy;
        Ok(())
    }

    /// Changes what is kept of what was missed.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if the policy cannot be.
    pub fn set_promotion(&mut self, policy: PromotionPolicy) -> Result<(), Error> {
        self.promotion.set(policy)?;
        self.options.promotion = policy;
        Ok(())
    }

    /// Changes when dirty data go to the core without being asked.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if that cannot be.
    pub fn set_cleaning(&mut self, cleaning: CleaningOptions) -> Result<(), Error> {
        self.cleaning.set(cleaning)?;
        self.options.cleaning = cleaning;
        Ok(())
    }

    /// Changes which requests are cached in a way of their own: those that have not begun. What is cached stays of the
    /// class that it was of until a request of another hits it; if that has more than it may have now, it gives way
    /// before others.
    pub fn set_classes(&mut self, classes: IoClasses) {
        self.layout.set_shares(classes.shares());
        self.cleaning.shares_change();
        self.options.classes = classes;
    }

    /// Changes which clean hits the core serves. What was measured before is forgotten.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if that cannot be.
    pub fn set_routing(&mut self, policy: RoutingPolicy) -> Result<(), Error> {
        policy.check()?;
        self.options.routing = policy;
        self.router = Router::new(policy);
        Ok(())
    }

    /// What routing does, and the share of clean hits that go to the core, in thousandths. `None` if it is off.
    pub fn routing(&self) -> Option<(RoutingState, u16)> {
        self.router.state()
    }

    /// Whether it has to be told the time ([`at`](Self::at)) before each turn and each end of an I/O.
    pub fn wants_time(&self) -> bool {
        self.router.measures() || self.pressure.measures()
    }

    /// Changes which writes pass by where the cache is full of dirty data. What was measured before is forgotten.
    pub fn set_bypass(&mut self, policy: BypassPolicy) {
        self.options.bypass = policy;
        self.pressure = Pressure::new(policy);
    }

    /// How short of room writes are that would be dirty.
    pub fn pressure(&self) -> PressureState {
        self.pressure.state()
    }

    /// Says by which name a core is exported, for rules of IO classes.
    pub fn set_export(&mut self, core: CoreId, name: impl Into<String>) {
        self.exports.insert(core, name.into());
    }

    /// Looks for what a start has found dirty of these cores, for the cleaning policy. It hears of what is not loaded
    /// when it is.
    pub fn look_for_dirty(&mut self, cores: impl IntoIterator<Item = CoreId>) {
        drop(self.layout.take_loaded_dirty());
        for core in cores {
            for dirty in health::dirty_runs(&*self.layout, core) {
                self.cleaning.found_dirty(dirty);
            }
        }
    }

    /// Bytes of memory that grow with what is cached.
    pub fn memory_bytes(&self) -> usize {
        self.layout.memory_bytes() + self.promotion.memory_bytes() + self.cleaning.memory_bytes()
    }

    /// How many requests have not ended.
    pub fn under_way(&self) -> usize {
        self.ops.len() + self.held.as_ref().map_or(0, Vec::len)
    }

    fn user_of(&self, RequestId(key): RequestId) -> RequestId {
        self.ops[usize::try_from(key).expect("a key of this cache")].user
    }

    /// Part of the capacity that is taken, in percent.
    fn occupancy_percent(&self) -> u8 {
        self.percent_of(self.layout.usage().valid_sectors)
    }

    /// Part of it that only the cache device has.
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
    /// Whether a cache can be so.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`], naming the option, if not.
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

/// Whether it brings what a user reads.
fn is_of_user(io: &DeviceIo) -> bool {
    matches!(io, DeviceIo::Read { reader: Some(_), .. })
}
