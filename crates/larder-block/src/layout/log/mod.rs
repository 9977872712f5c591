//! The default layout: a log of segments, in which a record is written in the same device write as its data.
//!
//! ```text
//!  segment ├─ header ─┬─ data ─┬─ data ─┬─ header ─┬─ data ─┬ ─ ─ ─ ─ ┬─ footer ─┤
//!          └────────── batch ───────────┘└──── batch ───────┘
//! ```
//!
//! - Pending records are written as one batch with one header: blocks of 512 bytes if the device has them, else of 4
//!   KiB ([`batch`](self)); none if the device keeps metadata per block, which then holds the header. While a batch is
//!   in flight, small ones wait for more records.
//! - A segment ends with a footer, in the device write of its last batch, so that a start reads it whole with one
//!   read.
//! - Dirty data is overwritten in place if the device writes sectors atomically and a durable header says that the
//!   batch was complete. A log that only appends destages five times as much under skewed writes.
//! - Segments are drained in the order in which they were opened. Dirty data is destaged in sorted runs, data with
//!   hits is kept within a budget, and the rest is clean and serves reads until the segment is filled again.
//! - Stream data is destaged from memory, unless it was cached before: then it will probably be written again.
//!
//! *Always:* of two records of a sector the one with the higher sequence counts, and outlives the other. A copy never
//! gets a higher sequence than a record that replaced its original. Nothing is acknowledged before its batch and all
//! earlier ones are durable. A segment is filled again only when the core durably has its dirty data.
//!
//! The layout has two halves. The `RecordLog` is the log itself: `segments`, the `index`, the `appender` and what is
//! written. [`LogLayout`] decides above it, with a part for each concern:
//!
//! ```text
//!   serving (reads, writes, writes around, flushes, a stop)     appending (batches, and how they have ended)
//!   draining (drain, yielding)   cleaning (range_cleaning)      classes (eviction, oldest_dirty)
//!   destaging (write_buffer, leaving)   cores (what is durable there)
//!  ─────────────────────────────────────────────────────────────────────────────────────────────────────────
//!   record_log     index     segments (written)     appender     grace     unloaded
//! ```
//!
//! `waiting` has the requests that cannot begin yet, `purpose` what each I/O is for. A start reads the log with
//! [`LogRecovery`] (`recovery`, `filling`, `gaps`, `verifying`, `blocks`). Formats: `batch`, `short_header`,
//! `metadata_header`, `footer`, `record`, `superblock`; `geometry` has the sizes, `fuzzing` what a fuzzer calls.

mod appender;
mod appending;
mod batch;
mod blocks;
mod classes;
mod cleaning;
mod cores;
mod destaging;
mod drain;
mod draining;
mod eviction;
mod filling;
mod footer;
#[doc(hidden)]
pub mod fuzzing;
mod gaps;
mod geometry;
mod grace;
mod index;
mod leaving;
mod metadata_header;
mod oldest_dirty;
mod purpose;
mod range_cleaning;
mod record;
mod record_log;
mod recovery;
mod segments;
mod serving;
mod short_header;
mod superblock;
mod unloaded;
mod verifying;
mod waiting;
mod write_buffer;
mod written;
mod yielding;

use larder_device::DeviceInfo;

use super::io_queue::IoQueue;
use super::requests::Requests;
use super::{
    ClassId, CoreId, DeviceIo, Ending, IoId, Layout, LayoutRequest, Outcome, Piece, PieceState,
    Refusal, RequestId, Room, Shares, ShutdownState, Span, Usage,
};
use crate::streams::Streams;
use classes::Classes;
use cores::{CoreWrites, WriteCounts};
use destaging::Destaging;
use drain::Draining;
pub use geometry::{Geometry, LoadOptions, LogOptions, SEGMENTS_MIN};
use oldest_dirty::OldestDirty;
use purpose::LogPurpose;
use range_cleaning::Cleanings;
pub use record_log::LogIdentity;
use record_log::RecordLog;
pub use recovery::{LogRecovery, RecoveredLog, RecoveryRead};
pub use superblock::LogSuperblock;
use waiting::{HeldWrite, Waiting};

/// Number of runs of writes that are remembered.
const STREAMS: usize = 128;

/// A log of segments: see the [module](self).
#[derive(Debug)]
pub struct LogLayout {
    log: RecordLog,
    requests: Requests,
    ios: IoQueue<LogPurpose>,
    cores: CoreWrites,
    classes: Classes,
    oldest_dirty: OldestDirty,
    destaging: Destaging,
    draining: Draining,
    cleanings: Cleanings,
    streams: Streams,
    /// Requests that wait until they may make data void.
    waiting: Vec<Waiting>,
    /// Writes that wait until a header states that the data that they overwrite is complete.
    held_writes: Vec<HeldWrite>,
    /// A stop has ensured that a start finds the data in drained segments.
    is_prepared: bool,
}

impl LogLayout {
    /// An empty log with `geometry`, on the device described by `info`.
    pub fn new(
        geometry: Geometry,
        identity: LogIdentity,
        info: &DeviceInfo,
        options: &LogOptions,
    ) -> Self {
        let log = RecordLog::new(geometry, identity, geometry.overwrite_align(info, options));
        Self::of(log, options)
    }

    /// A layout on a log.
    fn of(log: RecordLog, options: &LogOptions) -> Self {
        let geometry = *log.geometry();
        let kept_percent = u64::from(options.reinsert_percent.min(50));
        let kept_bytes = u64::from(geometry.segment_bytes) * kept_percent / 100;
        let kept_bytes = usize::try_from(kept_bytes).expect("half of a segment");
        Self {
            log,
            requests: Requests::default(),
            ios: IoQueue::default(),
            cores: CoreWrites::default(),
            classes: Classes::new(kept_bytes, geometry.segments),
            oldest_dirty: OldestDirty::default(),
            destaging: Destaging::new(options.write_buffer_bytes, geometry.line_sectors()),
            draining: Draining::default(),
            cleanings: Cleanings::default(),
            streams: Streams::remembering(STREAMS),
            waiting: Vec::new(),
            held_writes: Vec::new(),
            is_prepared: false,
        }
    }

    fn check(&self, request: &LayoutRequest) {
        let Some(span) = request.span() else { return };
        let block = u64::from(self.log.geometry().block_bytes);
        let is_whole =
            span.offset().is_multiple_of(block) && (span.bytes() as u64).is_multiple_of(block);
        assert!(span.sectors > 0 && is_whole, "{span:?} is not whole blocks of {block} bytes");
        if let LayoutRequest::Write { data, .. }
        | LayoutRequest::InsertClean { data, .. }
        | LayoutRequest::Bypass { data, .. } = request
        {
            assert_eq!(data.len(), span.bytes(), "data of {span:?}");
        }
    }

    fn flush_ended(&mut self, (core, covers): (CoreId, WriteCounts), is_well: bool) {
        if is_well {
            self.cores.flushed(core, covers);
        }
    }
}

impl Layout for LogLayout {
    /// # Panics
    /// If the request does not begin and end at a block of the cache device, or if its data has another length.
    fn submit_of(&mut self, class: ClassId, id: RequestId, request: LayoutRequest) {
        self.check(&request);
        self.requests.begin(id);
        if let Some(span) = request.span() {
            self.log.load(span);
        }
        match request {
            LayoutRequest::Read { span } => self.read(id, span, Some(class)),
            LayoutRequest::PassThroughRead { span } => self.read(id, span, None),
            LayoutRequest::Destage { span } => self.clean(id, span, false),
            LayoutRequest::Settle { span } => self.clean(id, span, true),
            LayoutRequest::Write { span, data } => self.write(class, id, span, &data),
            LayoutRequest::InsertClean { span, data } => self.insert_clean(class, id, span, &data),
            LayoutRequest::Bypass { .. } | LayoutRequest::Discard { .. } => {
                self.void_or_wait(id, request)
            }
            LayoutRequest::Flush => self.flush(id),
            LayoutRequest::PrepareStop => self.prepare_stop(id),
        }
        self.classes.shrink_lowered(&mut self.log);
        self.requests.end_part(id, true);
    }

    fn completed(&mut self, io: IoId, outcome: Outcome) {
        let is_well = !matches!(outcome, Outcome::Failed);
        match self.ios.ended(io) {
            LogPurpose::Read { request, segment } => self.read_ended(request, segment, is_well),
            LogPurpose::Overwrite { request, segment, phase } => {
                self.overwrite_ended(request, (segment, phase), is_well)
            }
            LogPurpose::Append { sequence } => self.append_ended(sequence, is_well),
            LogPurpose::DrainRead { found, attempt } => {
                let data = if let Outcome::Read(data) = &outcome { Some(data) } else { None };
                self.drain_read_ended(found, attempt, data);
            }
            LogPurpose::CleaningRead { found, request } => {
                let data = if let Outcome::Read(data) = &outcome { Some(data) } else { None };
                self.cleaning_read_ended(found, request, data);
            }
            LogPurpose::Destage { found, mover } => self.destage_ended(&found, mover, is_well),
            LogPurpose::Bypass { request, span, durable } => {
                self.bypass_ended(request, span, durable, is_well)
            }
            LogPurpose::FlushBefore { core, covers, request } => {
                self.flush_ended((core, covers), is_well);
                self.prepared(request, is_well, true);
            }
            LogPurpose::FlushCleaned { core, covers, request } => {
                self.flush_ended((core, covers), is_well);
                self.cleaning_io_ended(request, is_well);
            }
            LogPurpose::Flush { core, covers, request } => {
                self.flush_ended((core, covers), is_well);
                match request {
                    Some(request) => self.requests.end_part(request, is_well),
                    None => self.drain_flush_ended(is_well),
                }
            }
        }
    }

    fn ended(&mut self, ended: &mut Vec<(RequestId, Ending)>) {
        self.requests.take_ended(ended);
    }

    fn turn(&mut self, ios: &mut Vec<(IoId, DeviceIo)>) {
        loop {
            self.ios.take_change();
            self.begin_waiting();
            self.begin_held_writes();
            self.form_batches();
            self.destaging.write_streams(&mut self.log.index, &mut self.ios);
            self.go_on_draining();
            self.go_on_cleaning();
            if !self.ios.take_change() {
                break;
            }
        }
        self.ios.take_issued(ios);
    }

    fn core_was_written(&mut self, core: CoreId) {
        self.cores.bypassed(core);
    }

    fn core_is_gone(&mut self, core: CoreId) {
        self.cores.forget(core);
    }

    /// Stream data goes to the cores without a flush.
    fn is_on_cores(&self) -> bool {
        self.log.unloaded_parts() == 0
            && self.log.index.dirty_sectors().all() == 0
            && self.cores.with_destages().next().is_none()
    }

    fn tell_clean(&mut self) -> Option<u64> {
        self.is_on_cores().then(|| {
            self.log.segments.are_told_clean();
            self.log.appender.last_sequence()
        })
    }

    fn tell_settled(&self) -> Option<u64> {
        self.cores.unsettled().next().is_none().then(|| self.log.appender.last_sequence())
    }

    fn left(&self) -> Option<ShutdownState> {
        self.how_left()
    }

    fn dirty_when_left(&self, core: CoreId) -> u64 {
        self.log.dirty_when_left(core)
    }

    fn retry(&mut self) {
        self.retry_draining();
    }

    fn dirty_after(&self, core: CoreId, sector: u64) -> Option<Span> {
        self.log.index.first_after(core, sector, |extent| extent.is_dirty).map(|found| found.span)
    }

    fn looks_dirty_after(&self, core: CoreId, sector: u64) -> Option<Span> {
        self.log
            .index
            .first_after(core, sector, |extent| extent.looks_dirty())
            .map(|found| found.span)
    }

    fn clean_after(&self, core: CoreId, sector: u64) -> Option<(Span, u64)> {
        let found = self
            .log
            .index
            .first_after(core, sector, |extent| !extent.is_dirty && !extent.is_evicted)?;
        Some((found.span, found.extent.location))
    }

    fn lookup(&mut self, span: Span, pieces: &mut Vec<Piece>) {
        self.log.load(span);
        let mut found = self.log.take_buffer();
        self.log.index.find(span, &mut found);
        let absent = |gap: Span| Piece { span: gap, state: PieceState::Absent };
        let mut next = span.first;
        for one in found.drain(..) {
            let state = if one.extent.is_dirty { PieceState::Dirty } else { PieceState::Clean };
            pieces.extend(index::gap(span.core, next, one.span.first).map(absent));
            pieces.push(Piece { span: one.span, state });
            next = one.span.end();
        }
        pieces.extend(index::gap(span.core, next, span.end()).map(absent));
        self.log.give_back(found);
    }

    fn usage(&self) -> Usage {
        self.log.usage()
    }

    fn dirty_sectors(&self, core: CoreId) -> u64 {
        self.log.index.dirty_sectors().of(core)
    }

    fn unloaded_parts(&self) -> usize {
        self.log.unloaded_parts()
    }

    fn load_part(&mut self) {
        self.log.load_next();
    }

    fn take_loaded_dirty(&mut self) -> Vec<Span> {
        self.log.take_loaded_dirty()
    }

    fn set_shares(&mut self, shares: Shares) {
        self.classes.change_shares(&mut self.log, shares);
    }

    fn refuses(&self, class: ClassId, sectors: u32) -> Option<Refusal> {
        self.classes.refused(&self.log, class, sectors)
    }

    fn make_room(&mut self, class: ClassId, sectors: u32) -> bool {
        self.classes.make_room(&mut self.log, class, sectors)
    }

    fn take_full_of_dirty(&mut self) -> Option<ClassId> {
        self.classes.take_full_of_dirty()
    }

    fn destage_oldest(&mut self, id: RequestId, class: ClassId, sectors: u64) -> u64 {
        self.clean_oldest(id, class, sectors)
    }

    fn occupied_sectors(&self, class: ClassId) -> u64 {
        self.log.occupied_sectors(class)
    }

    fn room(&self) -> Option<Room> {
        Some(self.log.room_of_users())
    }

    fn memory_bytes(&self) -> usize {
        self.log.memory_bytes()
    }
}
