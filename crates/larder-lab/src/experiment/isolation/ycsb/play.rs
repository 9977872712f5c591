//! Instances of LevelDB beside one another on a drive.

use larder_blocks::{IsolationLevel, MemoryBlocks, StoreInfo};
use larder_ssd::timed::Nanoseconds;
use larder_vssd::timed::TimedVssds;
use larder_vssd::{MemoryImages, VssdId};
use larder_workload::Latencies;

use super::super::drive::{Drive, Kind};
use super::super::failed;
use super::instance::{Instance, OwnTimes};
use super::places::Places;
use super::store::LevelDb;
use super::thread::{Shared, Thread};
use super::workload::Workload;
use crate::Error;
use crate::replay::Monitor;

/// Number of parts that channels and dies are divided into.
const EIGHTHS: u32 = 8;

/// Clients of an instance, at least, where their number is sought.
const CLIENTS_LEAST: u64 = 4;

/// The load of an instance.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) records: u64,
    pub(super) ops: u64,
    pub(super) times: OwnTimes,
    /// Clients of an instance, at most.
    pub(super) clients: u64,
    pub(super) seed: u64,
}

/// The results of a workload, of all instances together.
#[derive(Debug, Clone, Default)]
pub(super) struct WorkloadResult {
    pub(super) kops: f64,
    pub(super) took: Latencies,
    /// Clients of each instance.
    pub(super) clients: u64,
}

/// Instances on a drive.
pub(super) struct Instances {
    timed: TimedVssds<MemoryImages>,
    instances: Vec<Instance>,
    vssds: Vec<VssdId>,
    now: Nanoseconds,
    load: Load,
}

impl Instances {
    /// Instances on vSSDs of `kind`, with their records.
    pub(super) fn new(drive: &Drive, kind: Kind, count: u32, load: Load) -> Result<Self, Error> {
        let shares = vec![(EIGHTHS / count, 1); count as usize];
        let policy = drive.policy(kind, 1.0);
        let (mut timed, vssds) = drive.vssds(kind, &shares, &policy)?;
        let mut instances = Vec::new();
        for (&vssd, seed) in vssds.iter().zip(load.seed..) {
            let info = timed.array().info(vssd).map_err(failed)?;
            let blocks = MemoryBlocks::with_info(StoreInfo {
                name: format!("vSSD {}", vssd.0),
                block_bytes: info.block_pages * 4096,
                page_bytes: u32::try_from(drive.timing.nand.page_bytes).unwrap_or(u32::MAX),
                // The rest is for blocks whose erasure has to wait, and for padding.
                blocks: u64::from(info.blocks) / 2,
                streams: 1,
                open_blocks_max: None,
                isolation: IsolationLevel::Unknown,
                kind: "recorded",
            });
            let blocks = blocks.map_err(|error| Error::run(error.to_string()))?;
            let (store, made) = LevelDb::new(blocks, load.records, seed)?;
            let mut shared = Shared::new(Places::new(&timed, &drive.timing, vssd)?);
            for recording in made {
                Thread::at_once(&mut shared, &mut timed, &recording.client)?;
                Thread::at_once(&mut shared, &mut timed, &recording.compaction)?;
            }
            instances.push(Instance::new(store, shared, load.times));
        }
        // Reset the time: the instances already had their data.
        let timed = TimedVssds::new(timed.into_array(), &drive.timing, &policy).map_err(failed)?;
        Ok(Self { timed, instances, vssds, now: 0, load })
    }

    /// The fewest clients that make the most of `workload`: twice as many make less than 5 % more.
    pub(super) fn clients(&mut self, workload: &Workload, monitor: &Monitor) -> Result<u64, Error> {
        let mut clients = self.load.clients.min(CLIENTS_LEAST);
        let mut kops = self.play(clients, workload, monitor)?.kops;
        while clients * 2 <= self.load.clients {
            let more = self.play(clients * 2, workload, monitor)?.kops;
            if more < kops * 1.05 {
                break;
            }
            (clients, kops) = (clients * 2, more);
        }
        Ok(clients)
    }

    /// Runs `workload` with `clients` clients an instance: until one has made its operations, so that compactions have
    /// come to their pace, and as long again, which is measured.
    #[allow(clippy::cast_precision_loss)] // hours in nanoseconds
    pub(super) fn play(
        &mut self,
        clients: u64,
        workload: &Workload,
        monitor: &Monitor,
    ) -> Result<WorkloadResult, Error> {
        for instance in &mut self.instances {
            instance.begin(clients, workload, self.now);
        }
        self.run(workload, true, monitor)?;
        self.instances.iter_mut().for_each(Instance::forget);
        let begun = self.now;
        self.run(workload, true, monitor)?;
        let seconds = (self.now - begun) as f64 / 1e9;
        let mut result = WorkloadResult { clients, ..WorkloadResult::default() };
        for instance in &self.instances {
            result.kops += instance.ops as f64 / seconds / 1000.0;
            result.took.merge(&instance.took);
        }
        self.run(workload, false, monitor)?;
        Ok(result)
    }

    /// Runs until an instance has made its operations, or until all are idle.
    fn run(&mut self, workload: &Workload, another: bool, monitor: &Monitor) -> Result<(), Error> {
        let mut completed = Vec::new();
        let ops = self.load.ops.saturating_mul(workload.times);
        loop {
            if monitor.is_stopped() {
                return Err(Error::run("interrupted"));
            }
            for instance in &mut self.instances {
                instance.go_on(&mut self.timed, workload, self.now, another)?;
            }
            let ended = match another {
                true => self.instances.iter().any(|it| it.ops >= ops),
                false => self.instances.iter().all(Instance::is_idle),
            };
            if ended {
                return Ok(());
            }
            let due = self.instances.iter().filter_map(Instance::next_at);
            let next = due.chain(self.timed.next_at()).min();
            let next = next.ok_or_else(|| Error::run("ycsb: threads wait for what never comes"))?;
            self.now = self.now.max(next);
            self.timed.run(self.now, &mut completed).map_err(failed)?;
            for done in completed.drain(..) {
                let of = self.vssds.iter().position(|vssd| *vssd == done.vssd);
                if let Some(instance) = of.and_then(|of| self.instances.get_mut(of)) {
                    instance.ended(done.token);
                }
            }
        }
    }
}
