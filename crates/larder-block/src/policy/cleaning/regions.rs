//! Regions of 100 MiB of a core, ordered by their dirty share.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::chunk::CHUNK_SECTORS;

/// Chunks of a region: 100 MiB, as in ACP of Open CAS.
pub(super) const REGION_CHUNKS: u64 = 25;
const REGION_BYTES: u64 = REGION_CHUNKS * CHUNK_SECTORS * 512;
/// Steps of dirtiness: clean, and each started tenth.
const STEPS: usize = 11;

#[derive(Clone, Copy, Debug, Default)]
struct Region {
    /// Bit mask of its chunks that have data to destage.
    chunks: u32,
    /// Upper bound of the dirty bytes in them.
    bytes: u64,
}

impl Region {
    fn step(self) -> usize {
        let tenths = (self.bytes * 10).div_ceil(REGION_BYTES).max(u64::from(self.chunks != 0));
        usize::try_from(tenths).map_or(STEPS - 1, |step| step.min(STEPS - 1))
    }
}

#[derive(Debug, Default)]
pub(super) struct Regions {
    regions: FxHashMap<u64, Region>,
    by_step: [BTreeSet<u64>; STEPS],
}

impl Regions {
    /// Records that the bytes of a chunk that may be destaged have changed.
    pub(super) fn change(&mut self, chunk: u64, before: Option<u32>, after: Option<u32>) {
        if before == after {
            return;
        }
        let number = chunk / REGION_CHUNKS;
        let region = self.regions.entry(number).or_default();
        let old = region.step();
        let bit = 1 << (chunk % REGION_CHUNKS);
        region.chunks = if after.is_some() { region.chunks | bit } else { region.chunks & !bit };
        region.bytes =
            region.bytes + u64::from(after.unwrap_or(0)) - u64::from(before.unwrap_or(0));
        let new = region.step();
        debug_assert!(region.chunks != 0 || region.bytes == 0, "no bytes without a chunk");
        if new == 0 {
            self.regions.remove(&number);
        }
        if old != new {
            self.by_step[old].remove(&number);
            if new > 0 {
                self.by_step[new].insert(number);
            }
        }
    }

    /// The first of the dirtiest regions, and its dirty share in tenths: (tenths, region).
    pub(super) fn dirtiest(&self) -> Option<(usize, u64)> {
        (1..STEPS).rev().find_map(|step| Some((step, *self.by_step[step].first()?)))
    }

    /// The first chunk at or after `chunk` in its region that has data to destage.
    pub(super) fn chunk_from(&self, chunk: u64) -> Option<u64> {
        let (number, within) = (chunk / REGION_CHUNKS, chunk % REGION_CHUNKS);
        let chunks = self.regions.get(&number)?.chunks & (u32::MAX << within);
        (chunks != 0).then(|| number * REGION_CHUNKS + u64::from(chunks.trailing_zeros()))
    }

    /// Approximate bytes of memory.
    pub(super) fn memory_bytes(&self) -> usize {
        self.regions.capacity() * size_of::<(u64, Region)>()
            + self.regions.len() * size_of::<u64>() * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dirtiest_is_first_and_of_equal_ones_the_one_in_front() {
        let mut regions = Regions::default();
        assert_eq!(regions.dirtiest(), None);
        regions.change(30, None, Some(4096));
        regions.change(3, None, Some(4096));
        assert_eq!(regions.dirtiest(), Some((1, 0)));
        for chunk in 50..75 {
            regions.change(chunk, None, Some(4 << 20));
        }
        assert_eq!(regions.dirtiest(), Some((10, 2)));
        assert_eq!((regions.chunk_from(50), regions.chunk_from(4)), (Some(50), None));
        for chunk in 50..74 {
            regions.change(chunk, Some(4 << 20), None);
        }
        assert_eq!((regions.dirtiest(), regions.chunk_from(50)), (Some((1, 0)), Some(74)));
        regions.change(74, Some(4 << 20), None);
        regions.change(3, Some(4096), None);
        assert_eq!(regions.dirtiest(), Some((1, 1)));
        regions.change(30, Some(4096), Some(8192));
        regions.change(30, Some(8192), None);
        assert!(regions.dirtiest().is_none() && regions.regions.is_empty());
    }
}
