//! Erase counts of the blocks of a medium, without bad ones: least, most and mean, updated at each erase.

/// Number of blocks by erase count.
#[derive(Debug)]
pub(crate) struct WearCounts {
    blocks: Vec<u32>,
    min: usize,
    max: usize,
    erases: u64,
    good: u32,
}

impl WearCounts {
    pub(crate) fn new(blocks: u32) -> Self {
        Self { blocks: vec![blocks], min: 0, max: 0, erases: 0, good: blocks }
    }

    /// Records that a block was erased for the `erases`th time.
    pub(crate) fn erased(&mut self, erases: u32) {
        assert!(erases > 0, "the first erase is number 1");
        let erases = erases as usize;
        assert!(self.blocks[erases - 1] > 0, "no block was erased {} times", erases - 1);
        self.blocks[erases - 1] -= 1;
        if self.blocks.len() == erases {
            self.blocks.push(0);
        }
        self.blocks[erases] += 1;
        self.erases += 1;
        self.max = self.max.max(erases);
        self.settle();
    }

    /// Restores a block: it had been erased `erases` times, and may be retired.
    pub(crate) fn restored(&mut self, erases: u32, retired: bool) {
        assert!(self.blocks[0] > 0, "all blocks were erased");
        self.blocks[0] -= 1;
        let at = erases as usize;
        if self.blocks.len() <= at {
            self.blocks.resize(at + 1, 0);
        }
        self.blocks[at] += 1;
        self.erases += u64::from(erases);
        self.max = self.max.max(at);
        if retired {
            self.retired(erases);
        } else {
            self.settle();
        }
    }

    /// Removes a block that was erased `erases` times.
    pub(crate) fn retired(&mut self, erases: u32) {
        assert!(self.blocks[erases as usize] > 0, "no block was erased {erases} times");
        self.blocks[erases as usize] -= 1;
        self.erases -= u64::from(erases);
        self.good -= 1;
        self.settle();
    }

    fn settle(&mut self) {
        while self.min < self.max && self.blocks[self.min] == 0 {
            self.min += 1;
        }
        while self.max > self.min && self.blocks[self.max] == 0 {
            self.max -= 1;
        }
        debug_assert!(self.min <= self.max && self.max < self.blocks.len());
        debug_assert!(self.good == 0 || self.blocks[self.min] > 0, "no block has the least wear");
    }

    #[allow(clippy::cast_possible_truncation)] // erases are counted in 32 bits
    pub(crate) fn min(&self) -> u32 {
        self.min as u32
    }

    #[allow(clippy::cast_possible_truncation)] // erases are counted in 32 bits
    pub(crate) fn max(&self) -> u32 {
        self.max as u32
    }

    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn mean(&self) -> f64 {
        self.erases as f64 / f64::from(self.good.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restored_blocks_count_as_if_they_had_been_erased() {
        let mut counts = WearCounts::new(3);
        counts.restored(5, false);
        counts.restored(7, true);
        assert_eq!((counts.min(), counts.max()), (0, 5));
        counts.restored(2, false);
        assert_eq!((counts.min(), counts.max()), (2, 5));
        assert!((counts.mean() - 3.5).abs() < 1e-12);
    }

    #[test]
    fn counts_follow_erases_and_retirements() {
        let mut counts = WearCounts::new(3);
        counts.erased(1);
        counts.erased(2);
        assert_eq!((counts.min(), counts.max()), (0, 2));
        counts.erased(1);
        counts.erased(1);
        assert_eq!((counts.min(), counts.max()), (1, 2));
        counts.retired(2);
        assert_eq!((counts.min(), counts.max()), (1, 1));
        assert!((counts.mean() - 1.0).abs() < 1e-12);
    }
}
