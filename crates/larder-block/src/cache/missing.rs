//! Missing cores: cached blocks of theirs are not served, and dirty blocks stay dirty.

use std::collections::BTreeSet;

use super::Cache;
use crate::layout::CoreId;

impl Cache {
    /// Sets which of its cores are missing.
    pub(crate) fn set_missing(&mut self, cores: BTreeSet<CoreId>) {
        self.missing = cores;
    }

    /// A missing core is present again.
    pub(crate) fn is_there(&mut self, core: CoreId) {
        self.missing.remove(&core);
    }

    /// The cores that are missing.
    pub fn missing(&self) -> &BTreeSet<CoreId> {
        &self.missing
    }

    /// Whether the present cores durably have all data that is cached of them.
    pub(crate) fn has_destaged(&self) -> bool {
        let of_missing: u64 =
            self.missing.iter().map(|core| self.layout.dirty_sectors(*core)).sum();
        self.layout.is_on_cores()
            || (of_missing > 0
                && self.layout.unloaded_parts() == 0
                && self.layout.usage().dirty_sectors == of_missing)
    }
}
