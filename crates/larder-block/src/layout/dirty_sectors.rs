//! How much is dirty: of each core, and of all.

use super::CoreId;

/// *Always:* the sum over all cores is that of all.
#[derive(Debug, Default)]
pub(super) struct DirtySectors {
    all: u64,
    /// By number, as far as something was dirty.
    cores: Vec<u64>,
}

impl DirtySectors {
    pub(super) fn all(&self) -> u64 {
        self.all
    }

    pub(super) fn of(&self, core: CoreId) -> u64 {
        self.cores.get(core.index()).copied().unwrap_or(0)
    }

    /// So many more of a core are dirty.
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

    /// So many of a core are not dirty any more.
    ///
    /// # Panics
    /// If fewer were.
    pub(super) fn remove(&mut self, core: CoreId, sectors: u64) {
        if sectors == 0 {
            return;
        }
        let left = self.of(core).checked_sub(sectors);
        self.cores[core.index()] = left.expect("no more becomes clean than was dirty");
        self.all -= sectors;
    }
}
