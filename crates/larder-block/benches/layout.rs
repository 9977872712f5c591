//! Processor time of the log for a request of 4 KiB, and of a write-back cache on it with locks, policies and counts.
//! Without devices: every I/O ends at once, and no bytes are moved. Includes the checksums of appended data. Medians
//! and spread of five rounds, of processor time (Linux).
//!
//! `cargo bench -p larder-block --bench layout`; `-- quick` only checks that it works. To count instructions per
//! request on machines without hardware counters:
//! `valgrind --tool=callgrind --toggle-collect='layout::measured*' BENCH -- only N` with the number of a line of the
//! table. That runs one round.

use std::hint::black_box;
use std::time::Duration;

use larder_block::accounting::{BLIND_BYTE, Blind};
use larder_block::cache::{self, Cache, CacheOptions, CacheShape, Mode, RequestCompletion};
use larder_block::layout::log::{Geometry, LogIdentity, LogLayout, LogOptions};
use larder_block::layout::{CoreId, Data, DeviceIo, IoId, LayoutRequest, Outcome, RequestId, Span};
use larder_block::policy::CutOffPolicy;
use larder_device::DeviceInfo;
use larder_workload::{Spread, machine};

type Failed = Box<dyn std::error::Error>;

const LINE: usize = 4096;
/// Cached lines: 1 GiB.
const LINES: u64 = 1 << 18;
const CACHE_BYTES: u64 = 5 << 28;
const ROUNDS: usize = 5;

#[derive(Clone, Copy)]
enum Load {
    Hit,
    FirstTouch,
    Rewrite,
}

fn main() -> Result<(), Failed> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let only = words.iter().position(|word| word == "only").and_then(|at| words.get(at + 1));
    let only: Option<usize> = only.map(|number| number.parse()).transpose()?;
    let is_quick = only.is_some() || words.iter().any(|word| word == "quick");
    let rounds = if is_quick { 1 } else { ROUNDS };
    for line in machine::describe(&std::env::current_dir()?) {
        println!("{line}");
    }
    println!(
        "{LINES} lines of {LINE} bytes in a cache of {} MiB, segments of 16 MiB, {rounds} rounds; ns of processor time \
         a request",
        CACHE_BYTES >> 20
    );
    let loads =
        [("read hit", Load::Hit), ("first touch", Load::FirstTouch), ("rewrite", Load::Rewrite)];
    let mut number = 0;
    for (subject, blank) in [("log", Subject::log as Blank), ("cache", Subject::cache as Blank)] {
        for (name, load) in loads {
            for order in ["in order", "at random"] {
                for depth in [1, 32] {
                    if only.is_none_or(|only| only == number) {
                        let times = times(blank, load, order == "at random", depth, rounds)?;
                        let spread = Spread::of(times).ok_or("no round")?;
                        println!(
                            "{number:2} {subject:5} {name:12} {order:10} depth {depth:2}  {spread:>24.0}"
                        );
                    }
                    number += 1;
                }
            }
        }
    }
    Ok(())
}

/// Nanoseconds of processor time per request, for each round.
fn times(
    blank: Blank,
    load: Load,
    is_random: bool,
    depth: usize,
    rounds: usize,
) -> Result<Vec<f64>, Failed> {
    let mut order: Vec<u64> = (0..LINES).collect();
    if is_random {
        fastrand::Rng::with_seed(1).shuffle(&mut order);
    }
    let mut subject = blank()?;
    if !matches!(load, Load::FirstTouch) {
        // Twice: only data that a later header states as complete is overwritten in place.
        for _ in 0..2 {
            carry_out(&mut subject, Load::FirstTouch, &order, 32);
        }
    }
    let mut times = Vec::new();
    for _ in 0..rounds {
        if matches!(load, Load::FirstTouch) {
            subject = blank()?;
        }
        // Other processes may use the processor too.
        let on_cpu = || machine::thread_cpu("/proc/thread-self");
        let before = on_cpu()?;
        measured(&mut subject, load, &order, depth);
        #[allow(clippy::cast_precision_loss)]
        times.push((on_cpu()? - before).as_secs_f64() * 1e9 / LINES as f64);
    }
    Ok(times)
}

/// The subject of a measurement.
enum Subject {
    Log(Box<Blind<LogLayout>>),
    Cache(Box<BlindCache>),
}

/// Makes an empty subject.
type Blank = fn() -> Result<Subject, Failed>;

impl Subject {
    fn log() -> Result<Self, Failed> {
        Ok(Self::Log(Box::new(Blind::new(empty_log()?.0))))
    }

    /// All policies have their defaults, except that streams are cached too.
    fn cache() -> Result<Self, Failed> {
        let (layout, shape) = empty_log()?;
        let options = CacheOptions {
            mode: Mode::WriteBack,
            cut_off: CutOffPolicy::Never,
            ..CacheOptions::default()
        };
        Ok(Self::Cache(Box::new(BlindCache {
            cache: Cache::new(Box::new(layout), shape, options)?,
            ios: Vec::new(),
            ended: Vec::new(),
            now: Duration::ZERO,
        })))
    }
}

fn empty_log() -> Result<(LogLayout, CacheShape), Failed> {
    let info = DeviceInfo::new("cache", CACHE_BYTES, 512, 1 << 20);
    let info = DeviceInfo { atomic_write_bytes: Some(4096), ..info };
    let options = LogOptions { write_buffer_bytes: 0, ..LogOptions::default() };
    let geometry = Geometry::new(&info, 0, &options)?;
    let identity = LogIdentity { uuid: *b"a cache's UUID..", epoch: 1 };
    let shape = CacheShape { capacity_bytes: CACHE_BYTES, line_bytes: 4096 };
    Ok((LogLayout::new(geometry, identity, &info, &options), shape))
}

/// A cache whose I/Os end at once. A request takes a microsecond of its clock.
struct BlindCache {
    cache: Cache,
    ios: Vec<(IoId, DeviceIo)>,
    ended: Vec<RequestCompletion>,
    now: Duration,
}

impl BlindCache {
    fn run(&mut self, requests: impl Iterator<Item = cache::Request>, data: &Data) {
        let mut count = 0;
        for (id, request) in (0..).map(RequestId).zip(requests) {
            self.now += Duration::from_micros(1);
            self.cache.at(self.now);
            self.cache.submit(id, request);
            count += 1;
        }
        while self.ended.len() < count {
            self.cache.turn(&mut self.ios);
            assert!(!self.ios.is_empty() || self.ended.len() == count, "requests that do not end");
            for (id, io) in self.ios.drain(..) {
                let outcome = match black_box(io) {
                    DeviceIo::Read { reader: None, .. } => Outcome::Read(data.clone()),
                    _ => Outcome::Done,
                };
                self.cache.completed(id, outcome);
            }
            self.cache.ended(&mut self.ended);
        }
        self.ended.clear();
    }
}

/// Has a name of its own, for tools that count instructions.
#[inline(never)]
fn measured(subject: &mut Subject, load: Load, order: &[u64], depth: usize) {
    carry_out(subject, load, order, depth);
}

/// Requests for the lines of `order`, `depth` at a time.
#[inline(always)]
fn carry_out(subject: &mut Subject, load: Load, order: &[u64], depth: usize) {
    let data = Data::copy_of(&[BLIND_BYTE; LINE]);
    let core = CoreId::new(0).expect("there is a first core");
    for lines in order.chunks(depth) {
        let spans = lines.iter().map(|line| Span { core, first: line * 8, sectors: 8 });
        match subject {
            Subject::Log(blind) => {
                let requests = spans.map(|span| match load {
                    Load::Hit => LayoutRequest::Read { span },
                    Load::FirstTouch | Load::Rewrite => {
                        LayoutRequest::Write { span, data: data.clone() }
                    }
                });
                blind.run(requests, |io| {
                    black_box(io);
                });
            }
            Subject::Cache(blind) => {
                let requests = spans.map(|span| match load {
                    Load::Hit => cache::Request::Read { span },
                    Load::FirstTouch | Load::Rewrite => {
                        cache::Request::Write { span, data: data.clone(), durable: false }
                    }
                });
                blind.run(requests, &data);
            }
        }
    }
}
