//! One measurement of one target, and storing its keys first.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::Error;
use crate::server_cpu::ServerProcess;
use crate::target::Target;
use crate::tls::{ServerTls, Tls};
use crate::value::Values;
use crate::worker::{Arrivals, Tally, Task, Worker};
use crate::workload::{Asks, Workload};

/// Requests in flight on a connection while keys are stored.
const FILL_PIPELINE: usize = 16;

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// As fast as they are answered: each connection sends `pipeline` requests, and the next ones when all of them are
    /// answered.
    Closed,
    /// This number of requests a second over all connections, at random times (a Poisson process), whatever the server
    /// does. A request's time counts from when its turn had come, even if no connection had room for it.
    Open(f64),
}

/// The load on a server.
#[derive(Debug, Clone)]
pub struct Load {
    /// The requests.
    pub workload: Workload,
    /// When they are sent.
    pub pace: Pace,
    /// Over all threads, 1 to 100,000.
    pub connections: usize,
    /// Most requests in flight on a connection, at least 1.
    pub pipeline: usize,
    /// Threads that send requests, at least 1.
    pub threads: usize,
    /// CPU cores to pin these threads to, one after another; empty: no pinning.
    pub cores: Vec<usize>,
    /// For targets with TLS; `None` accepts any certificate.
    pub tls: Option<Tls>,
    /// Keys that are stored a second before the measurement; `None`: as fast as they are answered.
    pub fill_rate: Option<f64>,
    /// Load before the measurement.
    pub warm_up: Duration,
    /// Duration of the measurement.
    pub duration: Duration,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            workload: Workload::default(),
            pace: Pace::Closed,
            connections: 50,
            pipeline: 1,
            threads: 1,
            cores: Vec::new(),
            tls: None,
            fill_rate: None,
            warm_up: Duration::from_millis(500),
            duration: Duration::from_secs(5),
        }
    }
}

/// The result of a measurement.
#[derive(Debug, Clone, Serialize)]
pub struct Measurement {
    /// Answered requests a second.
    pub requests_per_second: f64,
    /// Requests that were answered in the measured time.
    pub requests: u64,
    /// Keys that were requested.
    pub keys: u64,
    /// Keys that were found.
    pub hits: u64,
    /// Values that were stored.
    pub sets: u64,
    /// Requests that the server refused.
    pub refused: u64,
    /// Values that did not belong to their key.
    pub wrong: u64,
    /// Requests without an answer at the end (open pace); they count with the time that they had waited.
    pub unanswered: u64,
    /// Median latency in microseconds.
    pub p50_us: Option<f64>,
    /// 99th percentile of the latency in microseconds.
    pub p99_us: Option<f64>,
    /// 99.9th percentile of the latency in microseconds.
    pub p999_us: Option<f64>,
    /// Longest latency in microseconds.
    pub max_us: Option<f64>,
    /// CPU time of the server for each request, in microseconds. `None` if the server runs on another machine, or its
    /// process may not be inspected.
    pub server_cpu_us: Option<f64>,
    /// CPU time of this program's threads for each request, in microseconds.
    pub client_cpu_us: Option<f64>,
}

/// Shared with a running measurement, to show its progress and to stop it.
#[derive(Debug, Default)]
pub struct Progress {
    /// Answers so far.
    pub answers: AtomicU64,
    /// Set it to stop the measurement.
    pub stop: AtomicBool,
}

/// Stores each key of a drawn workload once.
///
/// # Errors
/// If the server cannot be reached, closes a connection, or violates its protocol.
pub fn fill(target: &Target, load: &Load, progress: &Progress) -> Result<(), Error> {
    if load.workload.drawn_keys().is_none() {
        return Ok(());
    }
    let pace = load.fill_rate.map_or(Pace::Closed, Pace::Open);
    let whole = Load { pipeline: FILL_PIPELINE, pace, ..load.clone() };
    let asks = |thread, threads| Ok(Asks::each(&load.workload, thread, threads));
    let ends = (0, u64::MAX);
    let tally = ask(target, &whole, progress, ends, &asks, || ())?.0;
    match tally.refused {
        0 => Ok(()),
        some => Err(Error::run(format!(
            "{}: refused {some} of the keys that it was to store; is it full, or are values too long for it?",
            target.name
        ))),
    }
}

/// Measures a target.
///
/// # Errors
/// If the server cannot be reached, closes a connection, or violates its protocol.
pub fn measure(target: &Target, load: &Load, progress: &Progress) -> Result<Measurement, Error> {
    let (warm_up, duration) = (load.warm_up, load.duration);
    let ends = (in_ns(warm_up), in_ns(warm_up + duration));
    let asks = |thread, threads| load.workload.asks(thread, threads);
    let server = ServerProcess::of(&target.address);
    let cpu = || server.and_then(ServerProcess::cpu);
    let watch = || {
        let own = || larder_workload::machine::cpu_seconds().ok();
        sleep(warm_up, progress);
        let (before, own_before) = (cpu(), own());
        sleep(duration, progress);
        let used = cpu().zip(before).map(|(after, before)| after.saturating_sub(before));
        (used, own().zip(own_before).map(|(after, before)| after - before))
    };
    let (tally, (server_used, own_used)) = ask(target, load, progress, ends, &asks, watch)?;
    let requests = tally.requests as f64;
    let each_us = |seconds: f64| (tally.requests > 0).then(|| seconds * 1e6 / requests);
    Ok(Measurement {
        requests_per_second: requests / duration.as_secs_f64(),
        requests: tally.requests,
        keys: tally.keys,
        hits: tally.hits,
        sets: tally.sets,
        refused: tally.refused,
        wrong: tally.wrong,
        unanswered: tally.unanswered,
        p50_us: tally.latencies.quantile_us(0.5),
        p99_us: tally.latencies.quantile_us(0.99),
        p999_us: tally.latencies.quantile_us(0.999),
        max_us: tally.latencies.max_us(),
        server_cpu_us: server_used.and_then(|used| each_us(used.as_secs_f64())),
        client_cpu_us: own_used.and_then(each_us),
    })
}

fn in_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Sleeps for `duration`, or until the measurement is stopped.
fn sleep(duration: Duration, progress: &Progress) {
    let begin = Instant::now();
    while !progress.stop.load(Ordering::Relaxed) {
        let left = duration.saturating_sub(begin.elapsed());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}

/// Runs all threads, and `watch` at the same time.
fn ask<W>(
    target: &Target,
    load: &Load,
    progress: &Progress,
    counts_ns: (u64, u64),
    asks: &(dyn Fn(u64, u64) -> Result<Asks, Error> + Sync),
    watch: impl FnOnce() -> W,
) -> Result<(Tally, W), Error> {
    let values = Values::new(load.workload.seed);
    let threads = load.threads.clamp(1, load.connections.max(1));
    let sum = Mutex::new(Ok(Tally::default()));
    // All threads connect first, and begin at the same time.
    let connected = std::sync::Barrier::new(threads + 1);
    let begin = std::sync::OnceLock::new();
    let watched = std::thread::scope(|scope| {
        for thread in 0..threads {
            let (values, sum, connected, begin) = (&values, &sum, &connected, &begin);
            scope.spawn(move || {
                keep_to_core(&load.cores, thread);
                let number = (thread as u64, threads as u64);
                let begin = || {
                    connected.wait();
                    *begin.get_or_init(Instant::now)
                };
                let ended =
                    ask_as(target, load, progress, counts_ns, (number, values), asks, begin);
                let mut sum = sum.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                match (ended, &mut *sum) {
                    (Ok(tally), Ok(sum)) => sum.merge(&tally),
                    (Err(error), Ok(_)) => {
                        // The other threads need not go on.
                        progress.stop.store(true, Ordering::Relaxed);
                        *sum = Err(error);
                    }
                    (_, Err(_)) => {}
                }
            });
        }
        connected.wait();
        watch()
    });
    let sum = sum.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok((sum?, watched))
}

/// The work of one thread.
fn ask_as(
    target: &Target,
    load: &Load,
    progress: &Progress,
    counts_ns: (u64, u64),
    ((thread, threads), values): ((u64, u64), &Values),
    asks: &(dyn Fn(u64, u64) -> Result<Asks, Error> + Sync),
    begin: impl FnOnce() -> Instant,
) -> Result<Tally, Error> {
    let arrivals = match load.pace {
        Pace::Closed => Arrivals::Closed,
        Pace::Open(a_second) => Arrivals::Open(a_second / threads as f64),
    };
    let (all, number) = (load.connections as u64, thread);
    let connections = (all * (number + 1) / threads) - (all * number / threads);
    let made = asks(thread, threads).and_then(|asks| {
        let task = Task {
            target,
            tls: tls_to(target, load)?,
            values,
            asks,
            arrivals,
            connections: usize::try_from(connections).unwrap_or(1),
            pipeline: load.pipeline.max(1),
            look_aside: load.workload.look_aside,
            backend_ns: in_ns(load.workload.backend),
            begin: Instant::now(),
            counts_ns,
            version: 1,
            done: &progress.answers,
            stop: &progress.stop,
        };
        Worker::new(task, load.workload.seed ^ thread)
    });
    // A thread that could not connect waits at the barrier too: the others wait for it.
    let begin = begin();
    made?.starting(begin).run()
}

fn tls_to(target: &Target, load: &Load) -> Result<Option<ServerTls>, Error> {
    let Some(name) = &target.tls_name else { return Ok(None) };
    match &load.tls {
        Some(tls) => tls.to(name).map(Some),
        None => Tls::new(None, None)?.to(name).map(Some),
    }
}

/// Pins the calling thread to one of these cores. A core that does not exist is ignored.
fn keep_to_core(cores: &[usize], thread: usize) {
    if cores.is_empty() {
        return;
    }
    let mut set = rustix::thread::CpuSet::new();
    set.set(cores[thread % cores.len()]);
    let _ = rustix::thread::sched_setaffinity(None, &set);
}
