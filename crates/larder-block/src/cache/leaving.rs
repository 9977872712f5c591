//! Removes a core while requests to it and to other cores keep coming.
//!
//! *Always:* a core is released only when it has all acknowledged data and the label no longer lists it
//! ([`manage`](crate::manage) ensures both). So a start attributes none of the remaining cached data to it.

use super::Cache;
use super::request::{Ended, Request};
use crate::layout::{CoreId, Ending, RequestId};
use crate::policy::pressure::Pressure;
use crate::policy::routing::RoutingPolicy;

impl Cache {
    /// Sets the core that is to be removed, or `None` if it stays. Until the removal, writes to it that would be dirty
    /// also go to the core.
    pub(crate) fn leaves(&mut self, core: Option<CoreId>) {
        self.leaving = core;
    }

    /// Whether a core has no dirty data, and nothing in flight can change that.
    pub(crate) fn has_settled(&self, core: CoreId) -> bool {
        let has_all = || self.layout.dirty_after(core, 0).is_none();
        self.is_quiet() && self.layout.unloaded_parts() == 0 && has_all()
    }

    /// Releases a core. Held requests to it fail.
    ///
    /// # Panics
    /// If something is in flight, or if the core lacks some data.
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

    /// Forgets measurements of the previous set of cores. Routing that was calibrated for them is switched off.
    pub(crate) fn forget_measured(&mut self) {
        self.pressure = Pressure::new(self.options.bypass);
        if matches!(self.options.routing, RoutingPolicy::Tuned(_)) {
            self.set_routing(RoutingPolicy::Off).expect("it can be off");
        }
    }

    /// Whether writes to a core that would be dirty must also go to the core.
    pub(super) fn may_not_dirty(&self, core: CoreId) -> bool {
        self.has_no_dirty || self.leaving == Some(core)
    }
}
