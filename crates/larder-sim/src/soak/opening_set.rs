//! Opens a cache of several shards on the drives that are available.

use std::sync::Arc;

use larder::{AnyRoute, ClosedSet, ErrorKind, Routed, Shards};
use larder_device::Device;

use super::scheduler::Scheduler;
use super::set_plan::SetPlan;
use crate::any_cache::{Cache, shards_of};
use crate::executor::Running;

impl Scheduler {
    /// Opens the set on its drives, some of which return and some of which are missing. `None` if reading the drives
    /// hangs.
    pub(super) fn opening_of_set(
        &mut self,
    ) -> Option<Running<'static, Result<Cache, larder::Error>>> {
        let SetPlan { options, .. } = self.plan.shards.clone()?;
        let devices = self.devices_of_set()?;
        let (config, clock) = (self.plan.config.clone(), Arc::clone(&self.clock) as _);
        Some(Box::pin(async move {
            let set = Shards::open_with(config, options, devices, clock).await?;
            Ok(Routed::new(AnyRoute::Shards(Arc::new(set))))
        }))
    }

    /// Records the state of an open set.
    pub(super) fn note_set(&mut self, cache: &Cache) {
        if let (Some(set), Some(shards)) = (&mut self.set, shards_of(cache)) {
            let status = shards.status();
            self.totals.shards_failed += status.failed;
            self.totals.refilled_bytes += status.refilled_bytes;
            self.lost_changes = status.lost_changes;
            set.note(&status);
        }
    }

    /// The drives for an opening.
    fn devices_of_set(&mut self) -> Option<Vec<Option<Arc<dyn Device>>>> {
        let set = self.set.as_mut()?;
        set.bring_back(&self.plan, &mut self.rng);
        let present = set.present();
        let clock = Arc::clone(&self.clock) as _;
        let look =
            async move { Ok::<_, larder::Error>(ClosedSet::look(present, clock).await?.status()) };
        let looked = self.drive(Box::pin(look), None)?;
        let set = self.set.as_mut()?;
        let status = match looked {
            Ok(status) => status,
            // The set has never been opened completely.
            Err(error) if error.kind() == ErrorKind::Foreign => {
                let first = self.plan.shards.as_ref()?.shards;
                return Some(set.first(first));
            }
            Err(error) => {
                self.complain(&format!("the drives of the set cannot be read: {error}"));
                return None;
            }
        };
        Some(set.chosen(&status, &self.plan, &mut self.rng))
    }

    /// Called after an opening has refused drives.
    pub(super) fn leave_strangers_out(&mut self) {
        if let Some(set) = &mut self.set {
            set.forget_roles();
        }
    }
}
