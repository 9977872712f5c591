//! Cores that come and go under requests to the others. What is asked of a core that leaves waits until it is known
//! whether it does: then it is refused, or it begins.
//!
//! *Always:* a core is let go of only when it has all that was acknowledged, and the label calls it none of the cache's
//! by then ([`manage`](crate::manage) sees to both): what a start finds of it is nobody's.

use super::Cache;
use super::op::What;
use super::request::{Ended, Request};
use crate::layout::{CoreId, Ending, RequestId};
use crate::policy::pressure::Pressure;
use crate::policy::routing::RoutingPolicy;

/// A core that is to be taken away.
#[derive(Debug)]
pub(super) struct Leaving {
    core: CoreId,
    /// What is asked of it, if that waits.
    held: Option<Vec<(RequestId, Request)>>,
}

impl Cache {
    /// A core is to be taken away: writes that would be dirty go to it too from now on.
    pub(crate) fn leaves(&mut self, core: CoreId) {
        self.leaving = Some(Leaving { core, held: None });
    }

    /// Holds back whatever is asked of the core that leaves from now on, until it is known whether it
    /// [stays](Self::stays) or [is gone](Self::core_is_gone).
    pub(crate) fn hold_leaving(&mut self) {
        if let Some(leaving) = &mut self.leaving {
            leaving.held.get_or_insert_default();
        }
    }

    /// It does not leave after all: what was held back begins.
    pub(crate) fn stays(&mut self) {
        let held = self.leaving.take().and_then(|leaving| leaving.held);
        for (id, request) in held.unwrap_or_default() {
            self.submit(id, request);
        }
    }

    /// Whether a core has all that is cached of it, and nothing that is under way could change that.
    pub(crate) fn has_settled(&self, core: CoreId) -> bool {
        let has_all = || self.layout.dirty_after(core, 0).is_none();
        self.is_quiet() && self.layout.unloaded_parts() == 0 && has_all()
    }

    /// Lets go of the core that leaves. What was held back of it fails.
    ///
    /// # Panics
    /// If something is under way, or the core lacks something.
    pub(crate) fn core_is_gone(&mut self, core: CoreId) {
        assert!(
            self.has_settled(core),
            "a core is let go of that has all, while nothing is under way"
        );
        self.layout.core_is_gone(core);
        self.exports.remove(&core);
        self.parts.forget(core);
        self.forget_measured();
        let leaving = self.leaving.take().and_then(|leaving| leaving.held).unwrap_or_default();
        let of_core = |(_, request): &mut (RequestId, Request)| request.core() == Some(core);
        let held = self.held.iter_mut().flat_map(|held| held.extract_if(.., of_core));
        let refused = leaving.into_iter().chain(held);
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
        self.has_no_dirty || self.leaving.as_ref().is_some_and(|leaving| leaving.core == core)
    }

    /// Where a request waits, if it does.
    pub(super) fn held_with(
        &mut self,
        request: &Request,
    ) -> Option<&mut Vec<(RequestId, Request)>> {
        let of_leaving = |leaving: &&mut Leaving| request.core() == Some(leaving.core);
        let leaving = self.leaving.as_mut().filter(of_leaving);
        self.held.as_mut().or_else(|| leaving.and_then(|leaving| leaving.held.as_mut()))
    }

    /// How many wait.
    pub(super) fn held_count(&self) -> usize {
        let leaving = self.leaving.as_ref().and_then(|leaving| leaving.held.as_ref());
        self.held.iter().chain(leaving).map(Vec::len).sum()
    }

    /// Goes on with the cleaning of cores where that has paused ([`Cache::is_quiet`]).
    pub(super) fn resume_cleaning(&mut self) {
        let is_paused = |what: &What| matches!(what, What::Clean(clean) if clean.next.is_some() && clean.outstanding == 0);
        let paused = self.ops.iter().filter(|(_, op)| is_paused(&op.what));
        for key in paused.map(|(key, _)| key).collect::<Vec<_>>() {
            self.go_on_cleaning(key);
        }
    }
}
