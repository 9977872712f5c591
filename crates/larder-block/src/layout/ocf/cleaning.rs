//! Cleaning: reads whole lines, and writes their dirty runs to the cores in order. Then it flushes the cores, writes
//! the pages of the table, and flushes the cache device. Only then is a line clean.
//!
//! *Always:* the table calls a sector clean only if the core has it durably. Lines that are being cleaned are neither
//! written nor made void.

use super::cleaner::{Cleaned, Cleaning, Phase};
use super::lists::Kind;
use super::pages::Waiter;
use super::state::{OcfLayout, Purpose, runs};
use crate::layout::{Class, CoreId, Data, DeviceIo, SECTOR_BYTES, Span, Target};

/// Number of lines that are cleaned at once to make room.
const ROOM_LINES: usize = 32;
/// Most bytes of a read of lines, and of a write to a core.
const TRANSFER_BYTES_MAX: usize = 1 << 20;

impl OcfLayout {
    /// Begins the cleaning that a request without enough lines has asked for. One at a time.
    pub(super) fn make_room(&mut self) {
        if let Some(class) = self.wants_room.take()
            && self.makes_room.is_none()
        {
            let lines = self.choose_dirty(class, ROOM_LINES);
            if !lines.is_empty() {
                self.makes_room = Some(self.begin_cleaning(&lines));
            }
        }
    }

    /// Begins to clean these lines, which must be idle.
    pub(super) fn begin_cleaning(&mut self, lines: &[u32]) -> usize {
        let cleaned = |line: &u32| {
            self.locks.begin_cleaning(*line);
            let dirty = self.lines.table.dirty(*line);
            Cleaned { of: self.lines.table.core_line(*line), line: *line, dirty, data: None }
        };
        let mut lines: Vec<Cleaned> = lines.iter().map(cleaned).collect();
        lines.sort_unstable_by_key(|one| one.of);
        let number = self.cleanings.insert(Cleaning {
            lines,
            phase: Phase::Reading,
            outstanding: 0,
            has_failed: false,
        });
        self.read_cleaned(number);
        number
    }

    fn read_cleaned(&mut self, number: usize) {
        let (bytes, mut first, mut ios) = (self.geometry.line_bytes as usize, 0, Vec::new());
        let follows = |a: &Cleaned, b: &Cleaned| a.line + 1 == b.line;
        for run in self.cleanings[number].lines.chunk_by(follows) {
            for lines in run.chunks(TRANSFER_BYTES_MAX / bytes) {
                let offset = self.geometry.sector_of(lines[0].line) * SECTOR_BYTES as u64;
                let bytes = lines.len() * bytes;
                let io = DeviceIo::Read { target: Target::Cache, offset, bytes, reader: None };
                ios.push((first, io));
                first += lines.len();
            }
        }
        self.issue_cleaning(number, ios);
    }

    fn issue_cleaning(&mut self, number: usize, ios: Vec<(usize, DeviceIo)>) {
        self.cleanings[number].outstanding = u32::try_from(ios.len()).expect("a few lines");
        for (first, io) in ios {
            self.issue(io, Purpose::Cleaning { number, first });
        }
    }

    /// A read has ended, of lines from `first` on.
    pub(super) fn cleaning_read(&mut self, number: usize, first: usize, data: &Data) {
        let bytes = self.geometry.line_bytes as usize;
        let lines = &mut self.cleanings[number].lines[first..];
        for (number, line) in lines.iter_mut().take(data.len() / bytes).enumerate() {
            line.data = Some(data.slice(number * bytes..(number + 1) * bytes));
        }
        self.cleaning_went_on(number, true);
    }

    /// An I/O of a cleaning has ended, or a page that it waited for was written.
    pub(super) fn cleaning_went_on(&mut self, number: usize, is_well: bool) {
        let cleaning = &mut self.cleanings[number];
        cleaning.outstanding -= 1;
        cleaning.has_failed |= !is_well;
        self.has_changed = true;
        if cleaning.outstanding > 0 {
            return;
        }
        if cleaning.has_failed {
            return self.give_up_cleaning(number);
        }
        match cleaning.phase {
            Phase::Reading => {
                cleaning.phase = Phase::Writing;
                self.write_cleaned(number);
            }
            Phase::Writing => {
                cleaning.phase = Phase::FlushingCores;
                self.flush_cores(number);
            }
            Phase::FlushingCores => {
                cleaning.phase = Phase::Pages;
                self.say_clean(number);
            }
            Phase::Pages => {
                cleaning.phase = Phase::FlushingCache;
                let flush = DeviceIo::Flush { target: Target::Cache };
                self.issue_cleaning(number, vec![(0, flush)]);
            }
            Phase::FlushingCache => self.end_cleaning(number),
        }
    }

    fn write_cleaned(&mut self, number: usize) {
        let mut writes: Vec<(Span, Vec<Data>)> = Vec::new();
        let lines = std::mem::take(&mut self.cleanings[number].lines);
        for one in &lines {
            let data = one.data.as_ref().expect("it was read");
            let own = self.span_of(one.of);
            self.cores.insert(own.core);
            for run in runs(one.dirty) {
                let first = own.first + u64::from(run.start);
                let span = Span { first, sectors: run.end - run.start, ..own };
                let at = run.start as usize * SECTOR_BYTES;
                let part = data.slice(at..at + span.bytes());
                match writes.last_mut() {
                    Some((last, parts))
                        if last.core == span.core
                            && last.end() == span.first
                            && last.bytes() + span.bytes() <= TRANSFER_BYTES_MAX =>
                    {
                        last.sectors += span.sectors;
                        parts.push(part);
                    }
                    _ => writes.push((span, vec![part])),
                }
            }
        }
        self.cleanings[number].lines = lines;
        let ios = writes.into_iter().map(|(span, parts)| {
            let io = DeviceIo::Write {
                target: Target::Core(span.core),
                offset: span.offset(),
                parts,
                class: Class::Dirty,
                beside: None,
                metadata_bytes: 0,
                durable: false,
            };
            (0, io)
        });
        self.issue_cleaning(number, ios.collect());
    }

    fn flush_cores(&mut self, number: usize) {
        let lines = &self.cleanings[number].lines;
        let mut cores: Vec<CoreId> = lines.iter().map(|one| self.span_of(one.of).core).collect();
        cores.dedup();
        let flush = |core| (0, DeviceIo::Flush { target: Target::Core(core) });
        self.issue_cleaning(number, cores.into_iter().map(flush).collect());
    }

    /// The cores have the data. The lines stay locked until the pages record this as well.
    fn say_clean(&mut self, number: usize) {
        let lines = std::mem::take(&mut self.cleanings[number].lines);
        let mut pages: Vec<u32> = Vec::new();
        for one in &lines {
            let valid = self.lines.table.valid(one.line);
            debug_assert_eq!(self.lines.table.dirty(one.line), one.dirty, "it was locked");
            self.set_sectors(one.line, valid, 0);
            pages.push(self.geometry.unit_of(one.line));
        }
        self.cleanings[number].lines = lines;
        pages.sort_unstable();
        pages.dedup();
        self.cleanings[number].outstanding = u32::try_from(pages.len()).expect("a few lines");
        for page in pages {
            self.pages.want(page, Some(Waiter::Cleaning(number)), false);
        }
    }

    fn end_cleaning(&mut self, number: usize) {
        let Cleaning { lines, .. } = self.cleanings.remove(number);
        for one in lines {
            self.locks.end_cleaning(one.line);
            self.put(Kind::Clean, one.line);
        }
        self.forget_cleaning(number, true);
    }

    /// The lines are dirty as before. If their pages may already say otherwise, these must be written again before any
    /// later write to these lines counts as durable.
    fn give_up_cleaning(&mut self, number: usize) {
        let Cleaning { lines, phase, .. } = self.cleanings.remove(number);
        for one in lines {
            if matches!(phase, Phase::Pages | Phase::FlushingCache) {
                self.pages.doubt(self.geometry.unit_of(one.line));
            }
            let valid = self.lines.table.valid(one.line);
            self.set_sectors(one.line, valid, one.dirty);
            self.locks.end_cleaning(one.line);
        }
        self.forget_cleaning(number, false);
    }

    fn forget_cleaning(&mut self, number: usize, is_well: bool) {
        self.destage_went_on(number, is_well);
        if self.makes_room == Some(number) {
            self.makes_room = None;
        }
        self.has_changed = true;
    }
}
