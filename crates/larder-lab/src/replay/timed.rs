//! Several caches on one drive under virtual time, with closed-loop clients that wait for their answers.
//!
//! Each client takes the next request of its cache's workload, is busy for a while, asks the cache (the real one),
//! waits for the answer, and takes the next request. A task of the cache writes items that leave DRAM to flash
//! concurrently. Everything runs under one executor. Only the drive and the clients' busy time take virtual time; the
//! timed SSD model determines the drive's. So a run is a function of its parameters and seed.
//!
//! The drive is aged as in the other experiments ([`shared`]), by a single client.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use larder::Clock;
use larder_device::model::virtual_time::{Moment, TimingModel};
use larder_device::{
    Device, DeviceInfo, DeviceStats, Io, Payload, SsdTiming, VirtualClock, VirtualTimeDevice,
};
use larder_sim::executor::Executor;
use larder_ssd::managed;
use larder_ssd::timed::DriveTiming;
use larder_workload::Latencies;

use super::client::Client;
use super::configs;
use super::progress::Monitor;
use super::shared::{self, DriveWork, Player, SharedRun, Tenant};
use super::stage::Stage;
use super::writers::Writers;
use super::{BREATH, ReplayOptions};
use crate::Error;

/// The load of a cache's clients.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Clients. Each has one request in flight.
    pub clients: usize,
    /// Mean time of a request outside the drive, in nanoseconds.
    pub request_ns: f64,
    /// Seed of the requests' times.
    pub seed: u64,
}

/// The host's part in the requests of the drive.
#[derive(Debug, Clone, Copy)]
pub struct Host {
    /// What it takes for each, in nanoseconds: the system call, and waking up the thread that waits.
    pub request_ns: u64,
    /// Writes of one cache that it has under way at a time, at least 1; the others wait in a queue of the host, and
    /// that is not part of their latency.
    pub writers: usize,
}

/// The latencies of one cache and its clients.
#[derive(Debug, Clone, Default)]
pub struct TenantLatencies {
    /// Reads of the drive.
    pub reads: Latencies,
    /// Writes to the drive, until acknowledged.
    pub writes: Latencies,
    /// GETs that took any time, that is, those that waited for flash.
    pub gets: Latencies,
    /// Requests that were started.
    pub requests: u64,
}

impl TenantLatencies {
    fn merge(&mut self, other: &Self) {
        self.reads.merge(&other.reads);
        self.writes.merge(&other.writes);
        self.gets.merge(&other.gets);
        self.requests += other.requests;
    }
}

/// A run, with the results of its second half.
#[derive(Debug)]
pub struct TimedRun {
    /// The run, as an untimed one would report it.
    pub run: SharedRun,
    /// Results by tenant.
    pub seen: Vec<TenantLatencies>,
    /// The same of the third quarter and of the last quarter of the run.
    pub by_quarter: [Vec<TenantLatencies>; 2],
    /// Duration of the second half, in seconds of virtual time.
    pub seconds: f64,
}

/// The drive of a timed run. Tenants have parts of equal size.
#[derive(Debug)]
pub struct TimedDrive {
    device: Arc<VirtualTimeDevice<Metered>>,
    seen: Arc<Mutex<Vec<TenantLatencies>>>,
    host: Host,
}

impl TimedDrive {
    /// A fresh drive from `options`, with the timing of `timing`, on `host`.
    ///
    /// # Errors
    /// [`Error::Usage`] if such a drive could not work.
    pub fn new(
        options: &ReplayOptions,
        placement: bool,
        handles: u16,
        timing: DriveTiming,
        host: Host,
        tenants: usize,
    ) -> Result<Self, Error> {
        options.check()?;
        let config = configs::drive_config(options, placement, handles)?;
        let part_bytes = (config.geometry.logical_bytes() / tenants as u64).max(1);
        let ssd = SsdTiming::new(config, timing).map_err(|error| configs::no_such_drive(&error))?;
        let seen: Vec<_> = (0..tenants).map(|_| TenantLatencies::default()).collect();
        let seen = Arc::new(Mutex::new(seen));
        let model = Metered { ssd, host_ns: host.request_ns, part_bytes, seen: Arc::clone(&seen) };
        let device = VirtualTimeDevice::new(model, Payload::Memory, Arc::default());
        let device = device.map_err(|error| configs::no_such_drive(&error))?;
        Ok(Self { device: Arc::new(device), seen, host })
    }

    /// The drive as a device.
    pub fn device(&self) -> Arc<dyn Device> {
        Arc::clone(&self.device) as _
    }

    /// `device`, which is this drive or a part of it, as a cache on the host uses it.
    pub fn for_cache(&self, device: Arc<dyn Device>) -> Arc<dyn Device> {
        Arc::new(Writers::new(device, self.host.writers, Arc::clone(self.clock())))
    }

    fn clock(&self) -> &Arc<VirtualClock> {
        self.device.clock()
    }

    fn stats(&self) -> managed::Stats {
        self.device.with_model(|model| model.ssd.firmware().stats().clone())
    }

    fn seen(&self) -> MutexGuard<'_, Vec<TenantLatencies>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the results so far, by tenant, and resets them.
    fn take_seen(&self) -> Vec<TenantLatencies> {
        self.seen().iter_mut().map(std::mem::take).collect()
    }
}

/// The timed SSD, with the latencies of its requests by tenant. A request's offset determines the tenant.
#[derive(Debug)]
struct Metered {
    ssd: SsdTiming,
    /// What the host takes for each request.
    host_ns: u64,
    part_bytes: u64,
    seen: Arc<Mutex<Vec<TenantLatencies>>>,
}

impl TimingModel for Metered {
    fn info(&self) -> DeviceInfo {
        self.ssd.info()
    }

    fn serve(&mut self, now: Moment, io: &Io) -> Result<Moment, larder_ssd::Error> {
        let end = self.ssd.serve(now, io)?.after(self.host_ns);
        let took = end.as_nanos() - now.as_nanos();
        let part = usize::try_from(io.extent().1 / self.part_bytes).unwrap_or(usize::MAX);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let last = seen.len() - 1;
        match io {
            Io::Read { .. } => seen[part.min(last)].reads.record_ns(took),
            Io::Write { .. } => seen[part.min(last)].writes.record_ns(took),
            Io::Deallocate { .. } | Io::WriteZeroes { .. } | Io::Flush => {}
        }
        Ok(end)
    }

    fn stats(&self) -> DeviceStats {
        self.ssd.stats()
    }
}

/// Ages `drive`, then runs the clients of each tenant's load for its workload, until as many requests are made as all
/// tenants together have, or one tenant has made all of its own. A tenant without a load makes none.
///
/// # Errors
/// The errors of [`shared::play`]; [`Error::Run`] if a client waits forever.
pub fn play(
    drive: &TimedDrive,
    tenants: &[Tenant],
    placement: bool,
    loads: &[Load],
    monitor: &Monitor,
) -> Result<TimedRun, Error> {
    let open = |tenant: &Tenant| {
        let (device, clock) = (Some(Arc::clone(&tenant.device)), Arc::clone(drive.clock()));
        Stage::open_by(&tenant.options, tenant.engines, placement, device, clock)
    };
    let stages: Vec<Stage> = tenants.iter().map(open).collect::<Result<_, _>>()?;
    let players = tenants.iter().zip(&stages).map(|(tenant, stage)| Player::new(tenant, stage));
    let mut players: Vec<Player<'_>> = players.collect::<Result<_, _>>()?;
    shared::age(&mut players, monitor)?;
    let requests = tenants.iter().filter_map(|tenant| tenant.options.total_requests());
    let field = Field {
        drive,
        players: players.into_iter().map(RefCell::new).collect(),
        all: requests.sum(),
        rng: RefCell::new(fastrand::Rng::with_seed(loads.first().map_or(0, |load| load.seed))),
        begun: Cell::new(0),
        marks: RefCell::new(vec![(drive.clock().now(), drive.stats())]),
        seen: RefCell::default(),
        third_quarter: RefCell::default(),
        error: RefCell::new(None),
        monitor,
    };
    let mut executor = Executor::new(Arc::clone(drive.clock()));
    for (number, (stage, load)) in stages.iter().zip(loads).enumerate() {
        executor.spawn_background(stage.cache.send_demotions());
        for client in 0..load.clients as u64 {
            let client = Client::one_of(&stage.cache, client, load.clients as u64);
            executor.spawn(field.run(number, *load, client));
        }
    }
    executor.run().map_err(|stalled| Error::run(format!("virtual time: {stalled}")))?;
    drop(executor);
    field.end(placement)
}

/// State shared by all clients of a run.
struct Field<'a> {
    drive: &'a TimedDrive,
    players: Vec<RefCell<Player<'a>>>,
    /// Number of requests of all caches.
    all: u64,
    rng: RefCell<fastrand::Rng>,
    /// Requests that were started, of all caches.
    begun: Cell<u64>,
    /// The times and drive counters at the start, at half, at three quarters, and at the end of the run.
    marks: RefCell<Vec<(Duration, managed::Stats)>>,
    /// The results of the last quarter, set at its end: later completions do not count.
    seen: RefCell<Vec<TenantLatencies>>,
    third_quarter: RefCell<Vec<TenantLatencies>>,
    error: RefCell<Option<Error>>,
    monitor: &'a Monitor,
}

impl<'a> Field<'a> {
    /// Runs a client of one cache to its end.
    async fn run(&self, tenant: usize, load: Load, mut client: Client<'a>) {
        if let Err(error) = self.play(tenant, load, &mut client).await {
            self.error.borrow_mut().get_or_insert(error);
        }
    }

    async fn play(&self, tenant: usize, load: Load, client: &mut Client<'a>) -> Result<(), Error> {
        let clock = self.drive.clock();
        let player = &self.players[tenant];
        while !self.is_over() {
            clock.sleep_until(clock.now() + self.request_time(load)).await;
            if self.is_over() {
                break;
            }
            let Some(request) = player.borrow_mut().next_request()? else {
                self.end_now();
                break;
            };
            self.note_begun(tenant)?;
            let asked = clock.now();
            client.play(&request, || self.note_get(tenant, clock.now() - asked)).await?;
            player.borrow_mut().made_by(client)?;
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.marks.borrow().len() > 3 || self.error.borrow().is_some()
    }

    /// Exponentially distributed, so that the clients do not run in lockstep.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a positive number
    fn request_time(&self, load: Load) -> Duration {
        let share = -(1.0 - self.rng.borrow_mut().f64()).ln();
        Duration::from_nanos((share * load.request_ns) as u64)
    }

    /// Notes that a request of a cache begins. Marks the parts of the run.
    fn note_begun(&self, tenant: usize) -> Result<(), Error> {
        let begun = self.begun.get() + 1;
        self.begun.set(begun);
        self.drive.seen()[tenant].requests += 1;
        let all = self.all;
        if begun >= all {
            self.end_now();
        } else if begun == all / 2 {
            self.mark();
            drop(self.drive.take_seen());
        } else if begun == all / 2 + all.div_ceil(4) {
            self.mark();
            self.third_quarter.replace(self.drive.take_seen());
        }
        if begun.is_multiple_of(BREATH) {
            shared::stop_if_asked(self.monitor)?;
        }
        Ok(())
    }

    fn note_get(&self, tenant: usize, took: Duration) {
        if !took.is_zero() {
            self.drive.seen()[tenant].gets.record(took);
        }
    }

    fn mark(&self) {
        let mark = (self.drive.clock().now(), self.drive.stats());
        self.marks.borrow_mut().push(mark);
    }

    /// Ends the run, even if marks are missing.
    fn end_now(&self) {
        while self.marks.borrow().len() <= 3 {
            self.mark();
        }
        self.seen.replace(self.drive.take_seen());
    }

    fn end(self, placement: bool) -> Result<TimedRun, Error> {
        if let Some(error) = self.error.into_inner() {
            return Err(error);
        }
        let marks = <[_; 4]>::try_from(self.marks.into_inner());
        let Ok([_, (from, warm), (_, halfway), (to, last)]) = marks else {
            return Err(Error::run("timed run: it ended before it was over"));
        };
        let capacity_bytes = self.drive.device.info().capacity_bytes;
        let work = DriveWork::between(&[warm, halfway, last], capacity_bytes);
        let ended =
            self.players.into_iter().map(|player| player.into_inner().end(placement, &work));
        let tenants = ended.collect::<Result<_, _>>()?;
        let by_quarter = [self.third_quarter.into_inner(), self.seen.into_inner()];
        let mut seen = by_quarter[1].clone();
        seen.iter_mut().zip(&by_quarter[0]).for_each(|(all, third)| all.merge(third));
        let seconds = (to - from).as_secs_f64();
        Ok(TimedRun { run: SharedRun { tenants, drive: work }, seen, by_quarter, seconds })
    }
}

#[cfg(test)]
mod tests {
    use larder_device::SliceDevice;
    use larder_ssd::timed::small;

    use super::*;
    use crate::replay::shared::HANDLES;

    fn options(requests: u64) -> ReplayOptions {
        ReplayOptions {
            requests: Some(requests),
            flash_bytes: 60 << 20,
            dram_bytes: 1 << 20,
            unit_bytes: Some(4 * (192 << 10)),
            ..ReplayOptions::of_preset("meta-kv", 1)
        }
    }

    fn alone(requests: u64, clients: usize, request_ns: f64) -> TimedRun {
        let options = options(requests);
        alone_on(options, Host { request_ns: 0, writers: 36 }, clients, request_ns)
    }

    fn alone_on(options: ReplayOptions, host: Host, clients: usize, request_ns: f64) -> TimedRun {
        let drive = TimedDrive::new(&options, false, HANDLES, small(), host, 1).unwrap();
        let tenant = Tenant::new(options, drive.for_cache(drive.device()));
        let load = Load { clients, request_ns, seed: 1 };
        play(&drive, &[tenant], false, &[load], &Monitor::default()).unwrap()
    }

    /// A tenant whose clients make requests at a tenth of the rate makes a tenth as many.
    #[test]
    fn each_tenant_has_its_own_load() {
        let host = Host { request_ns: 0, writers: 36 };
        let drive = TimedDrive::new(&options(22_000), false, HANDLES, small(), host, 2).unwrap();
        let part = 30 << 20;
        let tenant = |number: u64, requests| {
            let range = number * part..(number + 1) * part;
            let device = SliceDevice::new(drive.device(), range, &[Default::default(); 2]).unwrap();
            let options = ReplayOptions { flash_bytes: part, ..options(requests) };
            Tenant::new(options, drive.for_cache(Arc::new(device)))
        };
        let load = |request_ns| Load { clients: 4, request_ns, seed: 1 };
        let tenants = [tenant(0, 20_000), tenant(1, 2000)];
        let loads = [load(50_000.0), load(500_000.0)];
        let run = play(&drive, &tenants, false, &loads, &Monitor::default()).unwrap();
        let made = [0, 1].map(|tenant: usize| run.seen[tenant].requests as f64);
        assert!((5.0..20.0).contains(&(made[0] / made[1])), "{made:?}");
        assert!(made[0] + made[1] > 9000.0, "{made:?}");
    }

    #[test]
    fn the_host_adds_its_time_to_each_request_of_the_drive() {
        // The shortest: the others wait for each other too.
        let shortest = |request_ns| {
            let run = alone_on(options(20_000), Host { request_ns, writers: 36 }, 10, 50_000.0);
            let seen = &run.seen[0];
            [&seen.reads, &seen.writes].map(|times| times.quantile_us(0.0).unwrap())
        };
        let (without, with) = (shortest(0), shortest(300_000));
        for (without, with) in without.into_iter().zip(with) {
            assert!((295.0..305.0).contains(&(with - without)), "{without} {with}");
        }
    }

    #[test]
    fn a_run_is_the_same_each_time_down_to_every_request() {
        let once = format!("{:?}", alone(20_000, 10, 5000.0));
        assert!(once == format!("{:?}", alone(20_000, 10, 5000.0)));
        assert!(once != format!("{:?}", alone(20_000, 10, 5001.0)));
    }

    #[test]
    fn the_second_half_is_measured() {
        let run = alone(20_000, 10, 5000.0);
        let (seen, tenant) = (&run.seen[0], &run.run.tenants[0]);
        assert_eq!((seen.requests, tenant.run.requests), (10_000, 20_000));
        assert!((1..tenant.run.gets).contains(&seen.gets.count()));
        assert!(seen.gets.quantile_us(0.0) > Some(0.0));
        let by_quarter = run.by_quarter.each_ref().map(|quarter| quarter[0].requests);
        assert_eq!(by_quarter, [5000, 5000]);
        let pages: u64 = run.run.drive.host_pages;
        assert!((1..=pages).contains(&seen.writes.count()), "{pages}");
        assert!(tenant.loc_wraps_before >= 3.0 && run.run.drive.dlwa > 1.0);
    }

    #[test]
    fn more_clients_make_more_requests_until_the_drive_is_the_limit() {
        let rate = |clients| {
            let run = alone(20_000, clients, 50_000.0);
            run.seen[0].requests as f64 / run.seconds
        };
        let [one, eight, many] = [1, 8, 512].map(rate);
        assert!((4.0..8.1).contains(&(eight / one)), "{one} {eight}");
        // The more of them find their values on flash, the sooner the drive is the limit.
        assert!((1.3..32.0).contains(&(many / eight)), "{eight} {many}");
    }
}
