//! Counts of client requests, by core and by IO class.

use std::collections::BTreeMap;

use super::coverage::Coverage;
use super::statistics::RequestCounts;
use crate::layout::{ClassId, CoreId, Span};

/// Counts of the requests to one core, or of one IO class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartCounts {
    /// Reads.
    pub reads: RequestCounts,
    /// Writes.
    pub writes: RequestCounts,
    /// Requests that have bypassed the cache, and reads that were not cached, for any reason.
    pub bypasses: u64,
}

/// The core and the IO class of a request.
pub(super) type RequestOwner = (CoreId, ClassId);

/// The counts of all cores and classes that had requests.
#[derive(Debug, Default)]
pub(super) struct Parts {
    cores: BTreeMap<CoreId, PartCounts>,
    classes: BTreeMap<ClassId, PartCounts>,
}

impl Parts {
    pub(super) fn core(&self, core: CoreId) -> PartCounts {
        self.cores.get(&core).copied().unwrap_or_default()
    }

    /// Forgets a removed core: a new core of the same number starts at zero.
    pub(super) fn forget(&mut self, core: CoreId) {
        self.cores.remove(&core);
    }

    pub(super) fn class(&self, class: ClassId) -> PartCounts {
        self.classes.get(&class).copied().unwrap_or_default()
    }

    pub(super) fn read(&mut self, of: RequestOwner, span: Span, coverage: Coverage, passes: bool) {
        self.each(of, |counts| counts.reads.count(span, coverage, passes));
    }

    pub(super) fn write(&mut self, of: RequestOwner, span: Span, coverage: Coverage, passes: bool) {
        self.each(of, |counts| counts.writes.count(span, coverage, passes));
    }

    pub(super) fn bypassed(&mut self, of: RequestOwner) {
        self.each(of, |counts| counts.bypasses += 1);
    }

    fn each(&mut self, (core, class): RequestOwner, change: impl Fn(&mut PartCounts)) {
        change(self.cores.entry(core).or_default());
        change(self.classes.entry(class).or_default());
    }
}
