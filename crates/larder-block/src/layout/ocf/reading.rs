//! Client reads: cached data comes from the cache device, the rest from the core.

use super::state::{OcfLayout, Purpose, runs};
use super::table::CoreLine;
use crate::layout::line::by_line;
use crate::layout::{
    ClassId, CoreId, DeviceIo, Piece, PieceState, RequestId, SECTOR_BYTES, Span, Target,
};

/// Sectors that one read returns.
struct Part {
    target: Target,
    /// The position on the device, in sectors.
    at: u64,
    span: Span,
    /// The lines on the cache device.
    lines: Vec<u32>,
}

impl OcfLayout {
    /// Without a class, clean data is read from the core. With a class, lines that are read move to that class.
    pub(super) fn read(&mut self, request: RequestId, span: Span, class: Option<ClassId>) {
        for Part { target, at, span: part, lines } in self.parts(span, class.is_none()) {
            for line in &lines {
                self.locks.add_user(*line);
                self.touch(*line);
                if let Some(class) = class {
                    self.take_over(class, *line);
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
            self.issue(io, Purpose::Read { request, lines });
        }
    }

    pub(super) fn read_ended(&mut self, request: RequestId, lines: Vec<u32>, is_well: bool) {
        lines.into_iter().for_each(|line| self.release(line));
        self.requests.end_part(request, is_well);
    }

    /// The reads for `span`, in as few I/Os as the lines allow.
    fn parts(&self, span: Span, dirty_only: bool) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        let mut add = |target, at, one: Span, line: Option<u32>| {
            let follows = |last: &&mut Part| {
                last.target == target && last.at + u64::from(last.span.sectors) == at
            };
            if let Some(last) = parts.last_mut().filter(follows) {
                last.span.sectors += one.sectors;
                last.lines.extend(line.filter(|line| last.lines.last() != Some(line)));
            } else {
                parts.push(Part { target, at, span: one, lines: line.into_iter().collect() });
            }
        };
        for (one, line, state) in self.pieces(span) {
            let from_cache = match state {
                PieceState::Absent => None,
                PieceState::Clean if dirty_only => None,
                _ => line,
            };
            match from_cache {
                None => add(Target::Core(span.core), one.first, one, None),
                Some(line) => {
                    let within = one.first % u64::from(self.geometry.line_sectors());
                    let at = self.geometry.sector_of(line) + within;
                    add(Target::Cache, at, one, Some(line));
                }
            }
        }
        parts
    }

    /// The state of `span` with the lines, in order.
    fn pieces(&self, span: Span) -> Vec<(Span, Option<u32>, PieceState)> {
        let mut pieces = Vec::new();
        for part in by_line(span, self.geometry.line_sectors()) {
            let line = self.lines.find(self.core_line(part));
            let Some(line) = line else {
                pieces.push((part, None, PieceState::Absent));
                continue;
            };
            let (valid, dirty) = (self.lines.table.valid(line), self.lines.table.dirty(line));
            let mask = self.mask(part);
            let begins = part.first - part.first % u64::from(self.geometry.line_sectors());
            let before = pieces.len();
            for (bits, state) in [
                (!valid, PieceState::Absent),
                (valid & !dirty, PieceState::Clean),
                (dirty, PieceState::Dirty),
            ] {
                pieces.extend(runs(bits & mask).map(|run| {
                    let first = begins + u64::from(run.start);
                    let own = Span { first, sectors: run.end - run.start, ..part };
                    (own, Some(line), state)
                }));
            }
            pieces[before..].sort_unstable_by_key(|(own, ..)| own.first);
        }
        pieces
    }

    pub(super) fn known(&self, span: Span, known: &mut Vec<Piece>) {
        let own = self.pieces(span).into_iter();
        known.extend(own.map(|(span, _, state)| Piece { span, state }));
    }

    /// The first run of dirty sectors of a core from `sector` on.
    pub(super) fn dirty_run(&self, core: CoreId, sector: u64) -> Option<Span> {
        let line_sectors = u64::from(self.geometry.line_sectors());
        let mut from = CoreLine { core: core.get(), number: sector / line_sectors };
        loop {
            let of = self.lines.dirty_lines.next(from)?;
            let line = self.lines.find(of).expect("it is dirty");
            let begins = of.number * line_sectors;
            let first = sector.saturating_sub(begins).min(line_sectors);
            let left = u128::MAX.checked_shl(u32::try_from(first).expect("within a line"));
            if let Some(run) = runs(self.lines.table.dirty(line) & left.unwrap_or(0)).next() {
                let first = begins + u64::from(run.start);
                return Some(Span { core, first, sectors: run.end - run.start });
            }
            from.number = of.number + 1;
        }
    }
}
