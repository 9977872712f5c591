//! Reads: cached data comes from the cache device, the rest from the core. Also decides which part of the rest is
//! cached.

use super::coverage::Coverage;
use super::op::{Step, What};
use super::request::{Ended, Keep};
use super::state::{Cache, Health};
use super::statistics::BypassReason;
use crate::layout::{ClassId, Ending, PieceState, Refusal, Request, RequestId, SECTOR_BYTES, Span};
use crate::mode::Mode;
use crate::policy::Direction;
use crate::policy::classes::RequestFacts;

impl Cache {
    pub(super) fn coverage(&mut self, span: Span) -> Coverage {
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.clear();
        self.layout.lookup(span, &mut pieces);
        let mut absent: Option<Span> = None;
        let (mut has_cached, mut has_dirty) = (false, false);
        for piece in &pieces {
            match (piece.state, &mut absent) {
                (PieceState::Absent, Some(hull)) => {
                    let sectors = piece.span.end() - hull.first;
                    hull.sectors = u32::try_from(sectors).expect("within a request");
                }
                (PieceState::Absent, none) => *none = Some(piece.span),
                (PieceState::Clean | PieceState::Dirty, _) => has_cached = true,
            }
            has_dirty |= piece.state == PieceState::Dirty;
        }
        self.pieces = pieces;
        Coverage { absent, has_cached, has_dirty }
    }

    pub(super) fn begin_read(&mut self, key: usize, span: Span) {
        let coverage = self.coverage(span);
        let class = self.classify(key, span, Direction::Read, false);
        let mode = self.mode_of_read(class, span);
        self.statistics.read(span, coverage, mode.is_err());
        self.parts.read((span.core, class), span, coverage, mode.is_err());
        match mode {
            Ok(_) if self.goes_to_core(coverage) => {
                self.step(key, Step::CoreHit);
                self.ask_layout(key, Request::PassThroughRead { span });
            }
            Ok(mode) => {
                let keep = coverage.absent.filter(|absent| {
                    mode.keeps_reads() && self.keeps_missed(key, *absent, coverage)
                });
                self.step(key, Step::Read { keep });
                self.ask_layout(key, Request::Read { span });
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
        self.router.looked_up(coverage.is_full());
        let goes = coverage.is_clean_hit() && self.router.goes_to_core();
        self.statistics.core_hits += u64::from(goes);
        goes
    }

    /// The core has refused a read of cached data: read it from the cache device instead.
    pub(super) fn core_hit_failed(&mut self, key: usize) {
        let span = self.ops[key].span();
        self.statistics.errors.tried_again += 1;
        self.step(key, Step::Read { keep: None });
        self.ask_layout(key, Request::Read { span });
    }

    fn pass_through(&mut self, key: usize, span: Span) {
        self.step(key, Step::PassThroughRead);
        self.ask_layout(key, Request::PassThroughRead { span });
    }

    /// Sets the class of a request that begins. The request keeps it until it ends.
    pub(super) fn classify(
        &mut self,
        key: usize,
        span: Span,
        direction: Direction,
        is_fua: bool,
    ) -> ClassId {
        let export = self.exports.get(&span.core).map_or("", String::as_str);
        let facts = RequestFacts { span, direction, is_fua, export };
        let class = self.options.classes.classify(&facts);
        self.ops[key].class = class;
        class
    }

    /// The mode for requests of a class; `None` if the class is never cached.
    pub(super) fn mode_of(&self, class: ClassId) -> Option<Mode> {
        let class = self.options.classes.get(class);
        let mode = class.mode().unwrap_or(self.options.mode);
        (class.allocation_percent() > 0).then_some(mode)
    }

    /// The mode for a read, or the reason why it bypasses the cache.
    fn mode_of_read(&mut self, class: ClassId, span: Span) -> Result<Mode, BypassReason> {
        let is_sequential = self.cuts_off(span, Direction::Read);
        if let Some(reason) = self.why_unused() {
            return Err(reason);
        }
        match self.mode_of(class) {
            None => Err(BypassReason::IoClass),
            Some(Mode::PassThrough) => Err(BypassReason::Mode),
            Some(_) if is_sequential => Err(BypassReason::SequentialCutOff),
            Some(mode) => Ok(mode),
        }
    }

    /// Whether absent data may be cached. If a part of the request is cached, the rest is always admitted.
    pub(super) fn admits(&mut self, absent: Span, coverage: Coverage) -> bool {
        let percent = self.occupancy_percent();
        self.promotion.admits(absent, percent) || coverage.has_cached
    }

    /// Whether new data may be cached. While the cache device is saturated, only room that was freed since then is
    /// refilled: writes go on, so a log would otherwise lose the rest of the data that is hit.
    pub(super) fn takes_in(&self) -> bool {
        self.router.admits() || self.layout.usage().valid_sectors < self.saturated_sectors
    }

    fn keeps_missed(&mut self, key: usize, absent: Span, coverage: Coverage) -> bool {
        if !self.takes_in() {
            self.passes(key, BypassReason::Saturated);
            return false;
        }
        if let Some(refusal) = self.layout.refuses(self.ops[key].class, absent.sectors) {
            self.passes(key, refusal.into());
            return false;
        }
        let admits = self.admits(absent, coverage);
        if !admits {
            self.passes(key, BypassReason::Promotion);
        }
        admits
    }

    pub(super) fn cuts_off(&mut self, span: Span, direction: Direction) -> bool {
        let is_full = self.is_full_for(span);
        self.cut_off.cuts_off(span, direction, is_full)
    }

    /// Whether the free room is too small for the request.
    pub(super) fn is_full_for(&self, span: Span) -> bool {
        let room = self
            .shape
            .capacity_bytes
            .saturating_sub(self.layout.usage().valid_sectors * SECTOR_BYTES as u64);
        room <= span.bytes() as u64 + self.shape.capacity_bytes / FULL_PART
    }

    pub(super) fn read_ended(&mut self, key: usize, keep: Option<Span>, is_well: bool) {
        if !is_well && self.has_cache_failed_since(key) {
            // Clean data is also on the core.
            let span = self.ops[key].span();
            self.statistics.errors.tried_again += 1;
            return self.pass_through(key, span);
        }
        let Some(span) = keep.filter(|_| is_well) else { return self.end(key, is_well) };
        // The client has its data. Keep the lock: the cached data must equal that of the core.
        let read = self.ops[key].span();
        let from = usize::try_from(span.first - read.first).expect("a request in memory");
        let keep = Keep { key, span, from: from * SECTOR_BYTES };
        self.tell(key, Ending::Done, Some(keep));
        self.step(key, Step::Given(span));
        let mut freed = Vec::new();
        let is_locked = self.locks.keep(key, span, &mut freed);
        self.ops[key].is_locked = is_locked;
        self.begin_all(freed);
    }

    /// Gives the data to the layout, if still allowed. The lock is held, and the caller has answered.
    pub(super) fn insert_kept(&mut self, key: usize) {
        let Step::Given(span) = self.ops[key].step else { unreachable!("it waits for its data") };
        let (Some(data), Health::Whole) = (self.ops[key].data.take(), self.health) else {
            return self.forget(key);
        };
        self.insert(key, span, data);
    }

    /// Checks the room of the class again: several requests that were admitted together may exceed it together.
    pub(super) fn insert(&mut self, key: usize, span: Span, data: crate::layout::Data) {
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
        self.ask_layout(key, Request::InsertClean { span, data });
    }

    pub(super) fn step(&mut self, key: usize, step: Step) {
        let cache_errors = self.cache_errors;
        let op = &mut self.ops[key];
        (op.step, op.cache_errors) = (step, cache_errors);
    }

    pub(super) fn ask_layout(&mut self, key: usize, request: Request) {
        self.layout.submit_of(self.ops[key].class, RequestId(key as u64), request);
    }

    /// Completes the client request, and releases the lock.
    pub(super) fn end(&mut self, key: usize, is_well: bool) {
        let ending = if is_well { Ending::Done } else { Ending::Failed };
        self.tell(key, ending, None);
        self.forget(key);
    }

    /// Completes the client request.
    pub(super) fn tell(&mut self, key: usize, ending: Ending, keep: Option<Keep>) {
        let op = &self.ops[key];
        if let (Ending::Done, What::Read(span) | What::Write { span, .. }) = (ending, &op.what) {
            self.router.ended(span.bytes());
        }
        self.ended.push(Ended { id: op.user, ending, keep });
    }

    /// Removes the op and releases its lock. The client request has already completed.
    pub(super) fn forget(&mut self, key: usize) {
        let op = self.ops.remove(key);
        if let What::Ahead(span) = op.what {
            self.ahead_bytes -= span.bytes() as u64;
        }
        if op.lock().is_some() {
            let mut freed = Vec::new();
            self.locks.release(key, &mut freed);
            self.begin_all(freed);
        }
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

/// The cache counts as full when less than one part in this number is free.
const FULL_PART: u64 = 64;
