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

mod allocating;
mod change;
mod changing;
mod classes;
mod cleaner;
mod cleaning;
mod destages;
mod destaging;
mod dirty_lines;
mod geometry;
mod journal;
mod journaling;
mod lines;
mod lists;
mod locks;
mod pages;
mod reading;
mod recovery;
mod state;
mod stop;
mod stopping;
mod superblock;
mod table;
mod version;
mod voiding;
mod writing;

use std::collections::BTreeSet;

use slab::Slab;

use super::requests::Requests;
use super::{
    ClassId, CoreId, DeviceIo, Ending, IoId, Layout, Left, Outcome, Piece, Refusal, Request,
    RequestId, Shares, Span, Usage,
};
pub use geometry::{Geometry, OcfOptions};
use journal::Journal;
use lines::Lines;
use lists::{Kind, Lists};
use locks::Locks;
use pages::Pages;
pub use recovery::{OcfRecovery, Recovered, RecoveryRead};
pub use state::OcfLayout;
use state::Purpose;
pub use superblock::OcfSuperblock;
use table::{CORE_LINE_BITS, Table};
pub use version::OcfVersion;

impl OcfLayout {
    /// An empty cache with `geometry`, whose table is zeros, and the UUID of its label.
    pub fn new(geometry: Geometry, uuid: [u8; 16]) -> Self {
        let mut layout = Self::with_table(geometry, Table::new(&geometry, uuid));
        layout.journal = geometry.version.has_journal().then(|| Journal::new(&geometry, uuid));
        layout.fill_free_lists();
        layout
    }

    /// A layout whose lines are in no list yet.
    fn with_table(geometry: Geometry, table: Table) -> Self {
        Self {
            geometry,
            lines: Lines::new(&geometry, table),
            lists: Lists::new(geometry.lines),
            shares: Shares::default(),
            class_lines: [0; ClassId::COUNT],
            locks: Locks::default(),
            pages: Pages::default(),
            journal: None,
            requests: Requests::default(),
            waiting: Vec::new(),
            changes: Slab::new(),
            cleanings: Slab::new(),
            destages: Vec::new(),
            makes_room: None,
            wants_room: None,
            next_taken: 0,
            next_cleaned: 0,
            writes_around: 0,
            cores: BTreeSet::new(),
            stopping: None,
            is_prepared: false,
            ios: Slab::new(),
            issued: Vec::new(),
            has_changed: false,
        }
    }

    /// Puts all lines that are in no list into the free lists.
    fn fill_free_lists(&mut self) {
        for line in self.geometry.version.lines_in_order(self.geometry.lines) {
            if self.lists.kind(line).is_none() {
                self.put(Kind::Free, line);
            }
        }
    }

    fn check(&self, request: &Request) {
        let Some(span) = request.span() else { return };
        let block = u64::from(self.geometry.block_bytes);
        let is_whole =
            span.offset().is_multiple_of(block) && (span.bytes() as u64).is_multiple_of(block);
        assert!(span.sectors > 0 && is_whole, "{span:?} is not whole blocks of {block} bytes");
        let last_line = (span.end() - 1) / u64::from(self.geometry.line_sectors());
        assert!(last_line < 1 << CORE_LINE_BITS, "{span:?} is beyond 2^46 lines");
        if let Request::Write { data, .. }
        | Request::InsertClean { data, .. }
        | Request::Bypass { data, .. } = request
        {
            assert_eq!(data.len(), span.bytes(), "data of {span:?}");
        }
    }

    /// Begins a request. `false`: it has to wait for lines.
    fn begin(&mut self, class: ClassId, id: RequestId, request: &Request) -> bool {
        match request {
            Request::Write { span, data } => self.write(class, id, *span, data),
            Request::Bypass { span, data, durable } => self.bypass(id, *span, data, *durable),
            Request::Discard { span } => self.discard(id, *span),
            Request::Read { span } => {
                self.read(id, *span, Some(class));
                true
            }
            Request::PassThroughRead { span } => {
                self.read(id, *span, None);
                true
            }
            // When it ends, the pages of the table say so, as a settling requires.
            Request::Destage { span } | Request::Settle { span } => {
                self.destage(id, *span);
                true
            }
            Request::InsertClean { span, data } => {
                self.insert_clean(class, id, *span, data);
                true
            }
            Request::Flush => {
                self.flush(id);
                true
            }
            Request::PrepareStop => {
                self.prepare_stop(id);
                true
            }
        }
    }

    fn begin_waiting(&mut self) {
        for (class, id, request) in std::mem::take(&mut self.waiting) {
            if self.begin(class, id, &request) {
                self.requests.end_part(id, true);
                self.has_changed = true;
            } else {
                self.waiting.push((class, id, request));
            }
        }
    }
}

impl Layout for OcfLayout {
    /// # Panics
    /// If the request does not begin and end at a block of the cache device, or if its data has another length.
    fn submit_of(&mut self, class: ClassId, id: RequestId, request: Request) {
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
        match self.ios.remove(io.0) {
            Purpose::Read { request, lines } => self.read_ended(request, lines, is_well),
            Purpose::Change { number } => self.change_went_on(number, is_well),
            Purpose::Pages { pages } => self.pages_written(pages, is_well),
            Purpose::Journal { lines } => self.journal_written(&lines, is_well),
            Purpose::Copy => self.copy_went_on(is_well),
            Purpose::Stop => self.stopping_went_on(is_well),
            Purpose::Cleaning { number, first } => match outcome {
                Outcome::Read(data) => self.cleaning_read(number, first, &data),
                _ => self.cleaning_went_on(number, is_well),
            },
            Purpose::Flush { request } => self.requests.end_part(request, is_well),
        }
    }

    fn ended(&mut self, ended: &mut Vec<(RequestId, Ending)>) {
        self.requests.take_ended(ended);
    }

    fn turn(&mut self, ios: &mut Vec<(IoId, DeviceIo)>) {
        loop {
            self.has_changed = false;
            self.begin_waiting();
            self.go_on_destaging();
            self.make_room();
            self.write_pages();
            if !self.has_changed {
                break;
            }
        }
        ios.append(&mut self.issued);
    }

    fn core_was_written(&mut self, core: CoreId) {
        self.cores.insert(core);
    }

    fn core_is_gone(&mut self, core: CoreId) {
        self.cores.remove(&core);
    }

    fn left(&self) -> Option<Left> {
        self.how_left()
    }

    /// Rewrites the pages of the table that could not be written. A later request that needs room retries the
    /// cleaning.
    fn retry(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.is_stuck = false;
        }
        for page in self.pages.doubtful().clone() {
            self.pages.want(page, None, true);
        }
    }

    fn lookup(&mut self, span: Span, pieces: &mut Vec<Piece>) {
        self.known(span, pieces);
    }

    fn dirty_after(&self, core: CoreId, sector: u64) -> Option<Span> {
        self.dirty_run(core, sector)
    }

    fn usage(&self) -> Usage {
        let dirty_sectors = self.lines.dirty_sectors.all();
        Usage { valid_sectors: self.lines.valid_sectors, dirty_sectors }
    }

    fn dirty_sectors(&self, core: CoreId) -> u64 {
        self.lines.dirty_sectors.of(core)
    }

    fn set_shares(&mut self, shares: Shares) {
        self.shares = shares;
    }

    fn refuses(&self, class: ClassId, sectors: u32) -> Option<Refusal> {
        self.refused(class, u64::from(sectors.div_ceil(self.geometry.line_sectors())))
    }

    /// Writes that found too few lines.
    fn writes_around(&self) -> u64 {
        self.writes_around
    }

    fn occupied_sectors(&self, class: ClassId) -> u64 {
        self.lines.class_sectors[class.index()]
    }

    fn memory_bytes(&self) -> usize {
        self.lines.memory_bytes() + self.lists.memory_bytes()
    }
}
