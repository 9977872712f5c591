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

mod appender;
mod batch;
mod batches;
mod blocks;
mod bypassing;
mod classes;
mod cleaning;
mod destaging;
mod drain;
mod draining;
mod evicting;
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
mod loading;
mod metadata_header;
mod oldest_dirty;
mod range_cleaning;
mod reading;
mod record;
mod recovery;
mod room;
mod segments;
mod short_header;
mod state;
mod stopping;
mod superblock;
mod unloaded;
mod verifying;
mod waiting;
mod write_buffer;
mod writing;
mod written;
mod yielding;

use larder_device::{BufferPool, DeviceInfo};
use slab::Slab;

use super::requests::Requests;
use super::{
    ClassId, CoreId, DeviceIo, Ending, IoId, Layout, Left, Outcome, Piece, PieceState, Refusal,
    Request, RequestId, Room, Shares, Span, Usage,
};
use crate::streams::Streams;
use appender::Appender;
use eviction::Evicting;
pub use geometry::{Geometry, LoadOptions, LogOptions, SEGMENTS_MIN};
use grace::Grace;
use index::Index;
use leaving::Leaving;
use range_cleaning::Markers;
pub use recovery::{LogRecovery, Recovered, RecoveryRead};
use segments::Segments;
use state::{CoreState, Policy, Purpose};
pub use state::{LogIdentity, LogLayout};
pub use superblock::LogSuperblock;
use unloaded::Unloaded;
use write_buffer::WriteBuffer;
use yielding::Yielding;

/// Capacity for I/Os of a turn that is kept between turns.
const ISSUED_KEPT: usize = 64;

impl LogLayout {
    /// An empty log with `geometry`, on the device described by `info`.
    pub fn new(
        geometry: Geometry,
        identity: LogIdentity,
        info: &DeviceInfo,
        options: &LogOptions,
    ) -> Self {
        let whole = info.atomic_write_bytes.filter(|&bytes| bytes >= options.write_unit_bytes);
        let align = options.write_unit_bytes.max(geometry.block_bytes);
        let reinsert_percent = u64::from(options.reinsert_percent.min(50));
        let reinsert_bytes = u64::from(geometry.segment_bytes) * reinsert_percent / 100;
        let policy = Policy {
            overwrite_align_bytes: whole.map(|_| align),
            reinsert_bytes: usize::try_from(reinsert_bytes).expect("half of a segment"),
        };
        Self {
            geometry,
            uuid: identity.uuid,
            epoch: identity.epoch,
            policy,
            shares: Shares::default(),
            evicting: Evicting::default(),
            has_ranks: false,
            credit_bytes: u64::MAX,
            index: Index::new(geometry.line_sectors()),
            segments: Segments::new(geometry.segments),
            appender: Appender::new(0),
            requests: Requests::default(),
            streams: Streams::remembering(writing::STREAMS),
            buffer: WriteBuffer::new(options.write_buffer_bytes),
            drain: None,
            drain_attempts: 0,
            yielding: Yielding::default(),
            leaving: Leaving::default(),
            cleanings: Vec::new(),
            markers: Markers::default(),
            cores: Vec::new(),
            waiting: Vec::new(),
            held_writes: Vec::new(),
            overwrites: 0,
            unloaded: None,
            loaded_dirty: Vec::new(),
            grace: Grace::default(),
            ios: Slab::new(),
            found: Vec::new(),
            headers: BufferPool::new(),
            issued: Vec::new(),
            is_prepared: false,
            has_changed: false,
        }
    }

    fn check(&self, request: &Request) {
        let Some(span) = request.span() else { return };
        let block = u64::from(self.geometry.block_bytes);
        let is_whole =
            span.offset().is_multiple_of(block) && (span.bytes() as u64).is_multiple_of(block);
        assert!(span.sectors > 0 && is_whole, "{span:?} is not whole blocks of {block} bytes");
        if let Request::Write { data, .. }
        | Request::InsertClean { data, .. }
        | Request::Bypass { data, .. } = request
        {
            assert_eq!(data.len(), span.bytes(), "data of {span:?}");
        }
    }
}

impl Layout for LogLayout {
    /// # Panics
    /// If the request does not begin and end at a block of the cache device, or if its data has another length.
    fn submit_of(&mut self, class: ClassId, id: RequestId, request: Request) {
        self.check(&request);
        self.requests.begin(id);
        if let Some(span) = request.span() {
            self.load(span);
        }
        match request {
            Request::Read { span } => self.read(id, span, Some(class)),
            Request::PassThroughRead { span } => self.read(id, span, None),
            Request::Destage { span } => self.clean(id, span, false),
            Request::Settle { span } => self.clean(id, span, true),
            Request::Write { span, data } => self.write(class, id, span, &data),
            Request::InsertClean { span, data } => self.insert_clean(class, id, span, &data),
            Request::Bypass { .. } | Request::Discard { .. } => self.void_or_wait(id, request),
            Request::Flush => self.flush(id),
            Request::PrepareStop => self.prepare_stop(id),
        }
        self.shrink_lowered();
        self.requests.end_part(id, true);
    }

    fn completed(&mut self, io: IoId, outcome: Outcome) {
        let is_well = !matches!(outcome, Outcome::Failed);
        match self.ios.remove(io.0) {
            Purpose::Read { request, segment } => self.read_ended(request, segment, is_well),
            Purpose::Overwrite { request, segment, phase } => {
                self.overwrite_ended(request, (segment, phase), is_well)
            }
            Purpose::Append { sequence } => self.append_ended(sequence, is_well),
            Purpose::DrainRead { found, attempt } => {
                let data = if let Outcome::Read(data) = &outcome { Some(data) } else { None };
                self.drain_read_ended(found, attempt, data);
            }
            Purpose::CleaningRead { found, request } => {
                let data = if let Outcome::Read(data) = &outcome { Some(data) } else { None };
                self.cleaning_read_ended(found, request, data);
            }
            Purpose::Destage { found, mover } => self.destage_ended(&found, mover, is_well),
            Purpose::Bypass { request, span, durable } => {
                self.bypass_ended(request, span, durable, is_well)
            }
            Purpose::FlushBefore { core, covers, request } => {
                self.flush_ended(core, covers, is_well);
                self.prepared(request, is_well, true);
            }
            Purpose::FlushCleaned { core, covers, request } => {
                self.flush_ended(core, covers, is_well);
                self.cleaning_io_ended(request, is_well);
            }
            Purpose::Flush { core, covers, request } => {
                self.flush_ended(core, covers, is_well);
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
            self.has_changed = false;
            self.begin_waiting();
            self.begin_held_writes();
            self.form_batches();
            self.destage_streams();
            self.go_on_draining();
            self.go_on_cleaning();
            if !self.has_changed {
                break;
            }
        }
        ios.append(&mut self.issued);
        // Give back the memory of a burst of destages.
        self.issued.shrink_to(ISSUED_KEPT);
    }

    fn core_was_written(&mut self, core: CoreId) {
        self.core(core).bypasses += 1;
    }

    fn core_is_gone(&mut self, core: CoreId) {
        *self.core(core) = CoreState::default();
    }

    /// Stream data goes to the cores without a flush.
    fn is_on_cores(&self) -> bool {
        let is_durable = |core: &CoreState| core.destages == core.destages_flushed;
        self.unloaded.is_none()
            && self.index.dirty_sectors().all() == 0
            && self.cores.iter().all(is_durable)
    }

    fn tell_clean(&mut self) -> Option<u64> {
        self.is_on_cores().then(|| {
            self.segments.are_told_clean();
            self.appender.last_sequence()
        })
    }

    fn tell_settled(&self) -> Option<u64> {
        self.settled_up_to()
    }

    fn left(&self) -> Option<Left> {
        self.how_left()
    }

    fn dirty_when_left(&self, core: CoreId) -> u64 {
        Self::dirty_when_left(self, core)
    }

    fn retry(&mut self) {
        self.retry_draining();
    }

    fn dirty_after(&self, core: CoreId, sector: u64) -> Option<Span> {
        self.index.first_after(core, sector, |extent| extent.is_dirty).map(|found| found.span)
    }

    fn looks_dirty_after(&self, core: CoreId, sector: u64) -> Option<Span> {
        self.index.first_after(core, sector, |extent| extent.looks_dirty()).map(|found| found.span)
    }

    fn clean_after(&self, core: CoreId, sector: u64) -> Option<(Span, u64)> {
        let found = self
            .index
            .first_after(core, sector, |extent| !extent.is_dirty && !extent.is_evicted)?;
        Some((found.span, found.extent.location))
    }

    fn lookup(&mut self, span: Span, pieces: &mut Vec<Piece>) {
        self.load(span);
        let mut found = std::mem::take(&mut self.found);
        self.index.find(span, &mut found);
        let absent = |gap: Span| Piece { span: gap, state: PieceState::Absent };
        let mut next = span.first;
        for one in found.drain(..) {
            let state = if one.extent.is_dirty { PieceState::Dirty } else { PieceState::Clean };
            pieces.extend(index::gap(span.core, next, one.span.first).map(absent));
            pieces.push(Piece { span: one.span, state });
            next = one.span.end();
        }
        pieces.extend(index::gap(span.core, next, span.end()).map(absent));
        self.found = found;
    }

    fn usage(&self) -> Usage {
        let (valid, dirty) = self.unloaded.as_ref().map_or((0, 0), Unloaded::sectors);
        Usage {
            valid_sectors: self.index.valid_sectors() + valid,
            dirty_sectors: self.index.dirty_sectors().all() + dirty,
        }
    }

    fn dirty_sectors(&self, core: CoreId) -> u64 {
        self.index.dirty_sectors().of(core)
    }

    fn unloaded_parts(&self) -> usize {
        self.unloaded.as_ref().map_or(0, Unloaded::left)
    }

    fn load_part(&mut self) {
        self.load_next();
    }

    fn take_loaded_dirty(&mut self) -> Vec<Span> {
        std::mem::take(&mut self.loaded_dirty)
    }

    fn set_shares(&mut self, shares: Shares) {
        self.change_shares(shares);
    }

    fn refuses(&self, class: ClassId, sectors: u32) -> Option<Refusal> {
        self.refused(class, sectors)
    }

    fn make_room(&mut self, class: ClassId, sectors: u32) -> bool {
        self.make_room_in(class, sectors)
    }

    fn take_full_of_dirty(&mut self) -> Option<ClassId> {
        self.evicting.take_full_of_dirty()
    }

    fn destage_oldest(&mut self, id: RequestId, class: ClassId, sectors: u64) -> u64 {
        self.clean_oldest(id, class, sectors)
    }

    fn occupied_sectors(&self, class: ClassId) -> u64 {
        let unloaded = self.unloaded.as_ref().filter(|_| class == ClassId::UNCLASSIFIED);
        self.index.class_sectors(class) + unloaded.map_or(0, |unloaded| unloaded.sectors().0)
    }

    fn room(&self) -> Option<Room> {
        Some(self.room_of_users())
    }

    fn memory_bytes(&self) -> usize {
        let unloaded = self.unloaded.as_ref().map_or(0, Unloaded::memory_bytes);
        self.index.memory_bytes() + self.segments.memory_bytes() + unloaded
    }
}
