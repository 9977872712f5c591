//! A core that is taken away under requests to it and to the others.
//!
//! *Always:* a core is let go of only when it has all that was acknowledged, and the label calls it none of the cache's
//! by then ([`manage`](crate::manage) sees to both): what a start finds of it is nobody's.

use super::Cache;
use super::request::{Ended, Request};
use crate::layout::{CoreId, Ending, RequestId};
use crate::policy::pressure::Pressure;
use crate::policy::routing::RoutingPolicy;

impl Cache {
    /// A core is to be taken away, or not after all (`None`): as long as it is, writes to it that would be dirty go to
    /// it too.
    pub(crate) fn leaves(&mut self, core: Option<CoreId>) {
        self.leaving = core;
    }

    /// Whether a core has all that is cached of it, and nothing is under way that could change that.
    pub(crate) fn has_settled(&self, core: CoreId) -> bool {
        let has_all = || self.layout.dirty_after(core, 0).is_none();
        self.is_quiet() && self.layout.unloaded_parts() == 0 && has_all()
    }

    /// Lets go of a core. What is held back of it fails.
    ///
    /// # Panics
    /// If something is under way, or the core lacks something.
    pub(crate) fn core_is_gone(&mut self, core: CoreId) {
        assert!(
            self.has_settled(core),
            "a core is let go of that has all, and nothing is under way"
        );
        self.layout.core_is_gone(core);
        self.leaving = None;
        self.missing.remove(&core);
        self.exports.remove(&core);
        self.core_sectors.remove(&core);
        self.parts.forget(core);
        self.forget_measured();
        let of_core = |(_, request): &mut (RequestId, Request)| request.core() == Some(core);
        let refused = self.held.iter_mut().flat_map(|held| held.extract_if(.., of_core));
        let failed = |(id, _)| Ended { id, ending: Ending::Failed, keep: None };
        self.ended.extend(refused.map(failed));
    }

    /// Forgets what was measured of the cores as they were: routing that was calibrated for them ends.
    pub(crate) fn forget_measured(&mut self) {
        self.pressure = Pressure::new(self.options.bypass);
        if matches!(self.options.routing, RoutingPolicy::Tuned(_)) {
            self.set_routing(RoutingPolicy::Off).expect("it can be off");
        }
    }

    /// Whether writes to a core that would be dirty have to go to it too.
    pub(super) fn may_not_dirty(&self, core: CoreId) -> bool {
        self.has_no_dirty || self.leaving == Some(core)
    }
}
