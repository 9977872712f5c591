//! Open CAS as its users have it, from its documents and from what it was seen to do: to compare with.
//!
//! ```text
//!  ├─ collision table: pages of records, one for each line ─┤ ─ ├─ line ─┬─ line ─┬─ line ─┬ ─ ─
//! ```
//!
//! - Lines of 4 to 64 KiB, a record for each in a table on the device, a bit for each sector of 512 bytes, valid and
//!   dirty. A write is the data, then, where a sector was not dirty before, the page of 4 KiB that its record is in: so
//!   what is written first costs twice what it has, at 4 KiB.
//! - Free lines, clean ones and dirty ones are in 32 lists each, in two zones. Only clean lines give way. If there are
//!   too few, the request goes to the core instead, what was cached of it is void, and 32 lines are cleaned for later
//!   ones.
//! - A crash loses what is clean, and the order of use. An orderly stop writes all of the table, and only loses that
//!   order.
//!
//! With a log in front of the table ([`journal`](self), [`OcfVersion::Wal`]) a change is an entry there, together with
//! others, and pages are written when the log gives way.
//!
//! Two of its versions differ in the size of a record, and in how lines are dealt to the lists ([`OcfVersion`]).
//! What is not as there: sectors of the table have checksums ([`table`](self)); many that want the same page share a
//! write of it; read requests take what is dirty from the cache and leave it so.
//!
//! *Always:* the table on the device calls a sector dirty only when its data are there, and clean only when the core
//! has them durably; a line gets another owner only when the table does not call it dirty any more.

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
    /// An empty cache on `geometry`, whose table is zeros, with the UUID of its label.
    pub fn new(geometry: Geometry, uuid: [u8; 16]) -> Self {
        let mut layout = Self::with_table(geometry, Table::new(&geometry, uuid));
        layout.journal = geometry.version.has_journal().then(|| Journal::new(&geometry, uuid));
        layout.fill_free_lists();
        layout
    }

    /// No line is in a list yet.
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

    /// What is in no list is free.
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

    /// Whether a request has begun that may have to wait for lines.
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
            // With its end pages of the table say so.
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
    /// If the request does not begin and end with a block of the cache device, or has data of another length.
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

    /// Writes the pages of the table once more that could not be written. Cleaning is tried again by whoever needs
    /// room.
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

    /// Lines count whole.
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
