//! Client writes, and the caching of data that was read.

use super::change::{ChangeKind, Piece};
use super::state::{OcfLayout, Purpose, runs};
use crate::layout::line::by_line;
use crate::layout::{Class, ClassId, Data, DeviceIo, RequestId, SECTOR_BYTES, Span, Target};

/// Data that is consecutive both on the cache device and in the request.
struct Run {
    /// First sector on the cache device.
    at: u64,
    /// First sector in the request.
    from: u64,
    sectors: u64,
}

impl OcfLayout {
    /// Write-back. If there are too few lines, it becomes a write around. `false` if it has to wait.
    pub(super) fn write(
        &mut self,
        class: ClassId,
        request: RequestId,
        span: Span,
        data: &Data,
    ) -> bool {
        if !self.may_change(span) {
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
            let line = self.lines.find(self.core_line(part));
            line.is_some_and(|line| self.mask(part) & !self.lines.table.valid(line) == 0)
        };
        if by_line(span, self.geometry.line_sectors()).all(is_cached) {
            return;
        }
        if let Some(mut pieces) = self.place(class, span) {
            for piece in &mut pieces {
                piece.mask &= !self.lines.table.valid(piece.line);
            }
            self.write_pieces(request, ChangeKind::Clean, (span, data), pieces);
        }
    }

    /// Whether no line of it is being cleaned, or about to be.
    pub(super) fn may_change(&self, span: Span) -> bool {
        by_line(span, self.geometry.line_sectors()).all(|part| {
            let line = self.lines.find(self.core_line(part));
            line.is_none_or(|line| self.locks.may_change(line))
        })
    }

    /// The lines for `span`: existing and new ones.
    fn place(&mut self, class: ClassId, span: Span) -> Option<Vec<Piece>> {
        let parts: Vec<Span> = by_line(span, self.geometry.line_sectors()).collect();
        let mut lines: Vec<Option<u32>> =
            parts.iter().map(|part| self.lines.find(self.core_line(*part))).collect();
        let has: Vec<u32> = lines.iter().flatten().copied().collect();
        // Lock the existing lines, so that they are not evicted for the missing ones.
        has.iter().for_each(|line| self.locks.add_user(*line));
        let taken = self.take_lines(class, lines.len() - has.len());
        for line in &has {
            self.locks.remove_user(*line);
        }
        let mut taken = taken?.into_iter();
        has.into_iter().for_each(|line| self.take_over(class, line));
        for (line, part) in lines.iter_mut().zip(&parts) {
            if line.is_none() {
                *line = taken.next();
                self.map(class, line.expect("one for each"), self.core_line(*part));
            }
        }
        let piece = |(line, part): (Option<u32>, &Span)| {
            Some(Piece { line: line?, mask: self.mask(*part) })
        };
        lines.into_iter().zip(&parts).map(piece).collect()
    }

    fn write_pieces(
        &mut self,
        request: RequestId,
        kind: ChangeKind,
        (span, data): (Span, &Data),
        pieces: Vec<Piece>,
    ) {
        let runs = self.merged(span, &pieces);
        let ios = u32::try_from(runs.len()).expect("sectors of a request");
        let class = if kind == ChangeKind::Dirty { Class::Dirty } else { Class::Clean };
        let number = self.begin_change(request, kind, pieces, ios);
        for Run { at, from, sectors } in runs {
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
            self.issue(io, Purpose::Change { number });
        }
    }

    /// Where the data of `span` goes, in as few I/Os as the lines allow.
    fn merged(&self, span: Span, pieces: &[Piece]) -> Vec<Run> {
        let line_sectors = u64::from(self.geometry.line_sectors());
        let first_line = span.first - span.first % line_sectors;
        let mut merged: Vec<Run> = Vec::new();
        for (begins, piece) in
            (first_line..).step_by(self.geometry.line_sectors() as usize).zip(pieces)
        {
            for run in runs(piece.mask) {
                let at = self.geometry.sector_of(piece.line) + u64::from(run.start);
                let from = begins + u64::from(run.start) - span.first;
                let sectors = u64::from(run.end - run.start);
                match merged.last_mut() {
                    Some(last)
                        if last.at + last.sectors == at && last.from + last.sectors == from =>
                    {
                        last.sectors += sectors
                    }
                    _ => merged.push(Run { at, from, sectors }),
                }
            }
        }
        merged
    }
}
