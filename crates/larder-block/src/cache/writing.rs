//! Writes, trims and flushes, and the sequence of the steps of a request.

use super::coverage::Coverage;
use super::op::{IoUnderWay, Op, Step, What};
use super::state::{Cache, Health, Mark};
use super::statistics::BypassReason;
use crate::layout::{Class, ClassId, Data, DeviceIo, Ending, IoId, Refusal, Request, Span, Target};
use crate::mode::Mode;
use crate::policy::Direction;
use crate::policy::pressure::{BypassPolicy, PressureState, WriteFacts};

/// How a write is handled.
#[derive(PartialEq, Eq)]
enum Way {
    /// To the cache device only.
    Back,
    /// To the core, and then to the cache device.
    Through,
    /// To the core only.
    Around(BypassReason),
}

impl Cache {
    /// Decides how a request that holds its lock is handled.
    pub(super) fn begin(&mut self, key: usize) {
        match self.ops[key].what {
            What::Read(span) => self.begin_read(key, span),
            What::Write { span, durable } => self.begin_write(key, span, durable),
            What::Trim(span) => self.begin_trim(key, span),
            What::Flush => {
                self.step(key, Step::Flush);
                self.ask_layout(key, Request::Flush);
            }
            What::PrepareStop => {
                self.step(key, Step::Flush);
                self.ask_layout(key, Request::PrepareStop);
            }
            What::Clean(_) => self.begin_cleaning(key),
            What::Destage { .. } | What::Relieve { .. } => unreachable!("it needs no lock"),
            What::Ahead(_) => unreachable!("it has its lock from the start"),
        }
    }

    fn begin_write(&mut self, key: usize, span: Span, durable: bool) {
        let way = self.way_of(key, span, durable);
        let data = self.ops[key].data.clone().expect("a write has data");
        match way {
            Way::Back => self.write_back(key, span, data),
            Way::Through => self.bypass(key, data, durable, true),
            Way::Around(reason) => {
                self.passes(key, reason);
                match self.health {
                    Health::Whole | Health::Detached => self.bypass(key, data, durable, false),
                    Health::Failed => self.go_past_layout(key),
                }
            }
        }
    }

    fn write_back(&mut self, key: usize, span: Span, data: Data) {
        self.step(key, Step::WriteBack);
        self.ask_layout(key, Request::Write { span, data });
    }

    fn bypass(&mut self, key: usize, data: Data, durable: bool, keeps: bool) {
        let span = self.ops[key].span();
        self.step(key, Step::Bypass { keeps });
        self.ask_layout(key, Request::Bypass { span, data, durable });
    }

    fn way_of(&mut self, key: usize, span: Span, durable: bool) -> Way {
        let coverage = self.coverage(span);
        let class = self.classify(key, span, Direction::Write, durable);
        let way = self.choose(class, span, coverage);
        let passes = matches!(way, Way::Around(_));
        self.statistics.write(span, coverage, passes);
        self.parts.write((span.core, class), span, coverage, passes);
        way
    }

    fn choose(&mut self, class: ClassId, span: Span, coverage: Coverage) -> Way {
        let is_sequential = self.cuts_off(span, Direction::Write);
        if let Some(reason) = self.why_unused() {
            return Way::Around(reason);
        }
        let Some(mode) = self.mode_of(class) else {
            return Way::Around(BypassReason::IoClass);
        };
        let way = match mode {
            Mode::PassThrough | Mode::WriteInvalidate => return Way::Around(BypassReason::Mode),
            Mode::WriteAround if !coverage.is_full() => return Way::Around(BypassReason::Mode),
            Mode::WriteAround | Mode::WriteThrough => Way::Through,
            Mode::WriteBack | Mode::WriteOnly if self.may_not_dirty(span.core) => Way::Through,
            Mode::WriteBack | Mode::WriteOnly => Way::Back,
        };
        if is_sequential {
            return Way::Around(BypassReason::SequentialCutOff);
        }
        if way == Way::Through && !coverage.has_cached && !self.takes_in() {
            return Way::Around(BypassReason::Saturated);
        }
        let refusal = |absent: Span| self.layout.refuses(class, absent.sectors);
        if let Some(refusal) = coverage.absent.and_then(refusal) {
            return Way::Around(refusal.into());
        }
        match coverage.absent {
            Some(absent) if !self.admits(absent, coverage) => Way::Around(BypassReason::Promotion),
            _ if way == Way::Back => match self.why_no_room(span, coverage) {
                Some(reason) => Way::Around(reason),
                None => self.back_if_there_is_room(class, coverage),
            },
            _ => way,
        }
    }

    /// To the cache device, if its class has room. A write-through checks for room later, when the core has the data.
    fn back_if_there_is_room(&mut self, class: ClassId, coverage: Coverage) -> Way {
        match coverage.absent {
            Some(absent) if !self.layout.make_room(class, absent.sectors) => {
                Way::Around(Refusal::Full.into())
            }
            _ => Way::Back,
        }
    }

    /// The reason why a write that would be dirty bypasses the cache, if it does. A fully cached write normally needs
    /// no room.
    fn why_no_room(&mut self, span: Span, coverage: Coverage) -> Option<BypassReason> {
        if self.options.bypass == BypassPolicy::Never || coverage.is_full() {
            return None;
        }
        let facts = WriteFacts {
            core: span.core,
            bytes: span.bytes() as u64,
            is_stream: self.cut_off.goes_on(),
            has_cached: coverage.has_cached,
            room: self.layout.room()?,
            dirty_percent: self.dirty_percent(),
        };
        let passes = self.pressure.passes(&facts);
        let is_full = self.pressure.state() == PressureState::Saturated;
        let reason = if is_full { BypassReason::NoRoom } else { BypassReason::Pressure };
        passes.then_some(reason)
    }

    /// Writes to the core alone, because the cache device has failed; waits until the label says so.
    pub(super) fn go_past_layout(&mut self, key: usize) {
        if self.mark != Mark::Done {
            return self.parked.push(key);
        }
        let op = &self.ops[key];
        let span = op.span();
        let (What::Write { durable, .. }, Some(data)) = (&op.what, op.data.clone()) else {
            return self.trim_core(key, span);
        };
        let (target, durable) = (Target::Core(span.core), *durable);
        self.own_io(
            key,
            Step::Core,
            DeviceIo::Write {
                target,
                offset: span.offset(),
                parts: vec![data],
                class: Class::Dirty,
                beside: None,
                metadata_bytes: 0,
                durable,
            },
        );
    }

    pub(super) fn own_io(&mut self, key: usize, step: Step, io: DeviceIo) {
        self.step(key, step);
        self.statistics.io(&io);
        let under_way = IoUnderWay::Own { key, target: io.target(), reads: io.reads() };
        let id = IoId(self.ios.insert(under_way));
        self.issued.push((id, io));
    }

    fn begin_trim(&mut self, key: usize, span: Span) {
        self.promotion.forget(span);
        if self.health != Health::Failed {
            self.step(key, Step::Discard);
            return self.ask_layout(key, Request::Discard { span });
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
                self.statistics.errors.tried_again += 1;
                self.try_again(key);
            }
            Step::Bypass { keeps: true } if is_well && self.health == Health::Whole => {
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
            (What::Write { .. }, ..) if self.health == Health::Failed => {
                self.passes(key, BypassReason::CacheFailed);
                self.go_past_layout(key);
            }
            (What::Write { durable, .. }, Step::Bypass { keeps }, Some(data)) => {
                let durable = *durable;
                self.bypass(key, data, durable, keeps);
            }
            (What::Write { span, .. }, _, Some(data)) => {
                let span = *span;
                self.write_back(key, span, data);
            }
            _ => self.begin_trim(key, self.ops[key].span()),
        }
    }
}
