//! A chunk: 4 MiB of a core, and which of its 64 grains of 64 KiB may be dirty.

use std::ops::Range;

/// Sectors of a chunk: 4 MiB.
pub(super) const CHUNK_SECTORS: u64 = GRAIN_SECTORS * 64;
/// Sectors of a grain: 64 KiB.
const GRAIN_SECTORS: u64 = 128;
const GRAIN_BYTES: u32 = 64 << 10;

#[derive(Debug, Default)]
pub(super) struct Chunk {
    /// Grains that may be dirty. Excludes grains in flight unless they were written since.
    dirty: u64,
    /// Upper bound of the dirty bytes: data that was written twice counts twice, up to whole grains.
    bytes: u32,
    /// Time of the last write, in seconds.
    pub(super) written: u32,
    /// Some grains are in flight.
    pub(super) is_under_way: bool,
    /// Whether the chunk is listed in the ages of its core.
    pub(super) is_listed: bool,
}

/// Grains of a chunk that are in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grains {
    mask: u64,
    /// Upper bound of the dirty bytes in them.
    pub(super) bytes: u32,
}

impl Grains {
    /// The sectors of the chunk from the first grain to the last.
    pub(super) fn sectors(self) -> Range<u64> {
        let (first, behind) = (self.mask.trailing_zeros(), 64 - self.mask.leading_zeros());
        u64::from(first) * GRAIN_SECTORS..u64::from(behind) * GRAIN_SECTORS
    }
}

impl Chunk {
    pub(super) fn is_clean(&self) -> bool {
        self.dirty == 0
    }

    /// Bytes that may be destaged now; `None` while a grain is in flight.
    pub(super) fn available(&self) -> Option<u32> {
        (self.dirty != 0 && !self.is_under_way).then_some(self.bytes)
    }

    pub(super) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Records a write of these sectors of the chunk.
    pub(super) fn wrote(&mut self, sectors: &Range<u64>) {
        debug_assert!(sectors.start < sectors.end && sectors.end <= CHUNK_SECTORS);
        let (first, last) = (sectors.start / GRAIN_SECTORS, (sectors.end - 1) / GRAIN_SECTORS);
        let mask = (u64::MAX >> (63 - (last - first))) << first;
        let bytes = u32::try_from((sectors.end - sectors.start) * 512).expect("4 MiB at most");
        self.put(Grains { mask, bytes });
    }

    /// Takes grains from sector `from` of the chunk on, with up to `budget` dirty bytes; at least one grain if there
    /// is any.
    pub(super) fn take(&mut self, from: u64, budget: u64) -> Option<Grains> {
        let from = from / GRAIN_SECTORS;
        let candidates = self.dirty & (u64::MAX << from);
        if candidates == 0 || self.is_under_way {
            return None;
        }
        // Which grains contain the dirty bytes is unknown: assume that they are spread evenly.
        let grains = self.dirty.count_ones();
        let grain_bytes = self.bytes.div_ceil(grains).max(1);
        let wanted = (budget / u64::from(grain_bytes)).clamp(1, 64);
        let mut left = candidates;
        for _ in 0..wanted {
            left &= left.wrapping_sub(1);
        }
        let mask = candidates & !left;
        let bytes = if mask == self.dirty { self.bytes } else { grain_bytes * mask.count_ones() };
        let taken = Grains { mask, bytes: bytes.min(self.bytes) };
        self.dirty &= !mask;
        self.bytes -= taken.bytes;
        self.is_under_way = true;
        Some(taken)
    }

    /// The grains in flight have ended.
    pub(super) fn give_back(&mut self, taken: Grains, was_well: bool) {
        debug_assert!(self.is_under_way, "one that was taken");
        self.is_under_way = false;
        if !was_well {
            self.put(taken);
        }
    }

    fn put(&mut self, grains: Grains) {
        self.dirty |= grains.mask;
        self.bytes =
            (self.bytes.saturating_add(grains.bytes)).min(self.dirty.count_ones() * GRAIN_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_taken_in_pieces_and_keeps_what_is_written_during_that() {
        let mut chunk = Chunk::default();
        chunk.wrote(&(0..CHUNK_SECTORS));
        assert_eq!(chunk.bytes(), 4 << 20);
        chunk.wrote(&(0..CHUNK_SECTORS));
        assert_eq!(chunk.bytes(), 4 << 20, "not more than there is");

        let taken = chunk.take(0, 200 << 10).unwrap();
        assert_eq!((taken.sectors(), taken.bytes), (0..3 * 128, 192 << 10));
        assert_eq!((chunk.available(), chunk.take(0, 1)), (None, None), "one piece at a time");
        chunk.wrote(&(8..16));
        chunk.give_back(taken, true);
        assert_eq!(chunk.available(), Some((4 << 20) - (192 << 10) + 4096));
        let rest = chunk.take(0, u64::MAX).unwrap();
        assert_eq!(rest.sectors(), 0..CHUNK_SECTORS);
        assert!(chunk.is_clean());
        chunk.give_back(rest, false);
        assert_eq!(chunk.available(), Some(rest.bytes), "what failed is still dirty");
        let rest = chunk.take(CHUNK_SECTORS - 1, 0).unwrap();
        assert_eq!(rest.sectors(), CHUNK_SECTORS - 128..CHUNK_SECTORS, "one grain at least");
        chunk.give_back(rest, true);
        assert_eq!(chunk.take(CHUNK_SECTORS - 1, 0), None);
    }

    #[test]
    fn sectors_belong_to_the_grains_around_them() {
        for (sectors, grains) in [(0..1, 0..128), (127..129, 0..256), (8191..8192, 8064..8192)] {
            let mut chunk = Chunk::default();
            chunk.wrote(&sectors);
            assert_eq!(chunk.take(0, u64::MAX).unwrap().sectors(), grains, "{sectors:?}");
        }
    }
}
