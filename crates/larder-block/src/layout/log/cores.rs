//! Which writes to the cores are durable there.
//!
//! *Always:* a flush covers only what had ended before it was issued.

use crate::layout::CoreId;

/// Counts of the writes to a core. A flush covers the counts at the time when it was issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WriteCounts {
    /// Number of writes around; a client flush must make them durable.
    bypasses: u64,
    bypasses_flushed: u64,
    /// Number of destaging writes; a drain must make them durable.
    destages: u64,
    destages_flushed: u64,
}

impl WriteCounts {
    fn has_bypasses(&self) -> bool {
        self.bypasses > self.bypasses_flushed
    }

    fn has_destages(&self) -> bool {
        self.destages > self.destages_flushed
    }

    fn is_settled(&self) -> bool {
        !self.has_bypasses() && !self.has_destages()
    }
}

/// The writes to all cores.
#[derive(Debug, Default)]
pub(super) struct CoreWrites(Vec<WriteCounts>);

impl CoreWrites {
    fn at(&mut self, core: CoreId) -> &mut WriteCounts {
        if self.0.len() <= core.index() {
            self.0.resize(core.index() + 1, WriteCounts::default());
        }
        &mut self.0[core.index()]
    }

    fn of(&self, core: CoreId) -> WriteCounts {
        self.0.get(core.index()).copied().unwrap_or_default()
    }

    /// A write around has reached a core, and need not be durable there.
    pub(super) fn bypassed(&mut self, core: CoreId) {
        self.at(core).bypasses += 1;
    }

    /// A destaging write has ended.
    pub(super) fn destaged(&mut self, core: CoreId) {
        self.at(core).destages += 1;
    }

    /// A flush has succeeded that covers these writes.
    pub(super) fn flushed(&mut self, core: CoreId, covers: WriteCounts) {
        let now = self.at(core);
        now.bypasses_flushed = now.bypasses_flushed.max(covers.bypasses);
        now.destages_flushed = now.destages_flushed.max(covers.destages);
    }

    /// A core was removed.
    pub(super) fn forget(&mut self, core: CoreId) {
        *self.at(core) = WriteCounts::default();
    }

    /// Whether a crash leaves everything on a core that it has.
    pub(super) fn is_settled(&self, core: CoreId) -> bool {
        self.of(core).is_settled()
    }

    /// The writes to a core, if it has destaged data that is not durable.
    pub(super) fn unflushed_destages(&self, core: CoreId) -> Option<WriteCounts> {
        Some(self.of(core)).filter(WriteCounts::has_destages)
    }

    /// The cores with writes around that are not durable.
    pub(super) fn with_bypasses(&self) -> impl Iterator<Item = (CoreId, WriteCounts)> {
        self.those(WriteCounts::has_bypasses)
    }

    /// The cores with destaged data that is not durable.
    pub(super) fn with_destages(&self) -> impl Iterator<Item = (CoreId, WriteCounts)> {
        self.those(WriteCounts::has_destages)
    }

    /// The cores with any data that is not durable.
    pub(super) fn unsettled(&self) -> impl Iterator<Item = (CoreId, WriteCounts)> {
        self.those(|writes| !writes.is_settled())
    }

    fn those(
        &self,
        wanted: impl Fn(&WriteCounts) -> bool,
    ) -> impl Iterator<Item = (CoreId, WriteCounts)> {
        let all = (0..).map_while(CoreId::new).zip(self.0.iter().copied());
        all.filter(move |(_, writes)| wanted(writes))
    }
}
