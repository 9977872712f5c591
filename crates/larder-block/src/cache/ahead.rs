//! Which parts are read ahead of a stream: absent ones, in pieces, as long as few bytes are in flight.

use std::collections::BTreeMap;

use crate::layout::{CoreId, Piece, PieceState, SECTOR_BYTES, Span};

/// Length of one read-ahead piece, in sectors: 128 KiB. A client read of a part waits for the whole piece, so pieces
/// are short.
const PIECE_SECTORS: u64 = (128 << 10) / SECTOR_BYTES as u64;
/// Bytes that are read ahead at the same time, in total. This bounds the memory for read-ahead.
const UNDER_WAY_BYTES_MAX: u64 = 16 << 20;

/// What may be read ahead: how much at a time, and up to which end of each core.
#[derive(Debug, Default)]
pub(super) struct AheadLimits {
    /// Bytes that are being read ahead.
    under_way_bytes: u64,
    /// The length of each core, if it was set.
    core_sectors: BTreeMap<CoreId, u64>,
}

impl AheadLimits {
    pub(super) fn set_core_bytes(&mut self, core: CoreId, bytes: u64) {
        self.core_sectors.insert(core, bytes / SECTOR_BYTES as u64);
    }

    /// The length of a core, if it is known.
    pub(super) fn core_sectors(&self, core: CoreId) -> Option<u64> {
        self.core_sectors.get(&core).copied()
    }

    /// A core was removed.
    pub(super) fn forget_core(&mut self, core: CoreId) {
        self.core_sectors.remove(&core);
    }

    /// Whether this much more may be in flight.
    pub(super) fn have_room_for(&self, span: Span) -> bool {
        self.under_way_bytes + span.bytes() as u64 <= UNDER_WAY_BYTES_MAX
    }

    /// A piece is being read.
    pub(super) fn begin(&mut self, piece: Span) {
        self.under_way_bytes += piece.bytes() as u64;
    }

    /// A piece is cached, or is not to be.
    pub(super) fn end(&mut self, piece: Span) {
        self.under_way_bytes -= piece.bytes() as u64;
    }
}

/// The absent parts of what a look-up has found, in pieces.
pub(super) fn absent_pieces(found: &[Piece]) -> impl Iterator<Item = Span> {
    absent_runs(found).flat_map(in_pieces)
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
