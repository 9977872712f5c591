//! Cleaning: reads whole lines, and writes their dirty runs to the cores in order. Then it flushes the cores, writes
//! the pages of the table, and flushes the cache device. Only then is a line clean.
//!
//! *Always:* the table calls a sector clean only if the core has it durably. Lines that are being cleaned are neither
//! written nor made void.
//!
//! A destage cleans the lines that a request names, at most [`LINES_AT_ONCE`] at a time.
//!
//! A destage may overlap any request. It waits until the next lines are not in use, and prevents new changes of them
//! while it waits. At its end, each sector that was dirty at its start is on the core, or was overwritten and the new
//! data is on the core, or is void.

use super::OcfLayout;
use super::bits::runs;
use super::cleaner::{CleanedLine, CleaningPhase, LineCleaning};
use super::destages::Destage;
use super::lists::Kind;
use super::pages::Waiter;
use super::purpose::OcfPurpose;
use crate::layout::{
    CoreId, Data, DeviceIo, PlacementClass, RequestId, SECTOR_BYTES, Span, Target,
};

/// Number of lines that are cleaned at once to make room.
const ROOM_LINES: usize = 32;
/// Most bytes of a read of lines, and of a write to a core.
const TRANSFER_BYTES_MAX: usize = 1 << 20;
/// Number of lines that are cleaned at a time for a destage.
const LINES_AT_ONCE: usize = 128;

impl OcfLayout {
    /// Begins the cleaning that a request without enough lines has asked for. One at a time.
    pub(super) fn make_room(&mut self) {
        if let Some(class) = self.wants_room.take()
            && self.makes_room.is_none()
        {
            let lines = self.lines.choose_dirty(class, ROOM_LINES);
            if !lines.is_empty() {
                self.makes_room = Some(self.begin_cleaning(&lines));
            }
        }
    }

    /// Begins to clean these lines, which must be idle.
    pub(super) fn begin_cleaning(&mut self, lines: &[u32]) -> usize {
        let cleaned = |line: &u32| {
            let (of, dirty) = self.lines.begin_cleaning(*line);
            CleanedLine { of, line: *line, dirty, data: None }
        };
        let mut lines: Vec<CleanedLine> = lines.iter().map(cleaned).collect();
        lines.sort_unstable_by_key(|one| one.of);
        let number = self.cleanings.insert(LineCleaning {
            lines,
            phase: CleaningPhase::Reading,
            outstanding: 0,
            has_failed: false,
        });
        self.read_cleaned(number);
        number
    }

    fn read_cleaned(&mut self, number: usize) {
        let (bytes, mut first, mut ios) =
            (self.lines.geometry().line_bytes as usize, 0, Vec::new());
        let follows = |a: &CleanedLine, b: &CleanedLine| a.line + 1 == b.line;
        for run in self.cleanings[number].lines.chunk_by(follows) {
            for lines in run.chunks(TRANSFER_BYTES_MAX / bytes) {
                let offset = self.lines.geometry().sector_of(lines[0].line) * SECTOR_BYTES as u64;
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
            self.ios.issue(io, OcfPurpose::Cleaning { number, first });
        }
    }

    /// A read has ended, of lines from `first` on.
    pub(super) fn cleaning_read(&mut self, number: usize, first: usize, data: &Data) {
        let bytes = self.lines.geometry().line_bytes as usize;
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
        self.ios.note_change();
        if cleaning.outstanding > 0 {
            return;
        }
        if cleaning.has_failed {
            return self.give_up_cleaning(number);
        }
        match cleaning.phase {
            CleaningPhase::Reading => {
                cleaning.phase = CleaningPhase::Writing;
                self.write_cleaned(number);
            }
            CleaningPhase::Writing => {
                cleaning.phase = CleaningPhase::FlushingCores;
                self.flush_cores(number);
            }
            CleaningPhase::FlushingCores => {
                cleaning.phase = CleaningPhase::Pages;
                self.say_clean(number);
            }
            CleaningPhase::Pages => {
                cleaning.phase = CleaningPhase::FlushingCache;
                let flush = DeviceIo::Flush { target: Target::Cache };
                self.issue_cleaning(number, vec![(0, flush)]);
            }
            CleaningPhase::FlushingCache => self.end_cleaning(number),
        }
    }

    fn write_cleaned(&mut self, number: usize) {
        let mut writes: Vec<(Span, Vec<Data>)> = Vec::new();
        let lines = std::mem::take(&mut self.cleanings[number].lines);
        for one in &lines {
            let data = one.data.as_ref().expect("it was read");
            let own = self.lines.span_of(one.of);
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
                class: PlacementClass::Dirty,
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
        let mut cores: Vec<CoreId> =
            lines.iter().map(|one| self.lines.span_of(one.of).core).collect();
        cores.dedup();
        let flush = |core| (0, DeviceIo::Flush { target: Target::Core(core) });
        self.issue_cleaning(number, cores.into_iter().map(flush).collect());
    }

    /// The cores have the data. The lines stay locked until the pages record this as well.
    fn say_clean(&mut self, number: usize) {
        let lines = std::mem::take(&mut self.cleanings[number].lines);
        let mut pages: Vec<u32> = Vec::new();
        for one in &lines {
            let valid = self.lines.table().valid(one.line);
            debug_assert_eq!(self.lines.table().dirty(one.line), one.dirty, "it was locked");
            self.lines.set_sectors(one.line, valid, 0);
            pages.push(self.lines.geometry().unit_of(one.line));
        }
        self.cleanings[number].lines = lines;
        pages.sort_unstable();
        pages.dedup();
        self.cleanings[number].outstanding = u32::try_from(pages.len()).expect("a few lines");
        for page in pages {
            self.writer.want(page, Some(Waiter::Cleaning(number)), false);
        }
    }

    fn end_cleaning(&mut self, number: usize) {
        let LineCleaning { lines, .. } = self.cleanings.remove(number);
        for one in lines {
            self.lines.end_cleaning(one.line);
            self.lines.put(Kind::Clean, one.line);
        }
        self.forget_cleaning(number, true);
    }

    /// The lines are dirty as before. If their pages may already say otherwise, these must be written again before any
    /// later write to these lines counts as durable.
    fn give_up_cleaning(&mut self, number: usize) {
        let LineCleaning { lines, phase, .. } = self.cleanings.remove(number);
        for one in lines {
            if matches!(phase, CleaningPhase::Pages | CleaningPhase::FlushingCache) {
                self.writer.doubt(self.lines.geometry().unit_of(one.line));
            }
            let valid = self.lines.table().valid(one.line);
            self.lines.set_sectors(one.line, valid, one.dirty);
            self.lines.end_cleaning(one.line);
        }
        self.forget_cleaning(number, false);
    }

    fn forget_cleaning(&mut self, number: usize, is_well: bool) {
        self.destage_went_on(number, is_well);
        if self.makes_room == Some(number) {
            self.makes_room = None;
        }
        self.ios.note_change();
    }

    pub(super) fn destage(&mut self, request: RequestId, span: Span) {
        self.requests.add_part(request);
        let next = self.lines.core_line(span);
        let destage = Destage { request, span, next, claimed: Vec::new(), cleaning: None };
        self.destages.push(destage);
        self.ios.note_change();
    }

    pub(super) fn go_on_destaging(&mut self) {
        for mut one in std::mem::take(&mut self.destages) {
            if one.cleaning.is_some() || self.clean_next(&mut one) {
                self.destages.push(one);
            } else {
                self.requests.end_part(one.request, true);
                self.ios.note_change();
            }
        }
    }

    /// Begins to clean the next lines, or waits for them. `false` if nothing is left.
    fn clean_next(&mut self, one: &mut Destage) -> bool {
        for line in one.claimed.drain(..) {
            self.lines.end_claim(line);
        }
        let (mut lines, mut next) = (Vec::new(), one.next);
        while lines.len() < LINES_AT_ONCE
            && let Some(of) = self.lines.next_dirty(next)
            && self.lines.span_of(of).first < one.span.end()
        {
            let line = self.lines.find(of).expect("it is dirty");
            let all = self.lines.span_of(of);
            let first = all.first.max(one.span.first);
            let sectors = u32::try_from(all.end().min(one.span.end()) - first).expect("a line");
            if self.lines.table().dirty(line) & self.lines.mask(Span { first, sectors, ..all }) != 0
            {
                lines.push(line);
            }
            next = of;
            next.number += 1;
        }
        if lines.is_empty() {
            // Data that another cleaning has sent to the core is no longer dirty, but its page may not say so yet.
            let line_sectors = self.lines.geometry().line_sectors();
            let waits =
                self.cleanings.iter().any(|(_, other)| other.has_some_of(one.span, line_sectors));
            // That cleaning may fail, and the lines are then dirty again: start over.
            one.next = self.lines.core_line(one.span);
            return waits;
        }
        if lines.iter().any(|line| !self.lines.is_idle(*line)) {
            lines.iter().for_each(|line| self.lines.claim(*line));
            one.claimed = lines;
            return true;
        }
        one.next = next;
        one.cleaning = Some(self.begin_cleaning(&lines));
        true
    }

    /// A cleaning has ended: if it ran for a destage, continues the destage.
    pub(super) fn destage_went_on(&mut self, number: usize, is_well: bool) {
        let Some(at) = self.destages.iter().position(|one| one.cleaning == Some(number)) else {
            return;
        };
        if is_well {
            self.destages[at].cleaning = None;
        } else {
            let one = self.destages.swap_remove(at);
            self.requests.end_part(one.request, false);
        }
    }
}
