//! What has become of users' requests, by core and by IO class.

use std::collections::BTreeMap;

use super::coverage::Coverage;
use super::statistics::RequestCounts;
use crate::layout::{ClassId, CoreId, Span};

/// What has become of the requests of a core, or of an IO class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartCounts {
    /// Reads.
    pub reads: RequestCounts,
    /// Writes.
    pub writes: RequestCounts,
    /// Requests, and reads that might have been kept, that have passed the cache by, for whichever reason.
    pub bypasses: u64,
}

/// Whose a request is.
type Whose = (CoreId, ClassId);

/// Of cores and classes that have asked for something.
#[derive(Debug, Default)]
pub(super) struct Parts {
    cores: BTreeMap<CoreId, PartCounts>,
    classes: BTreeMap<ClassId, PartCounts>,
}

impl Parts {
    pub(super) fn core(&self, core: CoreId) -> PartCounts {
        self.cores.get(&core).copied().unwrap_or_default()
    }

    /// A core is gone: another of its number begins with nothing.
    pub(super) fn forget(&mut self, core: CoreId) {
        self.cores.remove(&core);
    }

    pub(super) fn class(&self, class: ClassId) -> PartCounts {
        self.classes.get(&class).copied().unwrap_or_default()
    }

    pub(super) fn read(&mut self, of: Whose, span: Span, coverage: Coverage, passes: bool) {
        self.each(of, |counts| counts.reads.count(span, coverage, passes));
    }

    pub(super) fn write(&mut self, of: Whose, span: Span, coverage: Coverage, passes: bool) {
        self.each(of, |counts| counts.writes.count(span, coverage, passes));
    }

    pub(super) fn bypassed(&mut self, of: Whose) {
        self.each(of, |counts| counts.bypasses += 1);
    }

    fn each(&mut self, (core, class): Whose, change: impl Fn(&mut PartCounts)) {
        change(self.cores.entry(core).or_default());
        change(self.classes.entry(class).or_default());
    }
}
