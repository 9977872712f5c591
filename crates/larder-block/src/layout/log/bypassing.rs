//! Writes around, discards and flushes.
//!
//! A write around must not be reordered with destages of the same sectors. It waits until no destage of them is in
//! flight, and while it is in flight none begins. A record makes the cached data of its sectors void. A crash may
//! interrupt the sequence anywhere, so its order depends on the data:
//!
//! - Clean data becomes void before the core is written. Otherwise a start would find the stale data, and reads would
//!   change when it is evicted later. Before that, the data is made durable on the core.
//! - Dirty data becomes void after the core was written durably, because the dirty data was durable.

use super::appender::{DIRTY_LANE, Pending, Source};
use super::index::gaps;
use super::state::{CoreState, LogLayout, Purpose};
use super::waiting::Waiting;
use crate::layout::line::by_line;
use crate::layout::{Class, ClassId, CoreId, Data, DeviceIo, Request, RequestId, Span, Target};

impl LogLayout {
    /// Begins a write around or a discard, or lets it wait. It counts as a part of its request until it has begun.
    pub(super) fn void_or_wait(&mut self, id: RequestId, request: Request) {
        self.requests.add_part(id);
        self.waiting.push(Waiting { id, request, before: None, has_failed: false });
        self.has_changed = true;
    }

    /// Begins all that can begin now.
    pub(super) fn begin_waiting(&mut self) {
        for mut one in std::mem::take(&mut self.waiting) {
            match self.begin_voiding(&mut one) {
                Some(is_well) => {
                    self.requests.end_part(one.id, is_well);
                    self.has_changed = true;
                }
                None => self.waiting.push(one),
            }
        }
    }

    /// Whether it has begun successfully; `None` if it has to wait.
    fn begin_voiding(&mut self, one: &mut Waiting) -> Option<bool> {
        let span = one.request.span()?;
        self.give_way_to(span);
        // Data that a draining segment reads will soon be destaged.
        let is_leaving =
            self.leaving.has(span) || self.find(span).iter().any(|found| found.extent.is_busy);
        if is_leaving || one.before.is_some_and(|count| count > 0) {
            return None;
        }
        if one.has_failed {
            return Some(false);
        }
        self.buffer.forget(span, self.geometry.line_sectors());
        let Request::Bypass { data, durable, .. } = &one.request else {
            let known: Vec<Span> = if self.may_come_back() {
                vec![span]
            } else {
                self.find_recorded(span).iter().map(|found| found.span).collect()
            };
            for part in known {
                self.void(part, Source::Void { request: one.id });
            }
            return Some(true);
        };
        // Dirty data may have been destaged in the meantime, so that it is now clean.
        let may_come_back = one.before.is_none() && self.may_come_back();
        // Evicted data would come back too.
        if may_come_back || self.find_recorded(span).iter().any(|found| !found.extent.is_dirty) {
            let count = self.prepare(one.id, span);
            one.before = Some(count);
            if count > 0 {
                return None;
            }
        }
        let covers_dirty = self.find(span).iter().any(|found| found.extent.is_dirty);
        self.write_around(one.id, span, data, *durable || covers_dirty);
        Some(true)
    }

    /// Whether a crash could bring back data that the index no longer knows.
    fn may_come_back(&self) -> bool {
        self.appender.is_frozen() || self.segments.has_unstated()
    }

    /// Issues a flush if clean data may be lost from the core with its power, and after that the records. Returns the
    /// number of operations to wait for.
    fn prepare(&mut self, id: RequestId, span: Span) -> u32 {
        let covers = *self.core(span.core);
        if covers.destages > covers.destages_flushed {
            let io = DeviceIo::Flush { target: Target::Core(span.core) };
            self.issue(io, Purpose::FlushBefore { core: span.core, covers, request: id });
            return 1;
        }
        let dirty: Vec<_> =
            self.find(span).into_iter().filter(|found| found.extent.is_dirty).collect();
        let clean = gaps(span, &dirty);
        clean.into_iter().map(|part| self.void(part, Source::VoidBefore { request: id })).sum()
    }

    /// An operation that must end before the core is written has ended.
    pub(super) fn prepared(&mut self, id: RequestId, is_well: bool, is_flush: bool) {
        let number = self.waiting.iter().position(|one| one.id == id).expect("it waits");
        self.has_changed = true;
        let one = &mut self.waiting[number];
        one.before = match one.before {
            // The records come next.
            Some(_) if is_flush => None,
            Some(count) => Some(count - 1),
            None => None,
        };
        one.has_failed |= !is_well;
    }

    fn write_around(&mut self, request: RequestId, span: Span, data: &Data, durable: bool) {
        self.requests.add_part(request);
        self.leaving.add(span);
        self.yielding.around_begins();
        let io = DeviceIo::Write {
            target: Target::Core(span.core),
            offset: span.offset(),
            parts: vec![data.clone()],
            beside: None,
            class: Class::Clean,
            metadata_bytes: 0,
            durable,
        };
        self.issue(io, Purpose::Bypass { request, span, durable });
    }

    pub(super) fn bypass_ended(
        &mut self,
        request: RequestId,
        span: Span,
        durable: bool,
        is_well: bool,
    ) {
        self.leaving.remove(span);
        self.yielding.around_ends();
        // What a failed write has left on the core is unknown.
        self.core(span.core).bypasses += u64::from(!(durable && is_well));
        self.has_changed = true;
        if is_well {
            let dirty = self.find(span).into_iter().filter(|found| found.extent.is_dirty);
            for found in dirty.collect::<Vec<_>>() {
                self.void(found.span, Source::Void { request });
            }
        }
        self.requests.end_part(request, is_well);
    }

    /// Appends records that make `span` void. From now on none of it may be destaged. Returns the number of records.
    fn void(&mut self, span: Span, source: Source) -> u32 {
        let mut records = 0;
        for part in by_line(span, self.geometry.line_sectors()) {
            self.index.replace(part, None, &mut Vec::new());
            if let Source::Void { request } = source {
                self.requests.add_part(request);
            }
            let class = ClassId::UNCLASSIFIED;
            self.appender.push(DIRTY_LANE, Pending { span: part, data: None, source, class });
            records += 1;
        }
        self.has_changed = true;
        records
    }

    /// Flushes cores with non-durable writes around. All other completed requests are durable already.
    pub(super) fn flush(&mut self, request: RequestId) {
        for number in 0..self.cores.len() {
            let covers = self.cores[number];
            if covers.bypasses > covers.bypasses_flushed {
                let core = u16::try_from(number).ok().and_then(CoreId::new).expect("a core");
                self.requests.add_part(request);
                let io = DeviceIo::Flush { target: Target::Core(core) };
                self.issue(io, Purpose::Flush { core, covers, request: Some(request) });
            }
        }
    }

    pub(super) fn flush_ended(&mut self, core: CoreId, covers: CoreState, is_well: bool) {
        if is_well {
            let state = self.core(core);
            state.bypasses_flushed = state.bypasses_flushed.max(covers.bypasses);
            state.destages_flushed = state.destages_flushed.max(covers.destages);
        }
    }
}
