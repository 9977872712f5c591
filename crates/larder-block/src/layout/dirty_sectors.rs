//! Counts dirty sectors, per core and in total.

use super::CoreId;

/// *Always:* the total is the sum over all cores.
#[derive(Debug, Default)]
pub(super) struct DirtySectors {
    all: u64,
    /// By core number, up to the highest core that ever had dirty sectors.
    cores: Vec<u64>,
}

impl DirtySectors {
    pub(super) fn all(&self) -> u64 {
        self.all
    }

    pub(super) fn of(&self, core: CoreId) -> u64 {
        self.cores.get(core.index()).copied().unwrap_or(0)
    }

    /// `sectors` more sectors of a core are dirty.
    pub(super) fn add(&mut self, core: CoreId, sectors: u64) {
        if sectors == 0 {
            return;
        }
        if self.cores.len() <= core.index() {
            self.cores.resize(core.index() + 1, 0);
        }
        self.cores[core.index()] += sectors;
        self.all += sectors;
    }

    /// `sectors` sectors of a core are no longer dirty.
    ///
    /// # Panics
    /// If fewer sectors were dirty.
    pub(super) fn remove(&mut self, core: CoreId, sectors: u64) {
        if sectors == 0 {
            return;
        }
        let left = self.of(core).checked_sub(sectors);
        self.cores[core.index()] = left.expect("no more becomes clean than was dirty");
        self.all -= sectors;
    }
}
