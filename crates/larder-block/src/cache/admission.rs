//! Decides how a request is handled: its IO class, whether it bypasses the cache, and whether its data is cached.
//!
//! *Always:* a decision changes no data and counts no request. It holds for the moment: the caller has the lock of the
//! range, and carries the decision out at once.

use std::collections::BTreeMap;
use std::time::Duration;

use super::coverage::Coverage;
use super::state::{CacheOptions, CacheShape};
use super::statistics::BypassReason;
use crate::Error;
use crate::layout::{ClassId, CoreId, DeviceIo, Layout, Refusal, SECTOR_BYTES, Span, Target};
use crate::mode::Mode;
use crate::policy::classes::{IoClasses, RequestFacts};
use crate::policy::cleaning::CleaningOptions;
use crate::policy::pressure::{BypassPolicy, CoreIo, Pressure, PressureState, WriteFacts};
use crate::policy::routing::{Router, RoutingPolicy, RoutingState};
use crate::policy::{
    CutOffPolicy, Direction, Promotion, PromotionPolicy, ReadAheadPolicy, SequentialCutOff,
    StreamFacts, is_short_of_room,
};

/// The cache counts as full when less than one part in this number is free.
const FULL_PART: u64 = 64;

/// How a write is handled.
#[derive(PartialEq, Eq)]
pub(super) enum WriteRoute {
    /// To the cache device only.
    Back,
    /// To the core, and then to the cache device.
    Through,
    /// To the core only.
    Around(BypassReason),
}

/// When an I/O of the layout began, as far as that is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct IoStart {
    /// For routing: for client reads of the cache device, and all I/Os of cores.
    began: Option<Duration>,
    /// The cost of an I/O of a core.
    of_core: Option<CoreIo>,
}

/// The options, and the policies with what they have measured.
#[derive(Debug)]
pub(super) struct Admission {
    options: CacheOptions,
    shape: CacheShape,
    cut_off: SequentialCutOff,
    promotion: Promotion,
    router: Router,
    pressure: Pressure,
    /// Valid sectors when the cache device was last found saturated.
    saturated_sectors: u64,
    /// The export name of each core.
    exports: BTreeMap<CoreId, String>,
    /// Writes that would be dirty also go to the core.
    has_no_dirty: bool,
    /// The core that is to be removed.
    leaving: Option<CoreId>,
}

impl Admission {
    /// # Errors
    /// [`ErrorKind::Setup`](crate::ErrorKind::Setup) if an option is invalid on devices of this shape.
    pub(super) fn new(options: CacheOptions, shape: CacheShape) -> Result<Self, Error> {
        Ok(Self {
            shape,
            cut_off: SequentialCutOff::new(options.cut_off, options.cut_off_bytes),
            promotion: promotion_of(&options, shape)?,
            router: Router::new(options.routing),
            pressure: Pressure::new(options.bypass),
            saturated_sectors: 0,
            exports: BTreeMap::new(),
            has_no_dirty: false,
            leaving: None,
            options,
        })
    }

    /// Continues with a cache device of another shape, of which nothing is known.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`](crate::ErrorKind::Setup) if an option is impossible there; then nothing has changed.
    pub(super) fn exchange(&mut self, shape: CacheShape) -> Result<(), Error> {
        self.promotion = promotion_of(&self.options, shape)?;
        self.shape = shape;
        (self.router, self.saturated_sectors) = (Router::new(self.options.routing), 0);
        self.pressure = Pressure::new(self.options.bypass);
        self.has_no_dirty = false;
        Ok(())
    }

    pub(super) fn options(&self) -> &CacheOptions {
        &self.options
    }

    pub(super) fn shape(&self) -> CacheShape {
        self.shape
    }

    pub(super) fn set_mode(&mut self, mode: Mode) {
        self.options.mode = mode;
    }

    pub(super) fn set_cut_off(&mut self, policy: CutOffPolicy, threshold_bytes: u64) {
        (self.options.cut_off, self.options.cut_off_bytes) = (policy, threshold_bytes);
        self.cut_off.set(policy, threshold_bytes);
    }

    pub(super) fn set_read_ahead(&mut self, policy: ReadAheadPolicy) -> Result<(), Error> {
        policy.check()?;
        self.options.read_ahead = policy;
        Ok(())
    }

    pub(super) fn set_promotion(&mut self, policy: PromotionPolicy) -> Result<(), Error> {
        self.promotion.set(policy)?;
        self.options.promotion = policy;
        Ok(())
    }

    /// The cleaning policy follows these options now.
    pub(super) fn note_cleaning(&mut self, cleaning: CleaningOptions) {
        self.options.cleaning = cleaning;
    }

    pub(super) fn set_classes(&mut self, classes: IoClasses) {
        self.options.classes = classes;
    }

    pub(super) fn set_routing(&mut self, policy: RoutingPolicy) -> Result<(), Error> {
        policy.check()?;
        self.options.routing = policy;
        self.router = Router::new(policy);
        Ok(())
    }

    pub(super) fn routing(&self) -> Option<(RoutingState, u16)> {
        self.router.state()
    }

    pub(super) fn set_bypass(&mut self, policy: BypassPolicy) {
        self.options.bypass = policy;
        self.pressure = Pressure::new(policy);
    }

    pub(super) fn pressure(&self) -> PressureState {
        self.pressure.state()
    }

    pub(super) fn set_export(&mut self, core: CoreId, name: String) {
        self.exports.insert(core, name);
    }

    /// Whether writes that would be dirty also go to the core from now on.
    pub(super) fn set_no_dirty(&mut self, has_none: bool) {
        self.has_no_dirty = has_none;
    }

    /// Sets the core whose data must not become dirty, because it is to be removed.
    pub(super) fn set_leaving(&mut self, core: Option<CoreId>) {
        self.leaving = core;
    }

    /// A core was removed.
    pub(super) fn forget_core(&mut self, core: CoreId) {
        self.leaving = None;
        self.exports.remove(&core);
        self.forget_measured();
    }

    /// Forgets measurements of the previous set of cores. Routing that was calibrated for them is switched off.
    pub(super) fn forget_measured(&mut self) {
        self.pressure = Pressure::new(self.options.bypass);
        if matches!(self.options.routing, RoutingPolicy::Tuned(_)) {
            self.set_routing(RoutingPolicy::Off).expect("it can be off");
        }
    }

    /// Whether it must be told the time before each turn and each completion of an I/O.
    pub(super) fn wants_time(&self) -> bool {
        self.router.measures() || self.pressure.measures()
    }

    /// It is `now`. Returns whether routing has found the cache device saturated.
    pub(super) fn at(&mut self, now: Duration, layout: &dyn Layout) -> bool {
        let is_saturated = self.router.at(now);
        if is_saturated {
            self.saturated_sectors = layout.usage().valid_sectors;
        }
        is_saturated
    }

    /// When routing wants to be told the time next.
    pub(super) fn due(&self) -> Option<Duration> {
        self.router.due()
    }

    /// An I/O of the layout begins.
    pub(super) fn io_begins(&mut self, io: &DeviceIo, now: Duration) -> IoStart {
        let is_of_user = matches!(io, DeviceIo::Read { reader: Some(_), .. });
        let is_timed = io.target() != Target::Cache || is_of_user;
        let began = self.router.read_begins().filter(|_| is_timed);
        IoStart { began, of_core: self.pressure.begins(io, now) }
    }

    /// An I/O of the layout has ended. `is_done`: it has succeeded, and has read no data for the layout itself.
    pub(super) fn io_ended(
        &mut self,
        start: IoStart,
        target: Target,
        is_done: bool,
        now: Duration,
    ) {
        if let Some(of_core) = start.of_core {
            self.pressure.ended(&of_core, now);
        }
        match start.began {
            Some(began) if target != Target::Cache => self.router.core_io_ended(began),
            Some(began) if is_done => self.router.read_ended(began),
            _ => {}
        }
    }

    /// A client read or write has succeeded.
    pub(super) fn request_ended(&mut self, bytes: usize) {
        self.router.ended(bytes);
    }

    /// The class of a request.
    pub(super) fn classify(&self, span: Span, direction: Direction, is_fua: bool) -> ClassId {
        let export = self.exports.get(&span.core).map_or("", String::as_str);
        self.options.classes.classify(&RequestFacts { span, direction, is_fua, export })
    }

    /// The mode for requests of a class; `None` if the class is never cached.
    pub(super) fn mode_of(&self, class: ClassId) -> Option<Mode> {
        let class = self.options.classes.get(class);
        let mode = class.mode().unwrap_or(self.options.mode);
        (class.allocation_percent() > 0).then_some(mode)
    }

    /// The mode for a read, or the reason why it bypasses the cache. `unused`: the reason why all requests do.
    pub(super) fn mode_of_read(
        &mut self,
        class: ClassId,
        span: Span,
        unused: Option<BypassReason>,
        layout: &dyn Layout,
    ) -> Result<Mode, BypassReason> {
        let is_sequential = self.cuts_off(span, Direction::Read, layout);
        if let Some(reason) = unused {
            return Err(reason);
        }
        match self.mode_of(class) {
            None => Err(BypassReason::IoClass),
            Some(Mode::PassThrough) => Err(BypassReason::Mode),
            Some(_) if is_sequential => Err(BypassReason::SequentialCutOff),
            Some(mode) => Ok(mode),
        }
    }

    /// Whether the core serves a read, which must be a clean hit for that.
    pub(super) fn goes_to_core(&mut self, coverage: Coverage) -> bool {
        self.router.looked_up(coverage.is_full());
        coverage.is_clean_hit() && self.router.goes_to_core()
    }

    /// Whether the absent part of a read may be cached; otherwise the reason.
    pub(super) fn admits_read(
        &mut self,
        class: ClassId,
        absent: Span,
        coverage: Coverage,
        layout: &dyn Layout,
    ) -> Result<(), BypassReason> {
        if !self.takes_in(layout) {
            return Err(BypassReason::Saturated);
        }
        if let Some(refusal) = layout.refuses(class, absent.sectors) {
            return Err(refusal.into());
        }
        let admits = self.admits(absent, coverage, layout);
        if admits { Ok(()) } else { Err(BypassReason::Promotion) }
    }

    /// How a write is handled. `unused`: the reason why all requests bypass the cache.
    pub(super) fn route_write(
        &mut self,
        class: ClassId,
        (span, coverage): (Span, Coverage),
        unused: Option<BypassReason>,
        layout: &mut dyn Layout,
    ) -> WriteRoute {
        let is_sequential = self.cuts_off(span, Direction::Write, layout);
        if let Some(reason) = unused {
            return WriteRoute::Around(reason);
        }
        let Some(mode) = self.mode_of(class) else {
            return WriteRoute::Around(BypassReason::IoClass);
        };
        let may_not_dirty = self.has_no_dirty || self.leaving == Some(span.core);
        let route = match mode {
            Mode::PassThrough | Mode::WriteInvalidate => {
                return WriteRoute::Around(BypassReason::Mode);
            }
            Mode::WriteAround if !coverage.is_full() => {
                return WriteRoute::Around(BypassReason::Mode);
            }
            Mode::WriteAround | Mode::WriteThrough => WriteRoute::Through,
            Mode::WriteBack | Mode::WriteOnly if may_not_dirty => WriteRoute::Through,
            Mode::WriteBack | Mode::WriteOnly => WriteRoute::Back,
        };
        if is_sequential {
            return WriteRoute::Around(BypassReason::SequentialCutOff);
        }
        if route == WriteRoute::Through && !coverage.has_cached && !self.takes_in(layout) {
            return WriteRoute::Around(BypassReason::Saturated);
        }
        let refusal = |absent: Span| layout.refuses(class, absent.sectors);
        if let Some(refusal) = coverage.absent.and_then(refusal) {
            return WriteRoute::Around(refusal.into());
        }
        match coverage.absent {
            Some(absent) if !self.admits(absent, coverage, layout) => {
                WriteRoute::Around(BypassReason::Promotion)
            }
            _ if route == WriteRoute::Back => match self.why_no_room(span, coverage, layout) {
                Some(reason) => WriteRoute::Around(reason),
                None => back_if_there_is_room(class, coverage, layout),
            },
            _ => route,
        }
    }

    /// The reason why a write that would be dirty bypasses the cache, if it does. A fully cached write normally needs
    /// no room.
    fn why_no_room(
        &mut self,
        span: Span,
        coverage: Coverage,
        layout: &dyn Layout,
    ) -> Option<BypassReason> {
        if self.options.bypass == BypassPolicy::Never || coverage.is_full() {
            return None;
        }
        let facts = WriteFacts {
            core: span.core,
            bytes: span.bytes() as u64,
            is_stream: self.cut_off.goes_on(),
            has_cached: coverage.has_cached,
            room: layout.room()?,
            dirty_percent: self.dirty_percent(layout),
        };
        let passes = self.pressure.passes(&facts);
        let is_full = self.pressure.state() == PressureState::Saturated;
        let reason = if is_full { BypassReason::NoRoom } else { BypassReason::Pressure };
        passes.then_some(reason)
    }

    /// Whether absent data may be cached. If a part of the request is cached, the rest is always admitted.
    fn admits(&mut self, absent: Span, coverage: Coverage, layout: &dyn Layout) -> bool {
        let percent = self.percent_of(layout.usage().valid_sectors);
        self.promotion.admits(absent, percent) || coverage.has_cached
    }

    /// Whether new data may be cached. While the cache device is saturated, only room that was freed since then is
    /// refilled: writes go on, so a log would otherwise lose the rest of the data that is hit.
    fn takes_in(&self, layout: &dyn Layout) -> bool {
        self.router.admits() || layout.usage().valid_sectors < self.saturated_sectors
    }

    fn cuts_off(&mut self, span: Span, direction: Direction, layout: &dyn Layout) -> bool {
        let is_full = self.is_full_for(span, layout);
        self.cut_off.cuts_off(span, direction, is_full)
    }

    /// Whether the free room is too small for the request.
    fn is_full_for(&self, span: Span, layout: &dyn Layout) -> bool {
        let used_bytes = layout.usage().valid_sectors * SECTOR_BYTES as u64;
        let room = self.shape.capacity_bytes.saturating_sub(used_bytes);
        room <= span.bytes() as u64 + self.shape.capacity_bytes / FULL_PART
    }

    /// The next part to read ahead of the stream that `span` continues. `core_sectors`: the length of its core.
    pub(super) fn next_ahead(
        &mut self,
        span: Span,
        core_sectors: u64,
        layout: &dyn Layout,
    ) -> Option<Span> {
        let is_full = self.is_full_for(span, layout);
        let run = *self.cut_off.run_mut(span, Direction::Read)?;
        let part = self.options.read_ahead.next_part(&StreamFacts {
            end: span.end(),
            bytes: run.bytes,
            ahead: run.ahead,
            bytes_left: self.cut_off.bytes_left(run.bytes, is_full),
            core_sectors,
            line_sectors: u64::from(self.shape.line_bytes) / SECTOR_BYTES as u64,
        })?;
        let sectors = u32::try_from(part.end - part.start).expect("a window at most");
        Some(Span { core: span.core, first: part.start, sectors })
    }

    /// The stream that `span` continues is read ahead up to this sector.
    pub(super) fn was_read_ahead(&mut self, span: Span, end: u64) {
        if let Some(run) = self.cut_off.run_mut(span, Direction::Read) {
            run.ahead = end;
        }
    }

    /// Whether read-ahead for a class is allowed now.
    pub(super) fn may_read_ahead(&self, class: ClassId, layout: &dyn Layout) -> bool {
        self.mode_of(class).is_some_and(|mode| mode.keeps_reads())
            && self.takes_in(layout)
            && !is_short_of_room(layout.room(), self.dirty_percent(layout))
    }

    /// Data of these sectors is void: it has to prove itself again.
    pub(super) fn forget(&mut self, span: Span) {
        self.promotion.forget(span);
    }

    /// The dirty share of the capacity, in percent.
    fn dirty_percent(&self, layout: &dyn Layout) -> u8 {
        self.percent_of(layout.usage().dirty_sectors)
    }

    fn percent_of(&self, sectors: u64) -> u8 {
        let bytes = sectors * SECTOR_BYTES as u64;
        u8::try_from((bytes * 100 / self.shape.capacity_bytes.max(1)).min(100))
            .expect("100 at most")
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.promotion.memory_bytes()
    }
}

/// To the cache device, if its class has room. A write-through checks for room later, when the core has the data.
fn back_if_there_is_room(
    class: ClassId,
    coverage: Coverage,
    layout: &mut dyn Layout,
) -> WriteRoute {
    match coverage.absent {
        Some(absent) if !layout.make_room(class, absent.sectors) => {
            WriteRoute::Around(Refusal::Full.into())
        }
        _ => WriteRoute::Back,
    }
}

fn promotion_of(options: &CacheOptions, shape: CacheShape) -> Result<Promotion, Error> {
    let lines = shape.capacity_bytes / u64::from(shape.line_bytes);
    Promotion::new(options.promotion, lines, shape.line_bytes)
}
