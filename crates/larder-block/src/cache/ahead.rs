//! Reads ahead of streams: reads absent parts of a core in the background, and caches them like missed reads.
//!
//! *Always:* a piece that is read ahead holds its range lock exclusively from before the read of the core until the
//! piece is cached. Writes of these sectors wait, so the cached data equals the data of the core. Reads of them wait
//! too, so nothing is read twice; if the piece was not cached, they read the core themselves. The lock is taken only
//! where no request holds or wants one: read-ahead never reads what another request reads, and never waits. Clients do
//! not see how it ends.

use super::op::{Op, Step, What};
use super::state::{Cache, Health};
use crate::layout::{CoreId, DeviceIo, Piece, PieceState, RequestId, SECTOR_BYTES, Span, Target};
use crate::policy::{Direction, ReadAheadPolicy, StreamFacts, is_short_of_room};

/// Length of one read-ahead piece, in sectors: 128 KiB. A client read of a part waits for the whole piece, so pieces
/// are short.
const PIECE_SECTORS: u64 = (128 << 10) / SECTOR_BYTES as u64;
/// Bytes that are read ahead at the same time, in total. This bounds the memory for read-ahead.
const UNDER_WAY_BYTES_MAX: u64 = 16 << 20;

impl Cache {
    /// Sets the length of a core in bytes, in whole blocks of the core and of the cache device. Cores of unknown
    /// length are not read ahead.
    pub fn set_core_bytes(&mut self, core: CoreId, bytes: u64) {
        self.core_sectors.insert(core, bytes / SECTOR_BYTES as u64);
    }

    /// Begins read-ahead after a client read that the cache serves, for the IO class of that read.
    pub(super) fn read_ahead(&mut self, key: usize, span: Span) {
        if self.options.read_ahead == ReadAheadPolicy::Off {
            return;
        }
        let Some(part) = self.next_part(span) else { return };
        if !self.may_read_ahead(key) {
            return;
        }
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.clear();
        self.layout.lookup(part, &mut pieces);
        let refused =
            absent_runs(&pieces).flat_map(in_pieces).find(|absent| !self.begin_ahead(key, *absent));
        self.pieces = pieces;
        if let Some(run) = self.cut_off.run_mut(span, Direction::Read) {
            // The next read of the stream retries the refused piece.
            run.ahead = refused.map_or(part.end(), |refused| refused.first);
        }
    }

    /// The next part to read ahead of the stream that `span` continues.
    fn next_part(&mut self, span: Span) -> Option<Span> {
        let core_sectors = *self.core_sectors.get(&span.core)?;
        let is_full = self.is_full_for(span);
        let run = *self.cut_off.run_mut(span, Direction::Read)?;
        let part = self.options.read_ahead.next_part(&StreamFacts {
            end: span.end(),
            bytes: run.bytes,
            ahead: run.ahead,
            bytes_left: self.cut_off.bytes_left(run.bytes, is_full),
            core_sectors,
            line_sectors: u64::from(self.shape.line_bytes) / SECTOR_BYTES as u64,
        })?;
        let sectors = u32::try_from(part.end - part.start).expect("a window at most");
        Some(Span { core: span.core, first: part.start, sectors })
    }

    /// Whether read-ahead for the class of this op is allowed now.
    fn may_read_ahead(&self, key: usize) -> bool {
        let keeps = self.mode_of(self.ops[key].class).is_some_and(|mode| mode.keeps_reads());
        keeps
            && self.health == Health::Whole
            && self.takes_in()
            && !is_short_of_room(self.layout.room(), self.dirty_percent())
    }

    /// Begins the read of one piece. `false` if too much is in flight, or if the class may have no more. Skips a piece
    /// that another request has locked.
    fn begin_ahead(&mut self, of: usize, span: Span) -> bool {
        let class = self.ops[of].class;
        let bytes = span.bytes() as u64;
        if self.ahead_bytes + bytes > UNDER_WAY_BYTES_MAX
            || self.layout.refuses(class, span.sectors).is_some()
        {
            return false;
        }
        if !self.locks.is_free(span) {
            return true;
        }
        // No client waits for this op.
        let op = Op { class, ..Op::of(RequestId(u64::MAX), What::Ahead(span)) };
        let key = self.ops.insert(op);
        self.locks.acquire(key, span, true);
        self.ahead_bytes += bytes;
        self.statistics.read_ahead.requests += 1;
        self.statistics.read_ahead.bytes += bytes;
        let target = Target::Core(span.core);
        let io =
            DeviceIo::Read { target, offset: span.offset(), bytes: span.bytes(), reader: None };
        self.own_io(key, Step::Ahead, io);
        true
    }

    /// The core has answered: caches the data, if that is still allowed.
    pub(super) fn ahead_was_read(&mut self, key: usize, is_well: bool) {
        self.statistics.read_ahead.failed += u64::from(!is_well);
        if !is_well || !self.may_read_ahead(key) {
            return self.forget(key);
        }
        let (span, data) = (self.ops[key].span(), self.ops[key].data.take());
        self.insert(key, span, data.expect("the core has answered with them"));
    }
}

/// Joins adjacent absent pieces: a layout may report them line by line.
fn absent_runs(pieces: &[Piece]) -> impl Iterator<Item = Span> {
    let runs = pieces.chunk_by(|a, b| a.state == b.state && a.span.end() == b.span.first);
    let absent = runs.filter(|run| run[0].state == PieceState::Absent);
    absent.map(|run| Span {
        sectors: run.iter().map(|piece| piece.span.sectors).sum(),
        ..run[0].span
    })
}

/// Cuts a span into read-ahead pieces.
fn in_pieces(span: Span) -> impl Iterator<Item = Span> {
    let end = span.end();
    std::iter::successors(Some(span.first), move |first| {
        // Pieces end at multiples of the piece length in the core, wherever the span begins.
        Some(first - first % PIECE_SECTORS + PIECE_SECTORS).filter(|next| *next < end)
    })
    .map(move |first| {
        let next = (first - first % PIECE_SECTORS + PIECE_SECTORS).min(end);
        let sectors = u32::try_from(next - first).expect("a piece");
        Span { first, sectors, ..span }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_follow_each_other_are_read_together() {
        let core = CoreId::new(0).unwrap();
        let piece = |first, sectors, state| Piece { span: Span { core, first, sectors }, state };
        let (absent, clean) = (PieceState::Absent, PieceState::Clean);
        let pieces =
            [piece(0, 8, absent), piece(8, 8, absent), piece(16, 3, clean), piece(19, 5, absent)];
        let runs: Vec<_> = absent_runs(&pieces).map(|run| (run.first, run.sectors)).collect();
        assert_eq!(runs, [(0, 16), (19, 5)]);
    }

    #[test]
    fn a_part_is_read_in_pieces_that_end_where_pieces_of_the_core_do() {
        let core = CoreId::new(0).unwrap();
        let pieces = |first, sectors| -> Vec<(u64, u32)> {
            let all = in_pieces(Span { core, first, sectors });
            all.map(|piece| (piece.first, piece.sectors)).collect()
        };
        assert_eq!(pieces(0, 8), [(0, 8)]);
        assert_eq!(pieces(248, 8), [(248, 8)]);
        assert_eq!(pieces(248, 9), [(248, 8), (256, 1)]);
        assert_eq!(pieces(8, 600), [(8, 248), (256, 256), (512, 96)]);
    }
}
