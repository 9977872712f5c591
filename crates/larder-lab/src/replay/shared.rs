//! Several caches on one simulated drive, in one thread: they make their requests in turns.
//!
//! An experiment builds the drive, divides it or puts a wrapper around it, and hands out the devices. A [`Neighbour`]
//! may write to the drive between the caches' turns.
//!
//! Before its requests count, each cache ages the drive: it sets new keys with the sizes of the workload, and the same
//! number of bytes for the small-object engine as for the large-object one, until the large-object engine has wrapped
//! around [`AGE_WRAPS`] times and the device has been written over nine times. This is preconditioning, as in drive
//! tests. In the workload itself there are a hundred small writes for a few large ones, and the drive would have to be
//! written a hundred times over to get as far. The workload must have objects of both kinds.

use std::sync::Arc;
use std::time::Duration;

use larder::Layout;
use larder_device::{Device, ModelDevice};
use larder_ssd::managed;
use larder_workload::{Op, Request, RequestSource};

use super::client::{Client, ClientCounts};
use super::counted::CountedDrive;
use super::options::{EngineOptions, ReplayOptions};
use super::outcome::Run;
use super::progress::Monitor;
use super::stage::{self, Stage};
use super::timeline::Timeline;
use super::{BREATH, check_device, sample};
use crate::Error;

/// Wraps of the large-object engine before the requests of the workload begin.
pub const AGE_WRAPS: u64 = 3;
/// Minimum number of times that its device, including the part that the cache leaves free, is written over.
const AGE_WRITES: u64 = 9;
/// Bytes that the small-object engine writes for an object.
const BUCKET_BYTES: u64 = 4096;
/// Combined with the workload's seed, so that ageing uses a different one.
const AGE_SEED: u64 = 0x6167_6520;

/// One cache and its workload.
pub struct Tenant {
    /// Workload and cache. Its settings about the drive are not used, except for the reclaim unit.
    pub options: ReplayOptions,
    /// Special options of its engines.
    pub engines: EngineOptions,
    /// The device of the cache.
    pub device: Arc<dyn Device>,
    /// Requests that it makes in its turn.
    pub requests_per_turn: u64,
    /// Times that its device is written over, at least, before its requests begin.
    pub age_writes: u64,
}

impl Tenant {
    /// A cache with default engine options that makes one request in its turn, after nine drive writes.
    pub fn new(options: ReplayOptions, device: Arc<dyn Device>) -> Self {
        Self {
            options,
            engines: EngineOptions::default(),
            device,
            requests_per_turn: 1,
            age_writes: AGE_WRITES,
        }
    }
}

/// Another writer to the drive. It is called once a turn with the host bytes of the drive.
pub type Neighbour<'a> = dyn FnMut(u64) -> Result<(), Error> + 'a;

/// The result of a run on a shared drive.
#[derive(Debug, Clone)]
pub struct SharedRun {
    /// One for each tenant. Their device counters are those of the whole drive.
    pub tenants: Vec<TenantRun>,
    /// The drive's work after warm-up.
    pub drive: DriveWork,
}

/// The results of one tenant.
#[derive(Debug, Clone)]
pub struct TenantRun {
    /// The run, in the form of a replay's result.
    pub run: Run,
    /// Wraps of the large-object engine before the measurement, including ageing.
    pub loc_wraps_before: f64,
    /// Streams that got the default handle because no other was left.
    pub fallen_back_streams: u32,
}

/// The drive's work during the measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct DriveWork {
    /// Media pages per host page.
    pub dlwa: f64,
    /// Relative difference of DLWA between the second and the first half of the measurement, in either direction: 0 on
    /// a drive in a steady state.
    pub drift: f64,
    /// Pages that the host wrote.
    pub host_pages: u64,
    /// The same, by placement handle.
    pub host_pages_by_handle: Vec<u64>,
    /// Valid pages that the host deallocated.
    pub deallocated_pages: u64,
    /// Units erased.
    pub erased_units: u64,
    /// Pages that garbage collection moved.
    pub copied_pages: u64,
    /// Units that garbage collection had to copy from.
    pub units_collected_with_copies: u64,
    /// Times that the drive was written over before the measurement.
    pub drive_writes_before: f64,
}

/// The simulated drive of `options`, with `handles` handles.
///
/// # Errors
/// [`Error::Usage`] if such a drive could not work.
pub fn drive(
    options: &ReplayOptions,
    placement: bool,
    handles: u16,
) -> Result<Arc<ModelDevice>, Error> {
    options.check()?;
    stage::drive(options, placement, handles).map(Arc::new)
}

/// Checks whether a cache with `options` can be opened on `device`.
///
/// # Errors
/// The errors of the cache.
pub fn opens(options: &ReplayOptions, device: Arc<dyn Device>) -> Result<(), Error> {
    Stage::open(options, EngineOptions::default(), true, Some(device)).map(|_| ())
}

/// Handles of the drives that `larder replay` simulates.
pub const HANDLES: u16 = stage::HANDLES;

/// Ages `drive`, then replays the workloads of all `tenants` in turns, until one of them has made all its requests.
///
/// # Errors
/// The errors of a replay; [`Error::Run`] if it was interrupted.
pub fn play(
    drive: &dyn CountedDrive,
    tenants: &[Tenant],
    placement: bool,
    neighbour: &mut Neighbour<'_>,
    monitor: &Monitor,
) -> Result<SharedRun, Error> {
    let stages: Vec<Stage> = tenants
        .iter()
        .map(|tenant| {
            let device = Some(Arc::clone(&tenant.device));
            Stage::open(&tenant.options, tenant.engines, placement, device)
        })
        .collect::<Result<_, _>>()?;
    let mut players: Vec<Player<'_>> = tenants
        .iter()
        .zip(&stages)
        .map(|(tenant, stage)| Player::new(tenant, stage))
        .collect::<Result<_, _>>()?;
    age(&mut players, monitor)?;
    let turns = players.iter().map(Player::turns).min().unwrap_or(0);
    let warm_turn = turns / 2;
    let mut warm = drive.stats();
    let mut halfway = warm.clone();
    for turn in 0..turns {
        if turn == warm_turn {
            warm = drive.stats();
        }
        if turn == warm_turn + (turns - warm_turn) / 2 {
            halfway = drive.stats();
        }
        for player in &mut players {
            player.take_turn()?;
        }
        neighbour(drive.host_bytes())?;
        if turn.is_multiple_of(BREATH) {
            stop_if_asked(monitor)?;
        }
    }
    let stats = [warm, halfway, drive.stats()];
    let work = DriveWork::between(&stats, drive.capacity_bytes());
    let ended = players.into_iter().map(|player| player.end(placement, &work));
    Ok(SharedRun { tenants: ended.collect::<Result<_, _>>()?, drive: work })
}

/// Ages the drive of all players. Its counters are used only from then on.
pub(super) fn age(players: &mut [Player<'_>], monitor: &Monitor) -> Result<(), Error> {
    while players.iter_mut().try_fold(false, |busy, player| Ok::<_, Error>(player.age()? | busy))? {
        stop_if_asked(monitor)?;
    }
    players.iter_mut().for_each(Player::begin);
    Ok(())
}

pub(super) fn stop_if_asked(monitor: &Monitor) -> Result<(), Error> {
    if monitor.is_stopped() { Err(Error::run("interrupted")) } else { Ok(()) }
}

impl DriveWork {
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn between([from, halfway, to]: &[managed::Stats; 3], capacity_bytes: u64) -> Self {
        let by_handle = to.host_pages_by_handle.iter().zip(&from.host_pages_by_handle);
        Self {
            host_pages_by_handle: by_handle.map(|(to, from)| to - from).collect(),
            deallocated_pages: to.deallocated_pages - from.deallocated_pages,
            dlwa: to.dlwa_since(from).unwrap_or(f64::NAN),
            drift: drift(from, halfway, to),
            host_pages: to.host_pages - from.host_pages,
            erased_units: to.erased_units - from.erased_units,
            copied_pages: to.copied_pages - from.copied_pages,
            units_collected_with_copies: to.units_collected_with_copies
                - from.units_collected_with_copies,
            drive_writes_before: from.host_bytes() as f64 / capacity_bytes as f64,
        }
    }
}

/// Relative difference of DLWA between two consecutive stretches; NaN if one of them has none.
pub(crate) fn drift(from: &managed::Stats, halfway: &managed::Stats, to: &managed::Stats) -> f64 {
    let halves = (halfway.dlwa_since(from), to.dlwa_since(halfway));
    let (Some(first), Some(second)) = halves else { return f64::NAN };
    (second / first - 1.0).abs()
}

/// A tenant during a run.
pub(super) struct Player<'a> {
    tenant: &'a Tenant,
    stage: &'a Stage,
    client: Client<'a>,
    source: Box<dyn RequestSource>,
    ageing: Ageing,
    timeline: Timeline,
    loc_bytes_before: u64,
}

impl<'a> Player<'a> {
    pub(super) fn new(tenant: &'a Tenant, stage: &'a Stage) -> Result<Self, Error> {
        let client = Client::new(&stage.cache);
        let source = tenant.options.open_workload()?;
        let layout = stage.some_cache().layout();
        let ageing = Ageing::new(&tenant.options, tenant.age_writes, layout)?;
        let timeline = Timeline::starting_with(sample(stage, client.counts));
        Ok(Self { tenant, stage, client, source, ageing, timeline, loc_bytes_before: 0 })
    }

    /// Ages the drive a little. Returns whether more ageing is needed.
    pub(super) fn age(&mut self) -> Result<bool, Error> {
        let stats = self.stage.cache.stats();
        let written = (stats.loc_written_bytes, stats.flash_written_bytes());
        if written.0 >= self.ageing.loc_bytes && written.1 >= self.ageing.bytes {
            return Ok(false);
        }
        for _ in 0..Ageing::STEP {
            let request = self.ageing.next()?;
            self.client.make(&request)?;
        }
        check_device(self.stage)?;
        Ok(true)
    }

    /// Starts the measurement: resets the counters.
    pub(super) fn begin(&mut self) {
        self.client.counts = ClientCounts::default();
        self.timeline = Timeline::starting_with(sample(self.stage, self.client.counts));
        self.loc_bytes_before = self.stage.cache.stats().loc_written_bytes;
    }

    pub(super) fn turns(&self) -> u64 {
        self.tenant.options.total_requests().unwrap_or(u64::MAX) / self.tenant.requests_per_turn
    }

    fn take_turn(&mut self) -> Result<(), Error> {
        for _ in 0..self.tenant.requests_per_turn {
            let Some(request) = self.next_request()? else { break };
            self.stage.clock.advance_to(Duration::from_secs(u64::from(request.time_s)));
            self.client.make(&request)?;
            self.note_made()?;
        }
        Ok(())
    }

    /// The next request of the workload.
    pub(super) fn next_request(&mut self) -> Result<Option<Request>, Error> {
        self.source.next_request()
    }

    /// Adds the request that another client has made.
    pub(super) fn made_by(&mut self, client: &mut Client<'_>) -> Result<(), Error> {
        self.client.counts.add(std::mem::take(&mut client.counts));
        self.note_made()
    }

    /// Notes that a request was made.
    fn note_made(&mut self) -> Result<(), Error> {
        let requests = self.client.counts.requests;
        if self.timeline.is_due(requests) {
            self.timeline.add(sample(self.stage, self.client.counts));
        }
        if requests.is_multiple_of(BREATH) {
            check_device(self.stage)?;
        }
        Ok(())
    }

    #[allow(clippy::cast_precision_loss)]
    pub(super) fn end(self, placement: bool, work: &DriveWork) -> Result<TenantRun, Error> {
        check_device(self.stage)?;
        let timeline = self.timeline.finish(sample(self.stage, self.client.counts));
        let run = Run::sum_up(placement, &timeline, 50.0);
        let warm = run.intervals.iter().filter(|interval| interval.warmup);
        let loc_bytes = self.loc_bytes_before + warm.map(|i| i.loc_bytes).sum::<u64>();
        let streams = self.stage.some_cache().placement().streams().iter();
        let fallen_back = streams.filter(|stream| stream.fell_back());
        Ok(TenantRun {
            loc_wraps_before: loc_bytes as f64
                / loc_capacity(self.stage.some_cache().layout()) as f64,
            fallen_back_streams: u32::try_from(fallen_back.count()).unwrap_or(u32::MAX),
            run: Run { drive_writes_before: work.drive_writes_before, ..run },
        })
    }
}

fn loc_capacity(layout: Option<&Layout>) -> u64 {
    layout.map_or(0, |layout| u64::from(layout.loc_regions) * u64::from(layout.region_bytes))
}

/// SETs of new keys, with half of the bytes for each engine.
struct Ageing {
    source: Box<dyn RequestSource>,
    options: ReplayOptions,
    /// Bytes for the large-object engine minus those for the small-object engine.
    balance: u64,
    keys: u64,
    /// Bytes that the large-object engine is to write.
    loc_bytes: u64,
    /// Bytes that the cache is to write.
    bytes: u64,
    /// Larger objects are skipped: the large-object engine might not hold them.
    object_bytes_max: u64,
    /// Whether the current pass over the workload has produced anything.
    pass_gave: bool,
}

impl Ageing {
    /// SETs between two checks of the progress.
    const STEP: u32 = 64;

    fn new(options: &ReplayOptions, writes: u64, layout: Option<&Layout>) -> Result<Self, Error> {
        let options = ReplayOptions { seed: options.seed ^ AGE_SEED, ..options.clone() };
        let source = options.open_workload()?;
        let loc_bytes = AGE_WRAPS * loc_capacity(layout);
        let bytes = writes * layout.map_or(0, |layout| layout.capacity_bytes);
        let region_bytes = layout.map_or(u64::MAX, |layout| u64::from(layout.region_bytes));
        // Headers and footers of a region take less than a tenth of it.
        let object_bytes_max = region_bytes / 10 * 9;
        Ok(Self {
            source,
            options,
            balance: 0,
            keys: u64::MAX,
            loc_bytes,
            bytes,
            object_bytes_max,
            pass_gave: false,
        })
    }

    fn next(&mut self) -> Result<Request, Error> {
        loop {
            let Some(request) = self.source.next_request()? else {
                // Another pass would not produce more.
                if !std::mem::take(&mut self.pass_gave) {
                    return Err(self.gives_nothing());
                }
                self.source = self.options.open_workload()?;
                continue;
            };
            let bytes = request.object_bytes();
            if bytes > self.object_bytes_max {
                continue;
            }
            if bytes > u64::from(self.options.soc_max_object_bytes) {
                self.balance += bytes;
            } else if self.balance >= BUCKET_BYTES {
                self.balance -= BUCKET_BYTES;
            } else {
                continue;
            }
            self.keys -= 1;
            self.pass_gave = true;
            return Ok(Request { key: self.keys, op: Op::Set, ttl_s: 0, ..request });
        }
    }

    /// Small objects are only set together with large ones, and the workload has no usable large ones.
    fn gives_nothing(&self) -> Error {
        Error::run(format!(
            "{}: has no object above {} bytes (soc_max_object) and up to {} (nine tenths of a region of \
             the large-object engine), so the drive cannot be aged with it; use a smaller \
             soc_max_object, or a larger drive, whose regions are larger",
            self.options.workload, self.options.soc_max_object_bytes, self.object_bytes_max
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> ReplayOptions {
        ReplayOptions {
            requests: Some(20_000),
            flash_bytes: 8 << 20,
            dram_bytes: 64 << 10,
            ..ReplayOptions::of_preset("meta-kv", 1)
        }
    }

    fn play_alone(options: &ReplayOptions, neighbour: &mut Neighbour<'_>) -> SharedRun {
        let drive = drive(options, true, HANDLES).unwrap();
        let device = Arc::clone(&drive);
        let tenant = Tenant { requests_per_turn: 2, ..Tenant::new(options.clone(), device) };
        play(&drive, &[tenant], true, neighbour, &Monitor::default()).unwrap()
    }

    #[test]
    fn the_drive_is_aged_before_requests_count() {
        let mut turns = 0;
        let played = play_alone(&options(), &mut |_| {
            turns += 1;
            Ok(())
        });
        let [tenant] = played.tenants.as_slice() else { panic!("one tenant") };
        assert_eq!((turns, tenant.run.requests, tenant.fallen_back_streams), (10_000, 20_000, 0));
        assert!(tenant.loc_wraps_before >= 3.0, "{}", tenant.loc_wraps_before);
        assert!(played.drive.drive_writes_before >= 9.0, "{}", played.drive.drive_writes_before);
        assert!(tenant.run.hits > 0 && tenant.run.gets < tenant.run.requests);
    }

    #[test]
    fn ageing_gives_both_engines_as_many_bytes() {
        let mut ageing = Ageing::new(&options(), AGE_WRITES, None).unwrap();
        let (mut soc, mut loc) = (0, 0);
        for _ in 0..10_000 {
            let request = ageing.next().unwrap();
            assert_eq!(request.op, Op::Set);
            match request.object_bytes() {
                0..=640 => soc += BUCKET_BYTES,
                large => loc += large,
            }
        }
        assert!(soc.abs_diff(loc) < loc / 10, "{soc} {loc}");
    }

    /// Objects that are all of one size, all small, or too large for a region.
    #[test]
    fn a_workload_that_cannot_age_the_drive_is_refused() {
        let workload =
            ReplayOptions { requests: Some(1000), ..ReplayOptions::of_preset("uniform", 1) };
        let first = workload.open_workload().unwrap().next_request().unwrap().unwrap();
        let bytes = u32::try_from(first.object_bytes()).unwrap();
        for (small, large) in [(bytes, u64::MAX), (640, u64::from(bytes) - 1)] {
            let options = ReplayOptions { soc_max_object_bytes: small, ..workload.clone() };
            let mut ageing = Ageing::new(&options, AGE_WRITES, None).unwrap();
            ageing.object_bytes_max = large;
            let refused = ageing.next().unwrap_err().to_string();
            let begin = format!("workload uniform: has no object above {small} bytes");
            assert!(refused.starts_with(&begin), "{refused}");
            assert!(refused.contains(&format!("up to {large} (nine tenths")), "{refused}");
        }
        let options = ReplayOptions { soc_max_object_bytes: bytes - 1, ..workload };
        // The number of objects that several passes produce.
        let mut ageing = Ageing::new(&options, AGE_WRITES, None).unwrap();
        assert!((0..3000).all(|_| ageing.next().is_ok()));
    }

    #[test]
    fn what_the_neighbour_cannot_do_ends_the_run() {
        let options = options();
        let drive = drive(&options, true, HANDLES).unwrap();
        let device = Arc::clone(&drive);
        let tenant = Tenant::new(options, device);
        let mut fails = |_| Err(Error::run("no"));
        let ended = play(&drive, &[tenant], true, &mut fails, &Monitor::default());
        assert_eq!(ended.unwrap_err().to_string(), "no");
    }
}
