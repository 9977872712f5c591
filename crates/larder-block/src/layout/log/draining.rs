//! Drains a segment: dirty data is destaged in sorted runs; data with hits or of a higher class is kept, within a
//! budget.

use super::appender::{Pending, Source};
use super::destaging::runs_of;
use super::drain::{Drain, Phase, Queue};
use super::index::Found;
use super::segments::{RESERVED_SEGMENTS, State};
use super::state::{LogLayout, Mover, Purpose};
use crate::layout::{CoreId, Data, DeviceIo, Span, Target};

/// Number of segments that should be ready to be filled.
const READY_SEGMENTS: usize = RESERVED_SEGMENTS + 1;

impl LogLayout {
    /// Begins to drain the oldest segment if too few are ready, and continues a drain where possible.
    pub(super) fn go_on_draining(&mut self) {
        if self.drain.is_none() {
            if self.segments.ready() >= READY_SEGMENTS + self.ready_for_ranks() {
                return;
            }
            let Some(segment) = self.segments.oldest_undrained() else { return };
            if !self.knows_lines_of(segment) {
                return;
            }
            let is_open = self.segments.get(segment).state() == State::Open;
            if is_open && !self.close(segment) {
                return;
            }
            self.segments.begin_draining(segment);
            self.drain = Some(Drain {
                segment,
                phase: Phase::Waiting,
                attempt: self.drain_attempts,
                under_way: 0,
                has_kept: false,
            });
            self.has_changed = true;
        }
        self.collect();
        self.go_on_moving();
    }

    /// Whether the index knows all lines of a segment. If not, loads a part of them; or all, if no I/O is in flight
    /// whose completion would continue this.
    fn knows_lines_of(&mut self, segment: u32) -> bool {
        let mut has_loaded = self.load_one_of(segment);
        while has_loaded && self.ios.is_empty() {
            has_loaded = self.load_one_of(segment);
        }
        !has_loaded
    }

    /// Seals an open segment, unless a batch is in flight to it.
    fn close(&mut self, segment: u32) -> bool {
        let is_still = self.segments.get(segment).is_still();
        if is_still {
            self.segments.seal(segment);
            for lane in &mut self.appender.lanes {
                lane.open = lane.open.filter(|&open| open != segment);
            }
        }
        is_still
    }

    fn collect(&mut self) {
        let Some(Drain { segment, phase: Phase::Waiting, has_kept, .. }) = &self.drain else {
            return;
        };
        let (segment, has_kept) = (*segment, *has_kept);
        let one = self.segments.get(segment);
        if !one.is_still() {
            return;
        }
        let found = self.found_in(segment, one.lines());
        if found.iter().any(|one| one.extent.is_dirty && self.is_moving(one)) {
            return;
        }
        // Kept data always finds room, because client writes leave this number of segments.
        let may_keep = !has_kept && self.segments.ready() >= self.ready_to_keep();
        let kept = if may_keep { self.choose_kept(&found) } else { Vec::new() };
        self.drain_attempts += 1;
        self.drain.as_mut().expect("it waits").attempt = self.drain_attempts;
        let is_kept = |one: &Found| kept.binary_search_by_key(&one.span, |kept| kept.span).is_ok();
        let dirty: Vec<Found> =
            found.into_iter().filter(|one| one.extent.is_dirty && !is_kept(one)).collect();
        self.mark_busy(&dirty);
        self.read_drained(dirty, kept);
    }

    /// Reads data that is not in memory, in device order.
    fn read_drained(&mut self, dirty: Vec<Found>, kept: Vec<Found>) {
        let (mut read, mut unread) = (Vec::new(), Vec::new());
        for one in dirty.into_iter().chain(kept.iter().copied()) {
            match self.buffer.take(one.span, one.extent.location) {
                Some(data) => read.push((one, data)),
                None => unread.push(one),
            }
        }
        let attempt = self.drain_attempts;
        let outstanding = self.read_for_core(unread, |found| Purpose::DrainRead { found, attempt });
        self.drain_under_way(i32::try_from(outstanding).expect("reads of a segment"));
        self.set_phase(Phase::Reading { outstanding, read, kept });
        self.move_when_read();
    }

    pub(super) fn drain_read_ended(&mut self, found: Vec<Found>, of: u64, data: Option<&Data>) {
        self.drain_under_way(-1);
        let (outstanding, read) =
            match &mut self.drain {
                Some(Drain {
                    phase: Phase::Reading { outstanding, read, .. }, attempt, ..
                }) if *attempt == of => (outstanding, read),
                // Another read of this attempt has failed.
                _ => return self.no_longer_busy(&found),
            };
        *outstanding -= 1;
        let Some(data) = data else {
            let read = std::mem::take(read);
            read.iter().for_each(|(one, _)| self.no_longer_busy(std::slice::from_ref(one)));
            self.no_longer_busy(&found);
            return self.set_phase(Phase::Stuck);
        };
        let mut at = 0;
        for one in found {
            let end = at + one.span.bytes();
            read.push((one, data.slice(at..end)));
            at = end;
        }
        self.move_when_read();
    }

    fn move_when_read(&mut self) {
        let Some(Drain { phase: Phase::Reading { outstanding: 0, read, kept }, has_kept, .. }) =
            &mut self.drain
        else {
            return;
        };
        let (read, kept) = (std::mem::take(read), std::mem::take(kept));
        *has_kept = true;
        let is_kept = |one: &Found| kept.binary_search_by_key(&one.span, |kept| kept.span).is_ok();
        let (copied, destaged): (Vec<_>, Vec<_>) =
            read.into_iter().partition(|(one, _)| is_kept(one));
        let copies = copied.len();
        for (one, data) in copied {
            // A clean record that replaces a dirty one must be true after a crash too: data that no flush of the core
            // covers yet stays dirty.
            let is_dirty =
                one.extent.is_dirty || (one.extent.was_dirty && !self.is_durable_on_core(&one));
            let lane = self.lane_of(is_dirty);
            let source = Source::Kept {
                location: one.extent.location,
                is_dirty,
                attempt: self.drain_attempts,
            };
            let (span, class, data) = (one.span, one.extent.class, Some(data));
            self.appender.push_first(lane, Pending { span, data, source, class });
            self.drain_under_way(1);
        }
        let queue = Queue::new(runs_of(destaged));
        self.set_phase(Phase::Moving { destages: 0, copies, queue });
        self.go_on_moving();
    }

    /// Destages as much as may be in flight at a time.
    fn go_on_moving(&mut self) {
        // Called in each turn, and mostly without anything to move.
        if !matches!(self.drain, Some(Drain { phase: Phase::Moving { .. }, .. })) {
            return;
        }
        let (allowed, mover) =
            (self.yielding.allowed(self.is_drain_wanted()), Mover::Drain(self.drain_attempts));
        while let Some(Drain { phase: Phase::Moving { destages, queue, .. }, .. }) = &mut self.drain
            && *destages < allowed
            && let Some(run) = queue.next_run()
        {
            let begun = self.destage(run, mover);
            if let Some(Drain { phase: Phase::Moving { destages, .. }, .. }) = &mut self.drain {
                *destages += begun;
            }
            self.drain_under_way(i32::try_from(begun).expect("writes of a run"));
        }
        self.flush_when_moved();
    }

    /// Removes queued data of `span` from the drain, so that it stays dirty: it is being written around, or becomes
    /// void.
    pub(super) fn give_way_to(&mut self, span: Span) {
        if let Some(Drain { phase: Phase::Moving { queue, .. }, .. }) = &mut self.drain {
            let taken = queue.take(span);
            if !taken.is_empty() {
                self.no_longer_busy(&taken);
            }
        }
    }

    /// A write to a core has ended.
    pub(super) fn drain_write_ended(&mut self, of: u64, is_well: bool) {
        self.drain_under_way(-1);
        match &mut self.drain {
            Some(Drain { phase: Phase::Moving { destages, queue, .. }, attempt, .. })
                if *attempt == of =>
            {
                *destages -= 1;
                if !is_well {
                    // Completed and running destages of this attempt still count.
                    let left = queue.take_all();
                    self.no_longer_busy(&left);
                    return self.set_phase(Phase::Stuck);
                }
            }
            _ => return,
        }
        self.yielding.destage_ends();
        self.go_on_moving();
    }

    /// A copy of kept data has ended, successfully or not.
    pub(super) fn kept_ended(&mut self, of: u64) {
        self.drain_under_way(-1);
        if let Some(Drain { phase: Phase::Moving { copies, .. }, attempt, .. }) = &mut self.drain
            && *attempt == of
        {
            *copies -= 1;
            self.flush_when_moved();
        }
    }

    /// Makes destaged data durable on the cores, of this segment and of others.
    fn flush_when_moved(&mut self) {
        let Some(Drain { phase: Phase::Moving { destages: 0, copies: 0, queue }, .. }) =
            &self.drain
        else {
            return;
        };
        if !queue.is_empty() {
            return;
        }
        let mut outstanding = 0;
        for number in 0..self.cores.len() {
            let covers = self.cores[number];
            if covers.destages > covers.destages_flushed {
                let core = u16::try_from(number).ok().and_then(CoreId::new).expect("a core");
                let io = DeviceIo::Flush { target: Target::Core(core) };
                self.issue(io, Purpose::Flush { core, covers, request: None });
                self.drain_under_way(1);
                outstanding += 1;
            }
        }
        self.set_phase(Phase::Flushing { outstanding });
        self.end_when_flushed();
    }

    pub(super) fn drain_flush_ended(&mut self, is_well: bool) {
        self.drain_under_way(-1);
        let Some(Drain { phase: Phase::Flushing { outstanding }, .. }) = &mut self.drain else {
            return;
        };
        *outstanding -= 1;
        if is_well {
            self.end_when_flushed();
        } else {
            self.set_phase(Phase::Stuck);
        }
    }

    fn end_when_flushed(&mut self) {
        let Some(Drain { segment, phase: Phase::Flushing { outstanding: 0 }, .. }) = &self.drain
        else {
            return;
        };
        let segment = *segment;
        let found = self.found_in(segment, self.segments.get(segment).lines());
        let is_still = self.segments.get(segment).is_still();
        if !is_still || found.iter().any(|one| one.extent.is_dirty || one.extent.is_busy) {
            // A copy has failed, or a batch in flight may still fail and bring data back into force.
            return self.set_phase(Phase::Waiting);
        }
        self.segments.end_draining(segment);
        self.drain = None;
        self.has_changed = true;
    }

    /// Retries as soon as nothing of the failed attempt is in flight.
    pub(super) fn retry_draining(&mut self) {
        if self.drain.as_ref().is_some_and(Drain::waits_for_retry) {
            self.set_phase(Phase::Waiting);
        }
    }

    fn drain_under_way(&mut self, more: i32) {
        let drain = self.drain.as_mut().expect("it lasts as long as anything of it is under way");
        drain.under_way = drain.under_way.checked_add_signed(more).expect("begun before");
    }

    fn set_phase(&mut self, phase: Phase) {
        self.drain.as_mut().expect("a segment drains").phase = phase;
        self.has_changed = true;
    }

    /// Whether a request waits for the end of a drain.
    fn is_drain_wanted(&self) -> bool {
        !self.cleanings.is_empty() || !self.held_writes.is_empty() || self.lacks_room()
    }

    /// Whether client data finds no room.
    fn lacks_room(&self) -> bool {
        let waits = |source: Source| !matches!(source, Source::Kept { .. });
        self.segments.ready() <= RESERVED_SEGMENTS
            && self.appender.lanes.iter().any(|lane| {
                lane.open.is_none() && lane.pending.back().is_some_and(|last| waits(last.source))
            })
    }
}
