//! The processor time of the cache's logic, and its metadata on a device: a file is written twice, to real files and to
//! memory, timed by this machine's clock.
//!
//! | module | what it is |
//! |---|---|
//! | `point` | a layout, a line size, and the number of requests in flight |
//! | `place` | cache device and core, as files or in memory |
//! | `passes` | writes the file twice |
//! | `logic` | the same for the layout alone |
//! | `processor` | processor clocks |
//! | `judged` | the criterion |

mod judged;
mod logic;
mod passes;
mod place;
mod point;
mod processor;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use larder_workload::Spread;

use super::counted::{COUNTED_22, COUNTED_26};
use crate::Error;
use crate::experiment::{Experiment, Metrics, Parameter, Reference, Settings};
use crate::replay::Monitor;
use passes::{Pass, write_twice};
use place::{CORE_DIR, DIR, MIB, Place};
use point::Point;

const ROUNDS: Parameter = Parameter {
    name: "rounds",
    default: "3",
    help: "rounds in which all take turns, 1 to 99; of the times the median counts",
};

const PASSES: [&str; 2] = ["first", "second"];
const STUDY: &str = "HotStorage'23, table 1: processor and cache logic, of the time of an access";

/// In memory a pass takes little time, so its file is longer than the one on disk: by this factor, up to the maximum
/// below.
const IN_MEMORY: u64 = 16;
const IN_MEMORY_BYTES_MAX: u64 = 64 << 20;

/// Held during a run: seeds run one after the other, so that each has the machine for itself.
static ALONE: Mutex<()> = Mutex::new(());

pub(in crate::experiment) static BLOCK_CPU: Experiment = Experiment {
    name: "block-cpu",
    title: "processor time and bytes of the first and the second write of a file, on real files and in memory",
    reproduces: "HotStorage'23 study of Open CAS, table 1: what of an access is logic of the cache, what metadata",
    criterion: "one request at a time, Open CAS 22 and 26 write 2, 1.25 and 1.0625 times to the cache by lines of 4, \
                16 and 64 KiB at first, within 2 %, and once again; the log at most as much as a block beside each \
                line, and 1.2 % more; with 32 under way all write no more; nothing reaches the core. On files the \
                log's logic is at most a fifth of the processor's time, the first access in lines of 4 KiB is slower \
                than the second with Open CAS 22, and the log loses less by it",
    parameters: &[DIR, CORE_DIR, MIB, ROUNDS],
    metrics: &[
        (
            "mb_s.*",
            "10^6 bytes a second: files or memory, first or second pass, layout, KiB of a line and of a write, \
             requests under way",
        ),
        ("cpu_us.*", "us of processor time of a request, of all threads, by the same"),
        (
            "logic_us.*",
            "us of it in the layout alone, which neither reads nor writes: pass, layout, KiB, requests under way",
        ),
        ("logic_of_cpu.*", "logic_us by cpu_us (1 = all), by the same as mb_s"),
        (
            "logic_of_time.*",
            "logic_us by the time of a request (1 = all), one at a time: files or memory, pass, layout, KiB",
        ),
        (
            "loss.*",
            "part of the second access's bandwidth that the first lacks: files or memory, layout, KiB, requests \
             under way",
        ),
        (
            "cw.*",
            "bytes that the cache device was given by bytes that users wrote, by the same as mb_s",
        ),
        ("kw.*", "bytes that the core was given, by the same"),
        ("metadata.*", "part of the cache device's bytes that is not users' data, by the same"),
        ("block_bytes.*", "block of the cache device: files, memory"),
        ("direct", "1 if the files bypass the page cache, else 0"),
    ],
    references: &[
        Reference::ours("cw.files.first.ocf22.4.1", 2.0, COUNTED_22),
        Reference::ours("cw.files.first.ocf22.16.1", 1.25, COUNTED_22),
        Reference::ours("cw.files.first.ocf22.64.1", 1.0625, COUNTED_22),
        Reference::ours("cw.files.first.ocf26.4.1", 2.0, COUNTED_26),
        Reference::ours("cw.files.first.ocf26.16.1", 1.25, COUNTED_26),
        Reference::ours("cw.files.first.ocf26.64.1", 1.0625, COUNTED_26),
        Reference::published("logic_of_time.files.first.ocf22.4", 0.45, STUDY),
        Reference::published("logic_of_time.files.second.ocf22.4", 0.38, STUDY),
    ],
    needs: &[
        "cw.files.first.ocf22.4.1",
        "cw.memory.first.ocf26.64.1",
        "cw.files.second.log.4.1",
        "logic_of_cpu.files.first.log.4.32",
        "loss.files.ocf22.4.1",
        "loss.files.log.4.1",
    ],
    measure,
    judge: judged::judge,
};

fn measure(settings: &Settings, _seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let file_bytes = settings.within::<u64>(MIB.name, 1..=1024)? << 20;
    let memory_bytes = (file_bytes * IN_MEMORY).min(IN_MEMORY_BYTES_MAX);
    let rounds: u32 = settings.within(ROUNDS.name, 1..=99)?;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let points = Point::all();
    let longest = |bytes| points.iter().map(|point| point.file_bytes(bytes)).max().unwrap_or(bytes);
    let mut places = [
        (Place::files(settings, longest(file_bytes))?, file_bytes),
        (Place::memory(longest(memory_bytes))?, memory_bytes),
    ];
    let mut seen = RoundValues::default();
    for _ in 0..rounds {
        for point in &points {
            let block_bytes = places[0].0.cache.info().block_bytes;
            let logic = logic::of_request_us(point, point.file_bytes(memory_bytes), block_bytes)?;
            seen.note_logic(point, logic);
            for (place, bytes) in &mut places {
                let passes = write_twice(place, point, point.file_bytes(*bytes), monitor)?;
                seen.note_passes(place.name, point, &passes, logic);
            }
            monitor.add_to_seeds(1.0 / f64::from(rounds) / points.len() as f64);
        }
    }
    let mut metrics = seen.medians();
    for (place, _) in &places {
        let block_bytes = f64::from(place.cache.info().block_bytes);
        metrics.insert(format!("block_bytes.{}", place.name), block_bytes);
    }
    metrics.insert("direct".to_owned(), f64::from(u8::from(places[0].0.is_direct)));
    Ok(metrics)
}

/// The values of all rounds so far, by metric.
#[derive(Default)]
struct RoundValues(BTreeMap<String, Vec<f64>>);

impl RoundValues {
    fn note(&mut self, metric: String, value: f64) {
        self.0.entry(metric).or_default().push(value);
    }

    fn note_logic(&mut self, point: &Point, us: [f64; 2]) {
        for (pass, us) in PASSES.iter().zip(us) {
            self.note(format!("logic_us.{pass}.{}", point.key()), us);
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn note_passes(&mut self, place: &str, point: &Point, passes: &[Pass; 2], logic: [f64; 2]) {
        let key = point.key();
        for ((name, pass), logic_us) in PASSES.iter().zip(passes).zip(logic) {
            let (bytes, requests) = (pass.bytes as f64, pass.requests as f64);
            let cpu_us = pass.processor.as_secs_f64() * 1e6 / requests;
            let users = bytes - pass.core_bytes as f64;
            let values = [
                ("mb_s", bytes / pass.time.as_secs_f64() / 1e6),
                ("cpu_us", cpu_us),
                ("logic_of_cpu", logic_us / cpu_us),
                ("cw", pass.cache_bytes as f64 / bytes),
                ("kw", pass.core_bytes as f64 / bytes),
                ("metadata", 1.0 - users / pass.cache_bytes as f64),
            ];
            for (metric, value) in values {
                self.note(format!("{metric}.{place}.{name}.{key}"), value);
            }
            if point.depth == 1 {
                let us = pass.time.as_secs_f64() * 1e6 / requests;
                let kib = point.line_bytes >> 10;
                let point = format!("{place}.{name}.{}.{kib}", point.layout);
                self.note(format!("logic_of_time.{point}"), logic_us / us);
            }
        }
        let [first, second] = passes;
        let loss = 1.0 - second.time.as_secs_f64() / first.time.as_secs_f64();
        self.note(format!("loss.{place}.{key}"), loss);
    }

    fn medians(self) -> Metrics {
        let median = |values| Spread::of(values).map_or(f64::NAN, |spread| spread.median);
        self.0.into_iter().map(|(metric, values)| (metric, median(values))).collect()
    }
}
