//! The possibly dirty data of a core, in the two orders in which it is destaged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::chunk::{CHUNK_SECTORS, Chunk, Grains};
use super::regions::{REGION_CHUNKS, Regions};

/// Clean chunks stay in the table until they exceed half of it by this number.
const CLEAN_CHUNKS: usize = 64;

/// Chunks of a core by number. *Always:* a chunk with data to destage is in `regions`. A listed chunk is exactly once
/// in `ages`. `bytes` is the sum over all chunks.
#[derive(Debug, Default)]
pub(super) struct CoreTable {
    chunks: FxHashMap<u64, Chunk>,
    /// Chunks by the time of their last write. An entry may be outdated: its reader checks the chunk for a later
    /// write.
    ages: BinaryHeap<Reverse<(u32, u64)>>,
    regions: Regions,
    /// Upper bound of the dirty bytes that are not in flight.
    bytes: u64,
    clean_chunks: usize,
    /// End of the last sector that was ever dirty: a grain may end beyond the core.
    end: u64,
    /// No data is sent to the core before this time.
    pub(super) rests_until: Duration,
}

/// Grains of a chunk that were taken for destaging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TakenGrains {
    chunk: u64,
    pub(super) grains: Grains,
}

impl CoreTable {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Records that these sectors were written at `seconds`.
    pub(super) fn wrote(&mut self, sectors: &Range<u64>, seconds: u32) {
        self.end = self.end.max(sectors.end);
        for number in sectors.start / CHUNK_SECTORS..=(sectors.end - 1) / CHUNK_SECTORS {
            let first = number * CHUNK_SECTORS;
            let within =
                sectors.start.max(first) - first..sectors.end.min(first + CHUNK_SECTORS) - first;
            self.chunks.entry(number).or_insert_with(|| {
                self.clean_chunks += 1;
                Chunk::default()
            });
            self.change(number, |chunk| {
                chunk.wrote(&within);
                chunk.written = chunk.written.max(seconds);
            });
        }
    }

    /// The least recently written chunk, and the time of its last write in seconds: (seconds, chunk).
    pub(super) fn oldest(&mut self) -> Option<(u32, u64)> {
        loop {
            let &Reverse((seconds, number)) = self.ages.peek()?;
            let chunk = self.chunks.get_mut(&number).expect("a listed chunk is in the table");
            let is_available = chunk.available().is_some();
            if is_available && chunk.written == seconds {
                return Some((seconds, number));
            }
            self.ages.pop();
            if is_available {
                self.ages.push(Reverse((chunk.written, number)));
            } else {
                chunk.is_listed = false;
            }
        }
    }

    /// The first of the dirtiest regions, and its dirty share in tenths: (tenths, region).
    pub(super) fn dirtiest_region(&self) -> Option<(usize, u64)> {
        self.regions.dirtiest()
    }

    /// The sectors of a region.
    pub(super) fn sectors_of_region(region: u64) -> Range<u64> {
        let sectors = REGION_CHUNKS * CHUNK_SECTORS;
        region * sectors..(region + 1) * sectors
    }

    /// Takes dirty grains of the first chunk at or after `sector` in its region; see [`Chunk::take`].
    pub(super) fn take_from(&mut self, sector: u64, budget: u64) -> Option<TakenGrains> {
        let (number, within) = (sector / CHUNK_SECTORS, sector % CHUNK_SECTORS);
        let found = self.regions.chunk_from(number)?;
        if found != number {
            return self.take(found, 0, budget);
        }
        self.take(number, within, budget).or_else(|| {
            let is_last = (number + 1).is_multiple_of(REGION_CHUNKS);
            let next = if is_last { None } else { self.regions.chunk_from(number + 1) };
            self.take(next?, 0, budget)
        })
    }

    /// Takes dirty grains of a chunk, from its sector `from` on.
    pub(super) fn take(&mut self, number: u64, from: u64, budget: u64) -> Option<TakenGrains> {
        let mut taken = None;
        self.change(number, |chunk| taken = chunk.take(from, budget));
        taken.map(|grains| TakenGrains { chunk: number, grains })
    }

    /// Reports that the taken grains have ended.
    pub(super) fn give_back(&mut self, taken: TakenGrains, was_well: bool) {
        self.change(taken.chunk, |chunk| chunk.give_back(taken.grains, was_well));
        if self.clean_chunks > self.chunks.len() / 2 + CLEAN_CHUNKS {
            self.forget_clean();
        }
    }

    /// The sectors of the taken grains.
    pub(super) fn sectors(&self, taken: TakenGrains) -> Range<u64> {
        let first = taken.chunk * CHUNK_SECTORS;
        let within = taken.grains.sectors();
        first + within.start..(first + within.end).min(self.end)
    }

    /// Approximate bytes of memory.
    pub(super) fn memory_bytes(&self) -> usize {
        let chunks = self.chunks.capacity() * (size_of::<(u64, Chunk)>() + 1);
        chunks + self.ages.capacity() * size_of::<(u32, u64)>() + self.regions.memory_bytes()
    }

    /// Changes a chunk of the table, and updates sums and orders.
    fn change(&mut self, number: u64, change: impl FnOnce(&mut Chunk)) {
        let chunk = self.chunks.get_mut(&number).expect("a chunk of the table");
        let (was_clean, bytes, available) = (is_idle(chunk), chunk.bytes(), chunk.available());
        change(chunk);
        self.bytes = self.bytes + u64::from(chunk.bytes()) - u64::from(bytes);
        self.regions.change(number, available, chunk.available());
        if chunk.available().is_some() && !chunk.is_listed {
            chunk.is_listed = true;
            self.ages.push(Reverse((chunk.written, number)));
        }
        match (was_clean, is_idle(chunk)) {
            (true, false) => self.clean_chunks -= 1,
            (false, true) => self.clean_chunks += 1,
            _ => {}
        }
    }

    fn forget_clean(&mut self) {
        self.chunks.retain(|_, chunk| !is_idle(chunk));
        self.clean_chunks = 0;
        let listed = self.chunks.iter_mut().filter(|(_, chunk)| chunk.available().is_some());
        self.ages = listed.map(|(&number, chunk)| Reverse((chunk.written, number))).collect();
        for chunk in self.chunks.values_mut() {
            chunk.is_listed = chunk.available().is_some();
        }
        self.chunks.shrink_to(self.chunks.len() * 2);
    }
}

/// Whether the table can drop the chunk.
fn is_idle(chunk: &Chunk) -> bool {
    chunk.is_clean() && !chunk.is_under_way
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that sums and both orders match the chunks.
    fn audit(table: &CoreTable) {
        let available = table.chunks.iter().filter(|(_, chunk)| chunk.available().is_some());
        for (&number, chunk) in available {
            assert!(
                chunk.is_listed && table.regions.chunk_from(number) == Some(number),
                "{number}"
            );
        }
        let listed = table.chunks.iter().filter(|(_, chunk)| chunk.is_listed).count();
        assert_eq!(listed, table.ages.len());
        assert_eq!(
            table.bytes,
            table.chunks.values().map(|chunk| u64::from(chunk.bytes())).sum::<u64>()
        );
        assert_eq!(
            table.clean_chunks,
            table.chunks.values().filter(|chunk| is_idle(chunk)).count()
        );
    }

    #[test]
    fn both_orders_hold_whatever_happens() {
        for seed in 0..20 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut table = CoreTable::default();
            let mut under_way = Vec::new();
            for second in 0..2000 {
                let first = rng.u64(0..200 * CHUNK_SECTORS);
                match rng.u8(0..4) {
                    0 => table.wrote(&(first..first + rng.u64(1..20_000)), second),
                    1 => {
                        let taken =
                            table.oldest().and_then(|(_, chunk)| table.take(chunk, 0, 100 << 10));
                        under_way.extend(taken);
                    }
                    2 => under_way.extend(table.take_from(first, rng.u64(0..2 << 20))),
                    _ if under_way.is_empty() => {}
                    _ => {
                        let taken = under_way.swap_remove(rng.usize(0..under_way.len()));
                        table.give_back(taken, rng.bool());
                    }
                }
                if second % 16 == 0 {
                    audit(&table);
                }
            }
            under_way.drain(..).for_each(|taken| table.give_back(taken, true));
            while let Some((_, chunk)) = table.oldest() {
                let taken = table.take(chunk, 0, u64::MAX).unwrap();
                table.give_back(taken, true);
            }
            audit(&table);
            assert_eq!((table.bytes, table.dirtiest_region()), (0, None));
        }
    }

    #[test]
    fn memory_is_that_of_what_may_be_dirty() {
        let mut table = CoreTable::default();
        for round in 0..100 {
            for number in 0..1000 {
                let first = (round * 1000 + number) * CHUNK_SECTORS;
                table.wrote(&(first..first + 8), 0);
                let taken = table.take_from(first, 0).unwrap();
                table.give_back(taken, true);
            }
        }
        assert!(table.memory_bytes() < 20_000, "{}", table.memory_bytes());
        (0..10_000).for_each(|it| table.wrote(&(it * CHUNK_SECTORS..it * CHUNK_SECTORS + 8), 0));
        assert!(table.memory_bytes() < 150 * 10_000, "{}", table.memory_bytes());
    }

    #[test]
    fn what_is_taken_does_not_go_beyond_what_was_written() {
        let mut table = CoreTable::default();
        table.wrote(&(8000..8200), 0);
        let taken = table.take_from(0, u64::MAX).unwrap();
        assert_eq!(table.sectors(taken), 7936..8192);
        let taken = table.take_from(0, u64::MAX).unwrap();
        assert_eq!(table.sectors(taken), 8192..8200);
    }
}
