//! Imitates Open CAS, for comparison. Based on its documents and its observed behaviour.
//!
//! ```text
//!  ├─ collision table: pages of records, one for each line ─┤ ─ ├─ line ─┬─ line ─┬─ line ─┬ ─ ─
//! ```
//!
//! - Lines of 4 to 64 KiB. A table on the device has a record for each line, with a valid and a dirty bit for each
//!   sector of 512 bytes. A write writes the data, and then, if a sector was not dirty before, the page of 4 KiB that
//!   contains the record: so the first write of 4 KiB costs twice its size.
//! - Free, clean and dirty lines are in 32 lists each, in two zones. Only clean lines are evicted. If there are too
//!   few, the request goes to the core instead, its cached data becomes void, and 32 lines are cleaned for later
//!   requests.
//! - A crash loses clean data, and the order of use. An orderly stop writes the whole table, and loses only that
//!   order.
//!
//! With a log in front of the table ([`journal`](self), [`OcfVersion::Wal`]) a change is an entry there, together with
//! others, and pages are written when the log is reused.
//!
//! Two of its versions differ in the size of a record, and in how lines are distributed over the lists
//! ([`OcfVersion`]). Differences from Open CAS: sectors of the table have checksums ([`table`](self)); several changes
//! of the same page share one write of it; read requests take dirty data from the cache and leave it dirty.
//!
//! *Always:* the table on the device calls a sector dirty only if its data is there, and clean only if the core has it
//! durably. A line gets another owner only when the table no longer calls it dirty.
//!
//! [`OcfLayout`] has these parts: `cache_lines` (whose each line is; below it `table`, `lines`, `lists`, `locks`),
//! `table_writer` (which records it on the device; below it `pages`, `journal`, `stop`), and what requests do with
//! both: `serving`, `changing` (`change`) and `cleaning` (`cleaner`, `destages`). A start reads the table with
//! [`OcfRecovery`].

mod bits;
mod cache_lines;
mod change;
mod changing;
mod cleaner;
mod cleaning;
mod destages;
mod dirty_lines;
mod geometry;
mod journal;
mod lines;
mod lists;
mod locks;
mod pages;
mod purpose;
mod recovery;
mod serving;
mod stop;
mod superblock;
mod table;
mod table_writer;
mod version;

use std::collections::BTreeSet;

use slab::Slab;

use super::io_queue::IoQueue;
use super::requests::Requests;
use super::{
    ClassId, CoreId, DeviceIo, Ending, IoId, Layout, LayoutRequest, Outcome, Piece, Refusal,
    RequestId, Shares, ShutdownState, Span, Usage,
};
use cache_lines::CacheLines;
use change::LineChange;
use cleaner::LineCleaning;
use destages::Destage;
pub use geometry::{Geometry, OcfOptions};
use journal::Journal;
use purpose::OcfPurpose;
pub use recovery::{OcfRecovery, RecoveredLines, RecoveryRead};
pub use superblock::OcfSuperblock;
use table::{CORE_LINE_BITS, Table};
use table_writer::TableWriter;
pub use version::OcfVersion;

/// A cache of lines like Open CAS: see the [module](self).
#[derive(Debug)]
pub struct OcfLayout {
    lines: CacheLines,
    writer: TableWriter,
    requests: Requests,
    ios: IoQueue<OcfPurpose>,
    /// Requests that wait until lines may be changed.
    waiting: Vec<(ClassId, RequestId, LayoutRequest)>,
    changes: Slab<LineChange>,
    cleanings: Slab<LineCleaning>,
    destages: Vec<Destage>,
    /// The cleaning for a request that found no clean line.
    makes_room: Option<usize>,
    wants_room: Option<ClassId>,
    /// Writes that found too few lines and went to the core instead.
    writes_around: u64,
    /// Cores that were written.
    cores: BTreeSet<CoreId>,
    /// The table on the device is complete.
    is_prepared: bool,
}

impl OcfLayout {
    /// An empty cache with `geometry`, whose table is zeros, and the UUID of its label.
    pub fn new(geometry: Geometry, uuid: [u8; 16]) -> Self {
        let journal = geometry.version.has_journal().then(|| Journal::new(&geometry, uuid));
        let mut lines = CacheLines::new(geometry, Table::new(&geometry, uuid));
        lines.fill_free_lists();
        Self::of(lines, TableWriter::new(journal))
    }

    /// A layout of these lines.
    fn of(lines: CacheLines, writer: TableWriter) -> Self {
        Self {
            lines,
            writer,
            requests: Requests::default(),
            ios: IoQueue::default(),
            waiting: Vec::new(),
            changes: Slab::new(),
            cleanings: Slab::new(),
            destages: Vec::new(),
            makes_room: None,
            wants_room: None,
            writes_around: 0,
            cores: BTreeSet::new(),
            is_prepared: false,
        }
    }

    fn check(&self, request: &LayoutRequest) {
        let Some(span) = request.span() else { return };
        let block = u64::from(self.lines.geometry().block_bytes);
        let is_whole =
            span.offset().is_multiple_of(block) && (span.bytes() as u64).is_multiple_of(block);
        assert!(span.sectors > 0 && is_whole, "{span:?} is not whole blocks of {block} bytes");
        let last_line = (span.end() - 1) / u64::from(self.lines.geometry().line_sectors());
        assert!(last_line < 1 << CORE_LINE_BITS, "{span:?} is beyond 2^46 lines");
        if let LayoutRequest::Write { data, .. }
        | LayoutRequest::InsertClean { data, .. }
        | LayoutRequest::Bypass { data, .. } = request
        {
            assert_eq!(data.len(), span.bytes(), "data of {span:?}");
        }
    }

    /// Begins a request. `false`: it has to wait for lines.
    fn begin(&mut self, class: ClassId, id: RequestId, request: &LayoutRequest) -> bool {
        match request {
            LayoutRequest::Write { span, data } => self.write(class, id, *span, data),
            LayoutRequest::Bypass { span, data, durable } => self.bypass(id, *span, data, *durable),
            LayoutRequest::Discard { span } => self.discard(id, *span),
            LayoutRequest::Read { span } => {
                self.read(id, *span, Some(class));
                true
            }
            LayoutRequest::PassThroughRead { span } => {
                self.read(id, *span, None);
                true
            }
            // When it ends, the pages of the table say so, as a settling requires.
            LayoutRequest::Destage { span } | LayoutRequest::Settle { span } => {
                self.destage(id, *span);
                true
            }
            LayoutRequest::InsertClean { span, data } => {
                self.insert_clean(class, id, *span, data);
                true
            }
            LayoutRequest::Flush => {
                self.flush(id);
                true
            }
            LayoutRequest::PrepareStop => {
                self.prepare_stop(id);
                true
            }
        }
    }

    fn begin_waiting(&mut self) {
        for (class, id, request) in std::mem::take(&mut self.waiting) {
            if self.begin(class, id, &request) {
                self.requests.end_part(id, true);
                self.ios.note_change();
            } else {
                self.waiting.push((class, id, request));
            }
        }
    }
}

impl Layout for OcfLayout {
    /// # Panics
    /// If the request does not begin and end at a block of the cache device, or if its data has another length.
    fn submit_of(&mut self, class: ClassId, id: RequestId, request: LayoutRequest) {
        self.check(&request);
        self.requests.begin(id);
        if self.begin(class, id, &request) {
            self.requests.end_part(id, true);
        } else {
            self.waiting.push((class, id, request));
        }
    }

    fn completed(&mut self, io: IoId, outcome: Outcome) {
        let is_well = !matches!(outcome, Outcome::Failed);
        match self.ios.ended(io) {
            OcfPurpose::Read { request, lines } => self.read_ended(request, lines, is_well),
            OcfPurpose::Change { number } => self.change_went_on(number, is_well),
            OcfPurpose::Pages { pages } => {
                let waiters = self.writer.pages_written(pages, is_well);
                self.hear_all(waiters, is_well);
            }
            OcfPurpose::Journal { lines } => {
                let waiters = self.writer.journal_written(&lines, is_well);
                self.hear_all(waiters, is_well);
            }
            OcfPurpose::Copy => self.writer.copy_went_on(is_well, &mut self.ios),
            OcfPurpose::Stop => self.stopping_went_on(is_well),
            OcfPurpose::Cleaning { number, first } => match outcome {
                Outcome::Read(data) => self.cleaning_read(number, first, &data),
                _ => self.cleaning_went_on(number, is_well),
            },
            OcfPurpose::Flush { request } => self.requests.end_part(request, is_well),
        }
    }

    fn ended(&mut self, ended: &mut Vec<(RequestId, Ending)>) {
        self.requests.take_ended(ended);
    }

    fn turn(&mut self, ios: &mut Vec<(IoId, DeviceIo)>) {
        loop {
            self.ios.take_change();
            self.begin_waiting();
            self.go_on_destaging();
            self.make_room();
            let refused = self.writer.write_due(&mut self.lines, &mut self.ios);
            if !refused.is_empty() {
                self.hear_all(refused, false);
            }
            if !self.ios.take_change() {
                break;
            }
        }
        self.ios.take_issued(ios);
    }

    fn core_was_written(&mut self, core: CoreId) {
        self.cores.insert(core);
    }

    fn core_is_gone(&mut self, core: CoreId) {
        self.cores.remove(&core);
    }

    fn left(&self) -> Option<ShutdownState> {
        self.how_left()
    }

    /// Rewrites the pages of the table that could not be written. A later request that needs room retries the
    /// cleaning.
    fn retry(&mut self) {
        self.writer.retry();
    }

    fn lookup(&mut self, span: Span, pieces: &mut Vec<Piece>) {
        let known = self.lines.pieces(span).into_iter();
        pieces.extend(known.map(|(span, _, state)| Piece { span, state }));
    }

    fn dirty_after(&self, core: CoreId, sector: u64) -> Option<Span> {
        self.lines.dirty_run(core, sector)
    }

    fn usage(&self) -> Usage {
        self.lines.usage()
    }

    fn dirty_sectors(&self, core: CoreId) -> u64 {
        self.lines.dirty_sectors(core)
    }

    fn set_shares(&mut self, shares: Shares) {
        self.lines.set_shares(shares);
    }

    fn refuses(&self, class: ClassId, sectors: u32) -> Option<Refusal> {
        self.lines.refused(class, u64::from(sectors.div_ceil(self.lines.geometry().line_sectors())))
    }

    /// Writes that found too few lines.
    fn writes_around(&self) -> u64 {
        self.writes_around
    }

    fn occupied_sectors(&self, class: ClassId) -> u64 {
        self.lines.class_sectors(class)
    }

    fn memory_bytes(&self) -> usize {
        self.lines.memory_bytes()
    }
}
