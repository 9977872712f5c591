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

/// The latencies of one cache and its clients.
#[derive(Debug, Default)]
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

/// A run, with the results of its second half.
#[derive(Debug)]
pub struct TimedRun {
    /// The run, as an untimed one would report it.
    pub run: SharedRun,
    /// Results by tenant.
    pub seen: Vec<TenantLatencies>,
    /// Duration of the second half, in seconds of virtual time.
    pub seconds: f64,
}

/// The drive of a timed run. Tenants have parts of equal size.
#[derive(Debug)]
pub struct TimedDrive {
    device: Arc<VirtualTimeDevice<Metered>>,
    seen: Arc<Mutex<Vec<TenantLatencies>>>,
}

impl TimedDrive {
    /// A fresh drive from `options`, with the timing of `timing`.
    ///
    /// # Errors
    /// [`Error::Usage`] if such a drive could not work.
    pub fn new(
        options: &ReplayOptions,
        placement: bool,
        handles: u16,
        timing: DriveTiming,
        tenants: usize,
    ) -> Result<Self, Error> {
        options.check()?;
        let config = configs::drive_config(options, placement, handles)?;
        let part_bytes = (config.geometry.logical_bytes() / tenants as u64).max(1);
        let ssd = SsdTiming::new(config, timing).map_err(|error| configs::no_such_drive(&error))?;
        let seen: Vec<_> = (0..tenants).map(|_| TenantLatencies::default()).collect();
        let seen = Arc::new(Mutex::new(seen));
        let model = Metered { ssd, part_bytes, seen: Arc::clone(&seen) };
        let device = VirtualTimeDevice::new(model, Payload::Memory, Arc::default());
        let device = device.map_err(|error| configs::no_such_drive(&error))?;
        Ok(Self { device: Arc::new(device), seen })
    }

    /// The drive as a device.
    pub fn device(&self) -> Arc<dyn Device> {
        Arc::clone(&self.device) as _
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
    part_bytes: u64,
    seen: Arc<Mutex<Vec<TenantLatencies>>>,
}

impl TimingModel for Metered {
    fn info(&self) -> DeviceInfo {
        self.ssd.info()
    }

    fn serve(&mut self, now: Moment, io: &Io) -> Result<Moment, larder_ssd::Error> {
        let end = self.ssd.serve(now, io)?;
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

/// Ages `drive`, then runs `load.clients` clients for the workload of each tenant, until one tenant has made all its
/// requests.
///
/// # Errors
/// The errors of [`shared::play`]; [`Error::Run`] if a client waits forever.
pub fn play(
    drive: &TimedDrive,
    tenants: &[Tenant],
    placement: bool,
    load: Load,
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
    let each = tenants.iter().filter_map(|tenant| tenant.options.total_requests()).min();
    let field = Field {
        drive,
        players: players.into_iter().map(RefCell::new).collect(),
        each: each.unwrap_or(0),
        load,
        rng: RefCell::new(fastrand::Rng::with_seed(load.seed)),
        begun: Cell::new(0),
        marks: RefCell::new(vec![(drive.clock().now(), drive.stats())]),
        seen: RefCell::default(),
        error: RefCell::new(None),
        monitor,
    };
    let mut executor = Executor::new(Arc::clone(drive.clock()));
    for (number, stage) in stages.iter().enumerate() {
        executor.spawn_background(stage.cache.send_demotions());
        for client in 0..load.clients as u64 {
            let client = Client::one_of(&stage.cache, client, load.clients as u64);
            executor.spawn(field.run(number, client));
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
    /// Number of requests for each cache.
    each: u64,
    load: Load,
    rng: RefCell<fastrand::Rng>,
    /// Requests that were started, of all caches.
    begun: Cell<u64>,
    /// The times and drive counters at the start, at half, at three quarters, and at the end of the run.
    marks: RefCell<Vec<(Duration, managed::Stats)>>,
    /// The results of the second half, set at its end: later completions do not count.
    seen: RefCell<Vec<TenantLatencies>>,
    error: RefCell<Option<Error>>,
    monitor: &'a Monitor,
}

impl<'a> Field<'a> {
    /// Runs a client of one cache to its end.
    async fn run(&self, tenant: usize, mut client: Client<'a>) {
        if let Err(error) = self.play(tenant, &mut client).await {
            self.error.borrow_mut().get_or_insert(error);
        }
    }

    async fn play(&self, tenant: usize, client: &mut Client<'a>) -> Result<(), Error> {
        let clock = self.drive.clock();
        let player = &self.players[tenant];
        while !self.is_over() {
            clock.sleep_until(clock.now() + self.request_time()).await;
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
    fn request_time(&self) -> Duration {
        let share = -(1.0 - self.rng.borrow_mut().f64()).ln();
        Duration::from_nanos((share * self.load.request_ns) as u64)
    }

    /// Notes that a request of a cache begins. Marks the parts of the run.
    fn note_begun(&self, tenant: usize) -> Result<(), Error> {
        let begun = self.begun.get() + 1;
        self.begun.set(begun);
        self.drive.seen()[tenant].requests += 1;
        let all = self.each * self.players.len() as u64;
        if begun >= all {
            self.end_now();
        } else if begun == all / 2 {
            self.mark();
            drop(self.drive.take_seen());
        } else if begun == all / 2 + all.div_ceil(4) {
            self.mark();
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
        let (seen, seconds) = (self.seen.into_inner(), (to - from).as_secs_f64());
        Ok(TimedRun { run: SharedRun { tenants, drive: work }, seen, seconds })
    }
}

#[cfg(test)]
mod tests {
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
        let drive = TimedDrive::new(&options, false, HANDLES, small(), 1).unwrap();
        let tenant = Tenant::new(options, drive.device());
        let load = Load { clients, request_ns, seed: 1 };
        play(&drive, &[tenant], false, load, &Monitor::default()).unwrap()
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
        assert!((2.0..32.0).contains(&(many / eight)), "{eight} {many}");
    }
}
