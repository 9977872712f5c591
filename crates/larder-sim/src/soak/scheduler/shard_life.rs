//! The life of a set of shards: openings on the drives that are available, and events while its clients work. Drives
//! fail and recover, and an operator adds, replaces and retires shards, and sometimes abandons that halfway.

use std::rc::Rc;
use std::sync::Arc;

use larder::{AnyRoute, ClosedSet, ErrorKind, Routed, SetStatus, ShardState, Shards};
use larder_device::{Device, Fault, FaultPlan, FaultRule};

use super::Scheduler;
use crate::any_cache::{Cache, shards_of};
use crate::executor::Running;
use crate::soak::on_shards::{OnShards, is_live};
use crate::soak::plan::Plan;
use crate::soak::request::Answer;
use crate::soak::set_plan::{Condition, DRIVES_MAX, Order, SHARDS_MAX, SetPlan};
use crate::soak::subject::Subject;

/// Time for which a drive must be healthy before it is relied on, in nanoseconds.
const WELL_FOR_NS: u64 = 10_000_000_000;
/// With drives that usually take this long for a request, some requests take seconds.
const SLOW_NS: u64 = 1_000_000;

impl Scheduler {
    /// Opens the set on its drives, some of which return and some of which are missing. `None` if reading the drives
    /// hangs.
    pub(super) fn opening_of_set(
        &mut self,
    ) -> Option<Running<'static, Result<Cache, larder::Error>>> {
        let SetPlan { options, .. } = self.plan.shards.clone()?;
        let devices = self.devices_of_set()?;
        let (config, clock) = (self.plan.config.clone(), self.time.clock() as _);
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
        let clock = self.time.clock() as _;
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

    /// The number of the task that looks after the set.
    pub(super) fn upkeeper(&self) -> usize {
        self.plan.clients + 2
    }

    /// The number of the task that changes the set.
    pub(super) fn operator(&self) -> usize {
        self.plan.clients + 3
    }

    /// Sometimes causes an event in the set.
    pub(super) fn befall(&mut self, subject: &Rc<Subject>) {
        let Some(SetPlan { event_one_in, .. }) = self.plan.shards else { return };
        let (upkeeper, operator) = (self.upkeeper(), self.operator());
        if !self.executor.is_running(upkeeper) {
            let subject = Rc::clone(subject);
            let upkeep = async move {
                if let Some(shards) = shards_of(&subject.cache) {
                    shards.upkeep().await;
                }
                Answer::Done
            };
            self.executor.spawn(upkeeper, Box::pin(upkeep));
        }
        self.note_order();
        let now_ns = self.time.now_ns();
        for drive in self.set.iter_mut().flat_map(|set| &mut set.drives) {
            drive.well_since_ns = match drive.condition {
                Condition::Well => drive.well_since_ns.min(now_ns),
                _ => u64::MAX,
            };
        }
        if self.rng.u32(..event_one_in) > 0 {
            return;
        }
        let Some(shards) = shards_of(&subject.cache) else { return };
        let status = shards.status();
        match self.rng.u32(..12) {
            0..4 => self.harm(&status),
            4 | 5 => self.mend(),
            6 if self.executor.is_running(operator) && self.rng.u32(..4) == 0 => {
                self.totals.given_up_orders += 1;
                self.executor.drop_task(operator);
            }
            7 if self.rng.u32(..4) == 0 => _ = self.executor.drop_task(upkeeper),
            _ if self.executor.is_running(operator) => {}
            _ => self.order(subject, &status),
        }
    }

    /// Makes a drive fail, if another healthy one is in service.
    fn harm(&mut self, status: &SetStatus) {
        let Some(set) = &self.set else { return };
        let well = set.well(status);
        // The operator may be about to remove one of them.
        let left = 2 + usize::from(self.executor.is_running(self.operator()));
        if well.len() < left {
            return;
        }
        let (_, at) = well[self.rng.usize(..well.len())];
        let condition = [Condition::Gone, Condition::Silent, Condition::Slow, Condition::Failing]
            [self.rng.usize(..4)];
        let mut faults = FaultPlan::new(self.rng.u64(..));
        if condition == Condition::Failing {
            let torn = Fault::TornWrite { blocks: None, reported_done: false };
            let fault = [Fault::Error, Fault::FailedButDone, torn][self.rng.usize(..3)];
            let chance = [0.05, 0.3, 1.0][self.rng.usize(..3)];
            let rule = FaultRule::new(fault).with_probability(chance);
            let on_writes = fault != Fault::Error || self.rng.bool();
            faults = faults.with(if on_writes { rule.on_writes() } else { rule });
        }
        self.note(format_args!("drive {at} {condition:?}"));
        self.totals.drives_harmed += 1;
        if let Some(set) = &mut self.set {
            set.apply(at, condition, &self.plan, &faults);
        }
    }

    /// Makes a failed drive healthy again, whether or not the set uses it.
    fn mend(&mut self) {
        let Some(set) = &mut self.set else { return };
        let is_ill =
            |at: &usize| !matches!(set.drives[*at].condition, Condition::Well | Condition::Absent);
        let ill: Vec<usize> = (0..set.drives.len()).filter(is_ill).collect();
        if ill.is_empty() {
            return;
        }
        let at = ill[self.rng.usize(..ill.len())];
        set.apply(at, Condition::Well, &self.plan, &FaultPlan::new(0));
        self.note(format_args!("drive {at} is well"));
    }

    /// Ends the wait for silent drives: their requests fail as if the drives were gone.
    pub(super) fn end_silence(&mut self) {
        let Some(set) = &mut self.set else { return };
        for at in 0..set.drives.len() {
            if set.drives[at].condition == Condition::Silent {
                set.apply(at, Condition::Gone, &self.plan, &FaultPlan::new(0));
            }
        }
    }

    /// Starts a change of the set.
    fn order(&mut self, subject: &Rc<Subject>, status: &SetStatus) {
        let Some(order) = self.choose_order(status) else { return };
        self.note(format_args!("{order:?}"));
        self.totals.orders += 1;
        let Some(set) = &self.set else { return };
        let device = match order {
            Order::Replace(_, at) | Order::Add(at) | Order::Spare(at) => {
                Some(Arc::clone(&set.drives[at].device) as Arc<dyn Device>)
            }
            Order::Fail(_) | Order::Retire(_) | Order::Move(..) => None,
        };
        let (subject, ended) = (Rc::clone(subject), Rc::clone(&set.operator.ended));
        let change = async move {
            if let Some(shards) = shards_of(&subject.cache) {
                let done = carry_out(shards, order, device).await;
                ended.set(Some((order, done.map_err(|error| error.kind()))));
            }
            Answer::Done
        };
        let operator = self.operator();
        self.executor.spawn(operator, Box::pin(change));
    }

    fn choose_order(&mut self, status: &SetStatus) -> Option<Order> {
        let set = self.set.as_mut()?;
        let well = set.well(status);
        let serving = set.serving(status);
        let kept = status.shards.iter().filter(|it| it.state != ShardState::Retired).count();
        let failed = status.shards.iter().filter(|it| it.state == ShardState::Failed);
        let failed: Vec<usize> = failed.map(|it| it.number).collect();
        // The remaining shards must be healthy.
        let may_go: Vec<usize> = serving
            .iter()
            .filter(|(_, at)| well.len() > usize::from(well.iter().any(|it| it.1 == *at)))
            .map(|(number, _)| *number)
            .collect();
        let rng = &mut self.rng;
        let any = |rng: &mut fastrand::Rng, of: &[usize]| {
            (!of.is_empty()).then(|| of[rng.usize(..of.len())])
        };
        match rng.u32(..16) {
            12.. => {
                let numbers: Vec<usize> = serving.iter().map(|it| it.0).collect();
                let (from, to) = (any(rng, &numbers)?, any(rng, &numbers)?);
                Some(Order::Move(from, to, rng.u16(1..6_000)))
            }
            0 => any(rng, &may_go).map(Order::Fail),
            1 if kept > 3 => any(rng, &may_go).map(Order::Retire),
            2 => {
                let number = any(rng, &may_go)?;
                Some(Order::Replace(number, set.free_drive(&self.plan, rng)?))
            }
            3 if kept < SHARDS_MAX => Some(Order::Add(set.free_drive(&self.plan, rng)?)),
            4 if set.operator.spares.is_empty() => {
                Some(Order::Spare(set.free_drive(&self.plan, rng)?))
            }
            5.. => {
                let number = any(rng, &failed)?;
                Some(Order::Replace(number, set.free_drive(&self.plan, rng)?))
            }
            _ => None,
        }
    }

    /// Takes the result of a change that has ended.
    fn note_order(&mut self) {
        let Some(set) = &mut self.set else { return };
        let Some((order, done)) = set.operator.ended.take() else { return };
        self.note(format_args!("{order:?} {done:?}"));
        self.totals.orders_done += u64::from(done.is_ok());
        let is_move = matches!(order, Order::Move(..));
        self.totals.moves_done += u64::from(is_move && done.is_ok());
        let Some(set) = &mut self.set else { return };
        match (order, done) {
            (Order::Spare(at), Ok(())) => set.operator.spares.push(at),
            (_, Ok(())) => {}
            // These errors are allowed: the last shard in service cannot be removed; a drive may still have requests in
            // flight, or does not answer; or it belongs to a set whose first opening was cut off by a crash.
            (
                _,
                Err(
                    ErrorKind::InvalidInput
                    | ErrorKind::InUse
                    | ErrorKind::Device
                    | ErrorKind::Foreign,
                ),
            ) => {}
            (order, Err(kind)) => self.complain(&format!("{order:?} was refused: {kind:?}")),
        }
    }

    /// Whether the call that has just ended is a change that was lost with a shard.
    pub(super) fn was_lost(&mut self, subject: &Subject) -> bool {
        let Some(shards) = shards_of(&subject.cache) else { return false };
        let before = std::mem::replace(&mut self.lost_changes, shards.status().lost_changes);
        self.totals.lost_changes += self.lost_changes.saturating_sub(before);
        self.lost_changes > before
    }

    /// Checks that no caller was refused because of a drive while a shard is in service whose drive has been healthy
    /// for long enough. Not checked if all drives are so slow that this cannot be decided.
    pub(super) fn judge_refusal(&mut self, subject: &Subject) {
        let Some((refusal, begun_ns)) = self.refusal.take() else { return };
        let (Some(set), Some(shards)) = (&self.set, shards_of(&subject.cache)) else { return };
        let status = shards.status();
        let is_well = |&(number, at): &(usize, usize)| {
            let since_ns = set.drives[at].well_since_ns.saturating_add(WELL_FOR_NS);
            status.shards[number].state == ShardState::Healthy && since_ns < begun_ns
        };
        if set.well(&status).iter().any(is_well) && self.plan.delays.usual_ns < SLOW_NS {
            self.complain(&format!("refused: {refusal} {status:?}"));
        }
    }

    /// Whether a write to a drive may have been reported as failed.
    pub(super) fn some_drive_fails(&self) -> bool {
        let is_ill = |condition| !matches!(condition, Condition::Well | Condition::Absent);
        self.set.iter().flat_map(|set| &set.drives).any(|drive| is_ill(drive.condition))
    }
}

async fn carry_out(
    shards: &Shards,
    order: Order,
    device: Option<Arc<dyn Device>>,
) -> Result<(), larder::Error> {
    match (order, device) {
        (Order::Fail(number), _) => shards.fail_shard(number).await,
        (Order::Retire(number), _) => shards.retire_shard(number).await,
        (Order::Move(from, to, parts), _) => shards.move_keys(from, to, parts).await.map(drop),
        (Order::Replace(number, _), Some(device)) => shards.replace_shard(number, device).await,
        (Order::Add(_), Some(device)) => shards.add_shard(device).await.map(drop),
        (Order::Spare(_), Some(device)) => shards.add_spare(device).await,
        (_, None) => unreachable!("such an order comes with a drive"),
    }
}

impl OnShards {
    /// The shards in service with healthy drives, and these drives.
    fn well(&self, status: &SetStatus) -> Vec<(usize, usize)> {
        debug_assert!(status.shards.iter().all(|it| is_live(it.state) == it.device.is_some()));
        let mut serving = self.serving(status);
        serving.retain(|(_, at)| self.drives[*at].condition == Condition::Well);
        serving
    }

    /// A drive for a shard: an existing one in any condition, or a new one. It may be one in service.
    fn free_drive(&mut self, plan: &Plan, rng: &mut fastrand::Rng) -> Option<usize> {
        if self.drives.len() < DRIVES_MAX && rng.u32(..3) == 0 {
            return Some(self.add_drive(plan, rng));
        }
        let at = rng.usize(..self.drives.len());
        (self.drives[at].condition != Condition::Absent).then_some(at)
    }
}
