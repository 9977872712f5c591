//! Client requests, step by step: reads, writes, trims and flushes.
//!
//! A read gets cached data from the cache device, and the rest from the core; a part of the rest may be cached then. A
//! write goes to the cache device, to the core, or to the core and then to the cache device.

use super::Cache;
use super::admission::WriteRoute;
use super::coverage::Coverage;
use super::op::{IoUnderWay, Op, OpKind, Step};
use super::request::Keep;
use super::state::Health;
use super::statistics::BypassReason;
use crate::layout::{
    Data, DeviceIo, Ending, LayoutRequest, PlacementClass, Refusal, RequestId, SECTOR_BYTES, Span,
    Target,
};
use crate::policy::Direction;

impl Cache {
    /// Decides how a request that holds its lock is handled.
    pub(super) fn begin(&mut self, key: usize) {
        match self.ops[key].what {
            OpKind::Read(span) => self.begin_read(key, span),
            OpKind::Write { span, durable } => self.begin_write(key, span, durable),
            OpKind::Trim(span) => self.begin_trim(key, span),
            OpKind::Flush => {
                self.step(key, Step::Flush);
                self.ask_layout(key, LayoutRequest::Flush);
            }
            OpKind::PrepareStop => {
                self.step(key, Step::Flush);
                self.ask_layout(key, LayoutRequest::PrepareStop);
            }
            OpKind::Clean(_) => self.begin_cleaning(key),
            OpKind::Destage { .. } | OpKind::Relieve { .. } => unreachable!("it needs no lock"),
            OpKind::Ahead(_) => unreachable!("it has its lock from the start"),
        }
    }

    /// What the layout has of a range.
    fn coverage(&mut self, span: Span) -> Coverage {
        self.pieces.clear();
        self.layout.lookup(span, &mut self.pieces);
        Coverage::of(&self.pieces)
    }

    fn begin_read(&mut self, key: usize, span: Span) {
        let coverage = self.coverage(span);
        let class = self.admission.classify(span, Direction::Read, false);
        self.ops[key].class = class;
        let unused = self.health.why_unused();
        let mode = self.admission.mode_of_read(class, span, unused, &*self.layout);
        self.tally.read((span.core, class), span, coverage, mode.is_err());
        match mode {
            Ok(_) if self.goes_to_core(coverage) => {
                self.step(key, Step::CoreHit);
                self.ask_layout(key, LayoutRequest::PassThroughRead { span });
            }
            Ok(mode) => {
                let keep = coverage.absent.filter(|absent| {
                    mode.keeps_reads() && self.keeps_missed(key, *absent, coverage)
                });
                self.step(key, Step::Read { keep });
                self.ask_layout(key, LayoutRequest::Read { span });
                self.read_ahead(key, span);
            }
            Err(reason) => {
                self.passes(key, reason);
                self.pass_through(key, span);
            }
        }
    }

    /// Whether the core serves a read that is a clean hit.
    fn goes_to_core(&mut self, coverage: Coverage) -> bool {
        let goes = self.admission.goes_to_core(coverage);
        self.tally.core_hits(u64::from(goes));
        goes
    }

    fn keeps_missed(&mut self, key: usize, absent: Span, coverage: Coverage) -> bool {
        let class = self.ops[key].class;
        let admitted = self.admission.admits_read(class, absent, coverage, &*self.layout);
        if let Err(reason) = admitted {
            self.passes(key, reason);
        }
        admitted.is_ok()
    }

    /// The core has refused a read of cached data: read it from the cache device instead.
    fn core_hit_failed(&mut self, key: usize) {
        let span = self.ops[key].span();
        self.tally.tried_again();
        self.step(key, Step::Read { keep: None });
        self.ask_layout(key, LayoutRequest::Read { span });
    }

    fn pass_through(&mut self, key: usize, span: Span) {
        self.step(key, Step::PassThroughRead);
        self.ask_layout(key, LayoutRequest::PassThroughRead { span });
    }

    fn read_ended(&mut self, key: usize, keep: Option<Span>, is_well: bool) {
        if !is_well && self.has_cache_failed_since(key) {
            // Clean data is also on the core.
            let span = self.ops[key].span();
            self.tally.tried_again();
            return self.pass_through(key, span);
        }
        let Some(span) = keep.filter(|_| is_well) else { return self.end(key, is_well) };
        // The client has its data. Keep the lock: the cached data must equal that of the core.
        let read = self.ops[key].span();
        let from = usize::try_from(span.first - read.first).expect("a request in memory");
        let keep = Keep { key, span, from: from * SECTOR_BYTES };
        self.tell(key, Ending::Done, Some(keep));
        self.step(key, Step::Given(span));
        let freed = self.ops.keep_lock(key, span);
        self.begin_all(freed);
    }

    /// Gives the data to the layout, if still allowed. The lock is held, and the caller has answered.
    pub(super) fn insert_kept(&mut self, key: usize) {
        let Step::Given(span) = self.ops[key].step else { unreachable!("it waits for its data") };
        let (Some(data), Health::Whole) = (self.ops[key].data.take(), self.health.get()) else {
            return self.forget(key);
        };
        self.insert(key, span, data);
    }

    /// Checks the room of the class again: several requests that were admitted together may exceed it together.
    pub(super) fn insert(&mut self, key: usize, span: Span, data: Data) {
        let class = self.ops[key].class;
        let refusal = self
            .layout
            .refuses(class, span.sectors)
            .or_else(|| (!self.layout.make_room(class, span.sectors)).then_some(Refusal::Full));
        if let Some(refusal) = refusal {
            self.passes(key, refusal.into());
            return self.forget(key);
        }
        self.step(key, Step::Insert);
        self.ask_layout(key, LayoutRequest::InsertClean { span, data });
    }

    fn begin_write(&mut self, key: usize, span: Span, durable: bool) {
        let route = self.route_of(key, span, durable);
        let data = self.ops[key].data.clone().expect("a write has data");
        match route {
            WriteRoute::Back => self.write_back(key, span, data),
            WriteRoute::Through => self.bypass(key, data, durable, true),
            WriteRoute::Around(reason) => {
                self.passes(key, reason);
                match self.health.get() {
                    Health::Whole | Health::Detached => self.bypass(key, data, durable, false),
                    Health::Failed => self.go_past_layout(key),
                }
            }
        }
    }

    fn route_of(&mut self, key: usize, span: Span, durable: bool) -> WriteRoute {
        let coverage = self.coverage(span);
        let class = self.admission.classify(span, Direction::Write, durable);
        self.ops[key].class = class;
        let unused = self.health.why_unused();
        let asked = (span, coverage);
        let route = self.admission.route_write(class, asked, unused, &mut *self.layout);
        let passes = matches!(route, WriteRoute::Around(_));
        self.tally.write((span.core, class), span, coverage, passes);
        route
    }

    fn write_back(&mut self, key: usize, span: Span, data: Data) {
        self.step(key, Step::WriteBack);
        self.ask_layout(key, LayoutRequest::Write { span, data });
    }

    fn bypass(&mut self, key: usize, data: Data, durable: bool, keeps: bool) {
        let span = self.ops[key].span();
        self.step(key, Step::Bypass { keeps });
        self.ask_layout(key, LayoutRequest::Bypass { span, data, durable });
    }

    /// Writes to the core alone, because the cache device has failed; waits until the label says so.
    pub(super) fn go_past_layout(&mut self, key: usize) {
        if !self.health.lets_past(key) {
            return;
        }
        let op = &self.ops[key];
        let span = op.span();
        let (OpKind::Write { durable, .. }, Some(data)) = (&op.what, op.data.clone()) else {
            return self.trim_core(key, span);
        };
        let io = DeviceIo::core_write(span, data, PlacementClass::Dirty, *durable);
        self.own_io(key, Step::Core, io);
    }

    pub(super) fn own_io(&mut self, key: usize, step: Step, io: DeviceIo) {
        self.step(key, step);
        self.tally.io(&io);
        self.ops.issue_own(key, io);
    }

    fn begin_trim(&mut self, key: usize, span: Span) {
        self.admission.forget(span);
        if !self.health.has_failed() {
            self.step(key, Step::Discard);
            return self.ask_layout(key, LayoutRequest::Discard { span });
        }
        self.go_past_layout(key);
    }

    fn trim_core(&mut self, key: usize, span: Span) {
        let (target, offset, bytes) = (Target::Core(span.core), span.offset(), span.bytes() as u64);
        self.own_io(key, Step::Trim, DeviceIo::Deallocate { target, offset, bytes });
    }

    /// A step has ended: begins the next step, or ends the request.
    pub(super) fn step_ended(&mut self, key: usize, is_well: bool) {
        if self.ops[key].step == Step::WriteBack {
            // A failed write may still have reached the cache device.
            let span = self.ops[key].span();
            self.cleaning.written(span, self.now);
        }
        match self.ops[key].step {
            Step::Read { keep } => self.read_ended(key, keep, is_well),
            Step::WriteBack | Step::Bypass { .. } | Step::Discard
                if !is_well && self.has_cache_failed_since(key) =>
            {
                self.tally.tried_again();
                self.try_again(key);
            }
            Step::Bypass { keeps: true } if is_well && self.health.is_whole() => {
                let span = self.ops[key].span();
                self.tell(key, Ending::Done, None);
                let data = self.ops[key].data.take().expect("a write has data");
                self.insert(key, span, data);
            }
            Step::Discard if is_well => {
                let span = self.ops[key].span();
                self.trim_core(key, span);
            }
            // A trim is advice: if the core cannot do it, no data is lost.
            Step::Trim => {
                self.layout.core_was_written(self.ops[key].span().core);
                self.end(key, true);
            }
            Step::Core => {
                self.layout.core_was_written(self.ops[key].span().core);
                self.end(key, is_well);
            }
            // If the insertion fails, only the cache is affected, not the client.
            Step::Insert => self.forget(key),
            Step::Destage => self.destage_ended(key, is_well),
            Step::Relieve => self.relief_ended(key, is_well),
            Step::Ahead => self.ahead_was_read(key, is_well),
            Step::CoreHit if !is_well => self.core_hit_failed(key),
            Step::PassThroughRead
            | Step::CoreHit
            | Step::WriteBack
            | Step::Bypass { .. }
            | Step::Flush
            | Step::Discard => self.end(key, is_well),
            Step::Lock | Step::Given(_) => unreachable!("nothing is under way for it"),
        }
    }

    /// Retries a request: at another place on the cache device, or without it.
    fn try_again(&mut self, key: usize) {
        let Op { what, step, data, .. } = &self.ops[key];
        match (what, *step, data.clone()) {
            (OpKind::Write { .. }, ..) if self.health.has_failed() => {
                self.passes(key, BypassReason::CacheFailed);
                self.go_past_layout(key);
            }
            (OpKind::Write { durable, .. }, Step::Bypass { keeps }, Some(data)) => {
                let durable = *durable;
                self.bypass(key, data, durable, keeps);
            }
            (OpKind::Write { span, .. }, _, Some(data)) => {
                let span = *span;
                self.write_back(key, span, data);
            }
            _ => self.begin_trim(key, self.ops[key].span()),
        }
    }

    /// Whether the cache device has failed since this step of the op began. If so, a retry makes sense.
    fn has_cache_failed_since(&self, key: usize) -> bool {
        self.health.errors() > self.ops[key].cache_errors
    }

    /// An I/O has failed.
    pub(super) fn io_failed(&mut self, io: &IoUnderWay) {
        let (IoUnderWay::Layout { target, reads, .. } | IoUnderWay::Own { target, reads, .. }) =
            *io;
        self.tally.io_failed(target, reads);
        self.health.io_failed(target, self.now, self.admission.options().cache_errors_max);
    }

    pub(super) fn step(&mut self, key: usize, step: Step) {
        let op = &mut self.ops[key];
        (op.step, op.cache_errors) = (step, self.health.errors());
    }

    pub(super) fn ask_layout(&mut self, key: usize, request: LayoutRequest) {
        self.layout.submit_of(self.ops[key].class, RequestId(key as u64), request);
    }

    /// Counts a request that bypasses the cache.
    fn passes(&mut self, key: usize, reason: BypassReason) {
        let op = &self.ops[key];
        self.tally.bypassed((op.span().core, op.class), reason);
    }

    /// Completes the client request, and releases the lock.
    pub(super) fn end(&mut self, key: usize, is_well: bool) {
        let ending = if is_well { Ending::Done } else { Ending::Failed };
        self.tell(key, ending, None);
        self.forget(key);
    }

    /// Completes the client request.
    fn tell(&mut self, key: usize, ending: Ending, keep: Option<Keep>) {
        let what = &self.ops[key].what;
        if let (Ending::Done, OpKind::Read(span) | OpKind::Write { span, .. }) = (ending, what) {
            self.admission.request_ended(span.bytes());
        }
        self.ops.tell(key, ending, keep);
    }

    /// Removes the op and releases its lock. The client request has already completed.
    pub(super) fn forget(&mut self, key: usize) {
        let (op, freed) = self.ops.remove(key);
        if let OpKind::Ahead(span) = op.what {
            self.ahead.end(span);
        }
        self.begin_all(freed);
    }

    fn begin_all(&mut self, freed: Vec<usize>) {
        for key in freed {
            match self.ops[key].step {
                Step::Given(_) => {
                    self.ops[key].is_locked = true;
                    if self.ops[key].is_given {
                        self.insert_kept(key);
                    }
                }
                _ => self.begin(key),
            }
        }
    }
}
