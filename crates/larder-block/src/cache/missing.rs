//! Missing cores: their cached blocks are not served, and their dirty blocks stay dirty.

use std::collections::BTreeSet;

use super::Cache;
use crate::layout::CoreId;

impl Cache {
    /// Says which of its cores are not there.
    pub(crate) fn set_missing(&mut self, cores: BTreeSet<CoreId>) {
        self.missing = cores;
    }

    /// One of these is there now.
    pub(crate) fn is_there(&mut self, core: CoreId) {
        self.missing.remove(&core);
    }

    /// Which of its cores are not there.
    pub fn missing(&self) -> &BTreeSet<CoreId> {
        &self.missing
    }

    /// Whether the cores that are there have durably all that is cached of them.
    pub(crate) fn has_destaged(&self) -> bool {
        let of_missing: u64 =
            self.missing.iter().map(|core| self.layout.dirty_sectors(*core)).sum();
        self.layout.is_on_cores()
            || (of_missing > 0
                && self.layout.unloaded_parts() == 0
                && self.layout.usage().dirty_sectors == of_missing)
    }
}
