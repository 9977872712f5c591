//! A workload through the cache on a device, with and without placement.
//!
//! The two runs see the same requests in the same order and differ in one thing: whether the engines' writes carry
//! their placement handles and the drive uses them. Each runs single-threaded on its own drive, so a run is a function
//! of its parameters and seed.
//!
//! | file | content |
//! |---|---|
//! | `options`, `configs` | parameters, and the drive and cache that follow from them |
//! | `client` | a look-aside client: a GET that misses is followed by a SET |
//! | `stage` | the environment of a run: a drive, a cache on it, a clock |
//! | `shared`, `timed` | several caches on one drive: in turns, or under virtual time with many clients |
//! | `vssd`, `from_fresh` | a run on a virtual SSD; a run on a fresh drive, measured in drive writes |
//! | `counted`, `timeline`, `progress` | counters of any drive, samples of a run, its progress |
//! | `outcome`, `drive` | the result, also as JSON; what an NVMe drive counted |

mod client;
mod configs;
mod counted;
mod drive;
pub mod from_fresh;
mod options;
pub mod outcome;
mod progress;
pub mod shared;
mod stage;
pub mod timed;
mod timeline;
pub mod vssd;
mod writers;

use std::time::{Duration, Instant};

use larder::Clock;
use larder_workload::RequestSource;

use crate::Error;
use client::{Client, ClientCounts};
pub use counted::CountedDrive;
pub use drive::{DriveFacts, EventCount, UnavailableFact};
pub use options::{EngineOptions, PlacementRuns, ReplayOptions, Storage, VssdPlace, Workload};
pub use outcome::{ArrayRun, Outcome, Run, ShardRun, SocLog, StreamPlan};
pub use progress::{Monitor, RunProgress};
use stage::Stage;
use timeline::{Sample, Timeline};

/// Requests between two checks of the stop flag, and between two progress reports.
const BREATH: u64 = 4096;

/// Replays a workload with `options`. Both runs execute concurrently on two threads.
///
/// # Errors
/// [`Error::Usage`] for invalid parameters, [`Error::Run`] for a bad trace, a device that fails, or a cache that gives
/// a wrong answer.
pub fn replay(options: &ReplayOptions, monitor: &Monitor) -> Result<Outcome, Error> {
    options.check()?;
    let settings: &[bool] = match options.placement {
        PlacementRuns::On => &[true],
        PlacementRuns::Off => &[false],
        PlacementRuns::Both => &[true, false],
    };
    let runs = std::thread::scope(|scope| {
        let threads: Vec<_> = settings
            .iter()
            .map(|&placement| {
                scope.spawn(move || {
                    let ended = run(options, placement, monitor);
                    if ended.is_err() {
                        monitor.stop(); // the other run would be useless
                    }
                    ended
                })
            })
            .collect();
        let joined = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined.collect::<Result<Vec<Run>, Error>>()
    })?;
    let parameters = options.to_json();
    Ok(Outcome { command: "replay", parameters, seed: options.seed, runs, drive: None })
}

fn run(options: &ReplayOptions, placement: bool, monitor: &Monitor) -> Result<Run, Error> {
    let stage = Stage::set_up(options, placement)?;
    let start = Instant::now();
    let (timeline, interrupted) = play(options, &stage, monitor, placement)?;
    let seconds = start.elapsed().as_secs_f64();
    let run = Run::sum_up(placement, &timeline, options.warmup_percent);
    let streams = StreamPlan::of(stage.some_cache().placement());
    #[allow(clippy::cast_precision_loss)]
    Ok(Run {
        placement_active: streams.iter().any(|stream| stream.handle != 0),
        drive_writes_before: timeline.warm(options.warmup_percent).device.host_written_bytes as f64
            / stage.capacity_bytes().max(1) as f64,
        requests_per_second: run.requests as f64 / seconds,
        interrupted,
        units: stage.picture(),
        placement_path: stage.placement_path.clone(),
        notice: stage.notice.clone(),
        streams,
        placement_table: stage.some_cache().placement().to_string(),
        array_memory: stage.some_cache().array_memory(),
        ..run
    })
}

/// Makes all requests. Returns the samples, and whether the run was stopped.
fn play(
    options: &ReplayOptions,
    stage: &Stage,
    monitor: &Monitor,
    placement: bool,
) -> Result<(Timeline, bool), Error> {
    let mut client = Client::new(&stage.cache);
    let mut timeline = Timeline::starting_with(sample(stage, client.counts));
    let limit = options.requests.unwrap_or(u64::MAX);
    for pass in 0..options.repeat {
        let mut source = options.open_workload()?;
        let mut left = limit;
        // A pass begins when the previous one has ended.
        let begin = stage.clock.now();
        while left > 0 {
            let Some(request) = source.next_request()? else { break };
            left -= 1;
            stage.clock.advance_to(begin + Duration::from_secs(u64::from(request.time_s)));
            client.make(&request)?;
            let requests = client.counts.requests;
            if timeline.is_due(requests) {
                timeline.add(sample(stage, client.counts));
            }
            if requests.is_multiple_of(BREATH) {
                check_device(stage)?;
                let share = share(options, source.as_ref(), requests, pass);
                monitor.run(placement).set(requests, share);
                if monitor.is_stopped() {
                    return Ok((timeline.finish(sample(stage, client.counts)), true));
                }
            }
        }
    }
    check_device(stage)?;
    monitor.run(placement).set(client.counts.requests, 1.0);
    Ok((timeline.finish(sample(stage, client.counts)), false))
}

#[allow(clippy::cast_precision_loss)]
fn share(options: &ReplayOptions, source: &dyn RequestSource, requests: u64, pass: u32) -> f64 {
    match options.total_requests() {
        Some(total) => requests as f64 / total as f64,
        None => {
            let of_trace = source.progress().unwrap_or(0.0);
            (f64::from(pass) + of_trace) / f64::from(options.repeat)
        }
    }
}

fn sample(stage: &Stage, client: ClientCounts) -> Sample {
    let (cache, device, shards) = (stage.cache.stats(), stage.device_stats(), stage.shards());
    Sample { client, cache, device, shards }
}

/// A cache continues to serve without its device, but a measurement must fail.
fn check_device(stage: &Stage) -> Result<(), Error> {
    match stage.cache.stats().last_device_error.or_else(|| stage.lost_shard()) {
        Some(error) => Err(Error::run(format!("the device failed: {error}"))),
        None => Ok(()),
    }
}
