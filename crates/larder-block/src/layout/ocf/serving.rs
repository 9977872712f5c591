//! Client requests: reads, writes, the caching of data that was read, writes around, discards and flushes.
//!
//! Cached data that is read comes from the cache device, the rest from the core. A write goes to the cache device. If
//! there are too few lines, it becomes a write around.
//!
//! A crash loses clean data, so only dirty data must be made void on the device: through its page of the table, after
//! the core durably has the new data, because the old data was durable.

use super::OcfLayout;
use super::bits::runs;
use super::change::{ChangeKind, LinePiece};
use super::pages::Waiter;
use super::purpose::OcfPurpose;
use crate::layout::line::by_line;
use crate::layout::{
    ClassId, Data, DeviceIo, PieceState, PlacementClass, RequestId, SECTOR_BYTES, ShutdownState,
    Span, Target,
};

/// Sectors that one read returns.
struct ReadPart {
    target: Target,
    /// The position on the device, in sectors.
    at: u64,
    span: Span,
    /// The lines on the cache device.
    lines: Vec<u32>,
}

/// Data that is consecutive both on the cache device and in the request.
struct WriteRun {
    /// First sector on the cache device.
    at: u64,
    /// First sector in the request.
    from: u64,
    sectors: u64,
}

impl OcfLayout {
    /// Without a class, clean data is read from the core. With a class, lines that are read move to that class.
    pub(super) fn read(&mut self, request: RequestId, span: Span, class: Option<ClassId>) {
        for ReadPart { target, at, span: part, lines } in self.parts(span, class.is_none()) {
            for line in &lines {
                self.lines.add_user(*line);
                self.lines.touch(*line);
                if let Some(class) = class {
                    self.lines.take_over(class, *line);
                }
            }
            self.requests.add_part(request);
            let into = usize::try_from(part.first - span.first).expect("within a request");
            let io = DeviceIo::Read {
                target,
                offset: at * SECTOR_BYTES as u64,
                bytes: part.bytes(),
                reader: Some((request, into * SECTOR_BYTES)),
            };
            self.ios.issue(io, OcfPurpose::Read { request, lines });
        }
    }

    pub(super) fn read_ended(&mut self, request: RequestId, lines: Vec<u32>, is_well: bool) {
        lines.into_iter().for_each(|line| self.release(line));
        self.requests.end_part(request, is_well);
    }

    /// The reads for `span`, in as few I/Os as the lines allow.
    fn parts(&self, span: Span, dirty_only: bool) -> Vec<ReadPart> {
        let mut parts: Vec<ReadPart> = Vec::new();
        let mut add = |target, at, one: Span, line: Option<u32>| {
            let follows = |last: &&mut ReadPart| {
                last.target == target && last.at + u64::from(last.span.sectors) == at
            };
            if let Some(last) = parts.last_mut().filter(follows) {
                last.span.sectors += one.sectors;
                last.lines.extend(line.filter(|line| last.lines.last() != Some(line)));
            } else {
                parts.push(ReadPart { target, at, span: one, lines: line.into_iter().collect() });
            }
        };
        for (one, line, state) in self.lines.pieces(span) {
            let from_cache = match state {
                PieceState::Absent => None,
                PieceState::Clean if dirty_only => None,
                _ => line,
            };
            match from_cache {
                None => add(Target::Core(span.core), one.first, one, None),
                Some(line) => {
                    let within = one.first % u64::from(self.lines.geometry().line_sectors());
                    let at = self.lines.geometry().sector_of(line) + within;
                    add(Target::Cache, at, one, Some(line));
                }
            }
        }
        parts
    }

    /// Write-back. If there are too few lines, it becomes a write around. `false` if it has to wait.
    pub(super) fn write(
        &mut self,
        class: ClassId,
        request: RequestId,
        span: Span,
        data: &Data,
    ) -> bool {
        if !self.lines.may_change(span) {
            return false;
        }
        match self.place(class, span) {
            Some(pieces) => self.write_pieces(request, ChangeKind::Dirty, (span, data), pieces),
            None => {
                self.writes_around += 1;
                self.write_around(request, span, data, true);
            }
        }
        true
    }

    /// Caches the part that is not cached yet, if lines are available.
    pub(super) fn insert_clean(
        &mut self,
        class: ClassId,
        request: RequestId,
        span: Span,
        data: &Data,
    ) {
        let is_cached = |part: Span| {
            let line = self.lines.find(self.lines.core_line(part));
            line.is_some_and(|line| self.lines.mask(part) & !self.lines.table().valid(line) == 0)
        };
        if by_line(span, self.lines.geometry().line_sectors()).all(is_cached) {
            return;
        }
        if let Some(mut pieces) = self.place(class, span) {
            for piece in &mut pieces {
                piece.mask &= !self.lines.table().valid(piece.line);
            }
            self.write_pieces(request, ChangeKind::Clean, (span, data), pieces);
        }
    }

    /// The lines for `span`. If there are too few, `None`, and lines are cleaned for later requests.
    fn place(&mut self, class: ClassId, span: Span) -> Option<Vec<LinePiece>> {
        let pieces = self.lines.place(class, span, self.writer.doubtful());
        if pieces.is_none() {
            self.wants_room = Some(class);
            self.ios.note_change();
        }
        pieces
    }

    fn write_pieces(
        &mut self,
        request: RequestId,
        kind: ChangeKind,
        (span, data): (Span, &Data),
        pieces: Vec<LinePiece>,
    ) {
        let runs = self.merged(span, &pieces);
        let ios = u32::try_from(runs.len()).expect("sectors of a request");
        let class =
            if kind == ChangeKind::Dirty { PlacementClass::Dirty } else { PlacementClass::Clean };
        let number = self.begin_change(request, kind, pieces, ios);
        for WriteRun { at, from, sectors } in runs {
            let bytes =
                |sectors: u64| usize::try_from(sectors).expect("in a request") * SECTOR_BYTES;
            let io = DeviceIo::Write {
                target: Target::Cache,
                offset: at * SECTOR_BYTES as u64,
                parts: vec![data.slice(bytes(from)..bytes(from + sectors))],
                class,
                beside: None,
                metadata_bytes: 0,
                // Clean data may be lost.
                durable: kind == ChangeKind::Dirty,
            };
            self.ios.issue(io, OcfPurpose::Change { number });
        }
    }

    /// Where the data of `span` goes, in as few I/Os as the lines allow.
    fn merged(&self, span: Span, pieces: &[LinePiece]) -> Vec<WriteRun> {
        let line_sectors = u64::from(self.lines.geometry().line_sectors());
        let first_line = span.first - span.first % line_sectors;
        let mut merged: Vec<WriteRun> = Vec::new();
        for (begins, piece) in
            (first_line..).step_by(self.lines.geometry().line_sectors() as usize).zip(pieces)
        {
            for run in runs(piece.mask) {
                let at = self.lines.geometry().sector_of(piece.line) + u64::from(run.start);
                let from = begins + u64::from(run.start) - span.first;
                let sectors = u64::from(run.end - run.start);
                match merged.last_mut() {
                    Some(last)
                        if last.at + last.sectors == at && last.from + last.sectors == from =>
                    {
                        last.sectors += sectors
                    }
                    _ => merged.push(WriteRun { at, from, sectors }),
                }
            }
        }
        merged
    }

    /// Writes around the cache. Returns `false` if the write has to wait.
    pub(super) fn bypass(
        &mut self,
        request: RequestId,
        span: Span,
        data: &Data,
        durable: bool,
    ) -> bool {
        let may = self.lines.may_change(span);
        if may {
            self.write_around(request, span, data, durable);
        }
        may
    }

    /// Writes the core, then makes cached data void. If some of it was dirty, and therefore durable, the write is
    /// durable too.
    pub(super) fn write_around(
        &mut self,
        request: RequestId,
        span: Span,
        data: &Data,
        durable: bool,
    ) {
        let pieces = self.lines.cached(span);
        let covers_dirty =
            pieces.iter().any(|one| self.lines.table().dirty(one.line) & one.mask != 0);
        let number = self.begin_change(request, ChangeKind::Void, pieces, 1);
        self.cores.insert(span.core);
        let durable = durable || covers_dirty;
        let io = DeviceIo::core_write(span, data.clone(), PlacementClass::Clean, durable);
        self.ios.issue(io, OcfPurpose::Change { number });
    }

    /// Discards cached data. Returns `false` if the discard has to wait.
    pub(super) fn discard(&mut self, request: RequestId, span: Span) -> bool {
        let may = self.lines.may_change(span);
        if may {
            let pieces = self.lines.cached(span);
            let number = self.begin_change(request, ChangeKind::Void, pieces, 0);
            self.data_arrived(number);
        }
        may
    }

    /// Flushes the cache device and every core that was written, as Open CAS does.
    pub(super) fn flush(&mut self, request: RequestId) {
        let cores: Vec<Target> = self.cores.iter().copied().map(Target::Core).collect();
        for target in cores.into_iter().chain([Target::Cache]) {
            self.requests.add_part(request);
            self.ios.issue(DeviceIo::Flush { target }, OcfPurpose::Flush { request });
        }
        for page in self.writer.doubtful().clone() {
            self.requests.add_part(request);
            self.writer.want(page, Some(Waiter::Flush(request)), true);
        }
    }

    /// An orderly stop: flushes all devices, and concurrently writes the whole table, including clean lines, so that a
    /// start can use it. The label is written when all of this has ended.
    pub(super) fn prepare_stop(&mut self, request: RequestId) {
        self.flush(request);
        self.is_prepared = false;
        self.requests.add_part(request);
        let ended = self.writer.begin_stopping(request, &mut self.lines, &mut self.ios);
        self.end_stopping(ended);
    }

    pub(super) fn stopping_went_on(&mut self, is_well: bool) {
        self.ios.note_change();
        let ended = self.writer.stopping_went_on(is_well, &mut self.lines, &mut self.ios);
        self.end_stopping(ended);
    }

    fn end_stopping(&mut self, ended: Option<(RequestId, bool)>) {
        if let Some((request, is_well)) = ended {
            self.is_prepared = is_well;
            self.requests.end_part(request, is_well);
        }
    }

    /// What the label says of an orderly stop; `None` if it can say nothing. *Always:* it says that the table is
    /// complete only when the cores durably have what was written around, and the cache device durably has all data
    /// and the whole table. A start clears this before it writes anything else.
    pub(super) fn how_left(&self) -> Option<ShutdownState> {
        let is_whole = self.is_prepared && self.writer.doubtful().is_empty();
        is_whole.then_some(ShutdownState {
            last: self.writer.last_sequence(),
            lowest: 1,
            checksum: 0,
        })
    }
}
