//! A cache of several shards, each on a separate drive: the drives, and which of them an opening gets.
//!
//! The code that opens a set acts like an operator. It reads what the available drives record about the set
//! ([`ClosedSet`]), passes the drives in service, and for each missing one it passes nothing, a blank one, or an old
//! one. At least one of the drives that were current at the last opening is available: a change that only missing
//! drives know about cannot be detected.

use std::sync::Arc;
use std::time::Duration;

use larder::{SetStatus, ShardOptions, ShardState, Upkeep};
use larder_device::{Device, FaultPlan};

use super::device::{Outage, StagedDevice};
use super::drive::fresh_device;
use super::plan::{Plan, Trouble};
use super::set_plan::{Condition, DRIVES_MAX, Operator, SHARDS_MAX, SetPlan};
use super::theme::Theme;

/// Makes these random numbers independent of those of the plan.
const APART: u64 = 0x5a4d_5eed;
/// A drive, whether available or not.
pub(super) struct Drive {
    pub(super) device: Arc<StagedDevice>,
    pub(super) condition: Condition,
    /// The number of its shard when it was last read.
    number: Option<usize>,
    /// It was in service when the set was last open, so it knows of all changes.
    is_current: bool,
    /// Since when it has been healthy.
    pub(super) well_since_ns: u64,
}

/// The drives of a set, and the operator.
pub(super) struct OnShards {
    pub(super) drives: Vec<Drive>,
    pub(super) operator: Operator,
}

impl Plan {
    /// Divides the keys of the plan among shards.
    pub(super) fn put_on_shards(&mut self, seed: u64) -> OnShards {
        let mut rng = fastrand::Rng::with_seed(seed ^ APART);
        if rng.bool() {
            self.put_in_array(seed);
        }
        self.trouble = Trouble::None;
        self.theme = Theme::None;
        (self.on_flash, self.changing, self.clock_steps) = (true, false, false);
        self.config.flash_wait = None;
        self.clients = self.clients.min(64);
        self.keys = self.keys.min(192);
        self.operations = self.operations.min(800);
        self.incarnations = rng.u32(3..=6);
        self.delays.usual_ns = [20_000, 200_000, 200_000, 5_000_000][rng.usize(..4)];
        let shards = rng.usize(3..=5);
        // The budgets are divided among all devices, including spares.
        let most = SHARDS_MAX as u64 + 2;
        self.config.dram_bytes *= most;
        let part = |bytes| bytes * most;
        self.config.demoting_bytes_max = self.config.demoting_bytes_max.map(part);
        let get_wait_ms = [None, Some(2), Some(100)][rng.usize(..3)];
        let options = ShardOptions {
            get_wait: get_wait_ms.map(Duration::from_millis),
            refill_bytes_per_s: [20 << 10, 1 << 20, 64 << 20][rng.usize(..3)],
            refill_time_max: Duration::from_secs([1, 60, 24 * 3600][rng.usize(..3)]),
            look_every: Duration::from_millis([5, 250][rng.usize(..2)]),
            upkeep: Upkeep::Callers,
        };
        let event_one_in = [60, 200, 600][rng.usize(..3)];
        self.shards = Some(SetPlan { shards, options, event_one_in });
        let mut set = OnShards { drives: Vec::new(), operator: Operator::default() };
        (0..shards).for_each(|_| _ = set.add_drive(self, &mut rng));
        set
    }
}

impl OnShards {
    /// Adds an unwritten drive. Returns its index.
    pub(super) fn add_drive(&mut self, plan: &Plan, rng: &mut fastrand::Rng) -> usize {
        let at = self.drives.len();
        let device = fresh_device(name_of(at), plan, rng);
        let (condition, number, is_current) = (Condition::Well, None, false);
        self.drives.push(Drive { device, condition, number, is_current, well_since_ns: u64::MAX });
        at
    }

    /// The shards in service, with their drives.
    pub(super) fn serving(&self, status: &SetStatus) -> Vec<(usize, usize)> {
        let serving = status.shards.iter().filter_map(|shard| {
            let name = &shard.device.as_ref()?.name;
            let at = (0..self.drives.len()).find(|at| name_of(*at) == *name)?;
            is_live(shard.state).then_some((shard.number, at))
        });
        serving.collect()
    }

    /// Records the state of the set while it is open.
    pub(super) fn note(&mut self, status: &SetStatus) {
        let serving = self.serving(status);
        self.drives.iter_mut().for_each(|drive| drive.is_current = false);
        for (number, at) in serving {
            (self.drives[at].number, self.drives[at].is_current) = (Some(number), true);
        }
    }

    /// Sets the condition of a drive from now on.
    pub(super) fn apply(
        &mut self,
        at: usize,
        condition: Condition,
        plan: &Plan,
        faults: &FaultPlan,
    ) {
        let drive = &mut self.drives[at];
        drive.condition = condition;
        drive.device.set_outage(match condition {
            Condition::Gone => Some(Outage::Gone),
            Condition::Silent => Some(Outage::Silent),
            _ => None,
        });
        let mut delays = plan.delays;
        if condition == Condition::Slow {
            delays.usual_ns *= 300;
        }
        drive.device.set_delays(delays);
        drive.device.faults().set_plan(faults);
    }

    /// The drives that are available.
    pub(super) fn present(&self) -> Vec<Arc<dyn Device>> {
        self.drives.iter().filter(|it| it.condition != Condition::Absent).map(device_of).collect()
    }

    /// The first drives, for a set that has never been opened completely.
    pub(super) fn first(&self, shards: usize) -> Vec<Option<Arc<dyn Device>>> {
        self.drives[..shards].iter().map(|it| Some(device_of(it))).collect()
    }

    /// Forgets the roles of the drives, and removes all spares.
    pub(super) fn forget_roles(&mut self) {
        self.operator.spares.clear();
        self.drives.iter_mut().for_each(|drive| drive.number = None);
    }

    /// Makes missing drives available again, or not.
    pub(super) fn bring_back(&mut self, plan: &Plan, rng: &mut fastrand::Rng) {
        let well = FaultPlan::new(0);
        for at in 0..self.drives.len() {
            let comes = match self.drives[at].condition {
                Condition::Absent => rng.bool(),
                _ => true,
            };
            if comes {
                self.apply(at, Condition::Well, plan, &well);
            }
        }
        let is_there = |it: &Drive| it.is_current && it.condition != Condition::Absent;
        if !self.drives.iter().any(is_there) {
            (0..self.drives.len()).for_each(|at| self.apply(at, Condition::Well, plan, &well));
        }
    }

    /// For each shard of the set its drive, another one or nothing; then all spares.
    pub(super) fn chosen(
        &mut self,
        status: &SetStatus,
        plan: &Plan,
        rng: &mut fastrand::Rng,
    ) -> Vec<Option<Arc<dyn Device>>> {
        let kept = status.shards.iter().filter(|it| it.state != ShardState::Retired);
        let named = |shard: &larder::ShardStatus| {
            let name = &shard.device.as_ref()?.name;
            (0..self.drives.len()).find(|at| name_of(*at) == *name)
        };
        let all: Vec<(usize, Option<usize>)> = kept.map(|it| (it.number, named(it))).collect();
        let mut current: usize =
            all.iter().filter(|(_, at)| at.is_some_and(|at| self.drives[at].is_current)).count();
        let mut given = Vec::new();
        let in_use: Vec<usize> = all.iter().filter_map(|(_, at)| *at).collect();
        for (number, at) in all {
            given.push(match at {
                Some(at) => {
                    let drive = &mut self.drives[at];
                    drive.number = Some(number);
                    let last = drive.is_current && current == 1;
                    let goes = !last && rng.u32(..12) == 0;
                    if goes {
                        current -= usize::from(drive.is_current);
                        drive.condition = Condition::Absent;
                    }
                    (!goes).then_some(at)
                }
                None => self.filler(number, &in_use, plan, rng),
            });
        }
        // A drive stays current only if this opening gets it.
        for (at, drive) in self.drives.iter_mut().enumerate() {
            drive.is_current &= given.contains(&Some(at));
        }
        let mut devices: Vec<_> =
            given.iter().map(|at| at.map(|at| device_of(&self.drives[at]))).collect();
        // A spare that has replaced a shard is no longer a spare.
        let is_spare =
            |at: &&usize| !given.contains(&Some(**at)) && self.drives[**at].number.is_none();
        let spares = self.operator.spares.iter().filter(is_spare);
        devices.extend(spares.map(|at| Some(device_of(&self.drives[*at]))));
        devices
    }

    /// A drive for a shard that has none.
    fn filler(
        &mut self,
        number: usize,
        in_use: &[usize],
        plan: &Plan,
        rng: &mut fastrand::Rng,
    ) -> Option<usize> {
        let is_old = |(at, drive): &(usize, &Drive)| {
            let free = !in_use.contains(at) && !self.operator.spares.contains(at);
            free && drive.number == Some(number) && drive.condition != Condition::Absent
        };
        let old = self.drives.iter().enumerate().find(is_old).map(|(at, _)| at);
        match rng.u32(..4) {
            0 => None,
            1 if self.drives.len() < DRIVES_MAX => Some(self.add_drive(plan, rng)),
            _ => old,
        }
    }
}

pub(super) fn is_live(state: ShardState) -> bool {
    matches!(state, ShardState::Healthy | ShardState::Refilling)
}

fn name_of(at: usize) -> String {
    format!("drive {at}")
}

fn device_of(drive: &Drive) -> Arc<dyn Device> {
    Arc::clone(&drive.device) as _
}
