//! Latencies on the timed drive over a range of loads: of GETs through the real cache, and of its device reads and
//! writes.

use super::judge::{Checks, published};
use super::rig::{self, SOC_SHARE};
use super::timed_rig::{self, Machine};
use super::{Experiment, Judgement, Metrics, Parameter, Reference, Settings, Summary};
use crate::Error;
use crate::replay::{Monitor, ReplayOptions};

/// Loads that are judged, in percent of the drive's capacity without placement.
const JUDGED: [&str; 3] = ["50", "75", "95"];
/// Largest accepted factor between a ratio and the paper's, in either direction. The drive is not the paper's.
const FACTOR: f64 = 2.0;
/// Largest accepted loss of throughput without placement. The paper finds it unchanged; its slides show up to 8 % less.
const UNCHANGED: f64 = 0.08;

pub(super) static LATENCY: Experiment = Experiment {
    name: "latency",
    title: "latency of GETs through the cache and of its reads and writes on the timed drive, by load",
    reproduces: "FDP paper (EuroSys'25), Figure 6: p99 latency and throughput at 100 % utilisation",
    criterion: "at each of 50, 75 and 95 % of what the drive takes without placement: p99 off / on of \
                reads and writes half to twice the paper's, with each seed, in each half of the measurement \
                and, at 75 %, with each write buffer; throughput with and without placement within 8 %",
    parameters: &[
        Parameter { name: "requests", default: "5000000", help: "requests of a run" },
        timed_rig::FLASH,
        Parameter {
            name: "load",
            default: "50,75,95",
            help: "requests that clients would make if the drive took no time, percent of what it takes \
                   without placement, by commas, 1 to 1000",
        },
        timed_rig::CLIENTS,
        timed_rig::HOST_US,
        timed_rig::WRITERS,
        timed_rig::DIES,
        Parameter {
            name: "buffers",
            default: "1,4",
            help: "write buffers with which the load of 75 % is run too, in stripes a die, by commas, 1 to \
                   64; 2 is the usual one",
        },
    ],
    metrics: &[
        ("read_p50_us.*", "latency of reads in us, with (on) and without placement, by load"),
        ("read_p99_us.*", "99 % of them are at most so long"),
        ("read_p999_us.*", "99.9 % of them"),
        ("write_p50_us.*", "latency of writes in us, with (on) and without placement, by load"),
        ("write_p99_us.*", "99 % of them are at most so long"),
        ("write_p999_us.*", "99.9 % of them"),
        timed_rig::GET_P50,
        timed_rig::GET_P99,
        timed_rig::GET_P999,
        (
            "kilo_requests_per_s.*",
            "thousands of requests made a second, with and without placement",
        ),
        (
            "capacity_kilo_requests_per_s",
            "as many as the drive takes without placement: what clients send that wait for nothing \
             but the drive, mostly for reads",
        ),
        timed_rig::READ_P99_RATIO,
        timed_rig::WRITE_P99_RATIO,
        timed_rig::READ_P99_RATIO_BY,
        timed_rig::WRITE_P99_RATIO_BY,
        timed_rig::THROUGHPUT_RATIO,
        ("hit.*", "hit ratio of GETs over the whole run, with (on) and without placement, by load"),
        timed_rig::MEDIA_LOAD,
        SOC_SHARE,
        rig::DRIVE_WRITES,
        rig::LOC_WRAPS,
        rig::DRIFT,
    ],
    references: &[
        Reference::published("read_p99_ratio.75", 1.75, "Figure 6"),
        Reference::published("write_p99_ratio.75", 10.0, "Figure 6"),
        Reference::published("throughput_ratio.75", 1.0, "Figure 6: unchanged"),
    ],
    needs: &[
        "read_p99_ratio.50",
        "read_p99_ratio.75",
        "read_p99_ratio.95",
        "write_p99_ratio.50",
        "write_p99_ratio.75",
        "write_p99_ratio.95",
        "throughput_ratio.50",
        "throughput_ratio.75",
        "throughput_ratio.95",
    ],
    measure,
    judge,
};

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let options = rig::table_2(settings, seed, rig::TABLE_2_DRAM_GB)?;
    let options = ReplayOptions { unit_bytes: Some(timed_rig::UNIT_BYTES), ..options };
    let machine = Machine::of(settings)?;
    let buffers = settings.list::<u64>("buffers")?;
    if let Some(wrong) = buffers.iter().find(|stripes| !(1..=64).contains(*stripes)) {
        return Err(settings.refuse("buffers", &wrong.to_string(), "must be 1 to 64"));
    }
    let capacity = machine.capacity(&options, settings, monitor)?;
    let mut metrics =
        Metrics::from([("capacity_kilo_requests_per_s".to_owned(), capacity / 1000.0)]);
    for percent in settings.list::<f64>("load")? {
        if !(1.0..=1000.0).contains(&percent) {
            return Err(settings.refuse("load", &percent.to_string(), "must be 1 to 1000"));
        }
        let load = timed_rig::load(settings, capacity * percent / 100.0)?;
        machine.note_both(&mut metrics, &percent.to_string(), &options, load, monitor)?;
    }
    let load = timed_rig::load(settings, capacity * 0.75)?;
    for stripes in buffers {
        machine.note_with_buffer(&mut metrics, "75", stripes, &options, load, monitor)?;
    }
    Ok(metrics)
}

fn judge(summary: &Summary) -> Judgement {
    let paper = LATENCY.references;
    let mut checks = Checks::default();
    for load in JUDGED {
        let at = |metric: &str| summary.mean(&format!("{metric}.{load}"));
        for kind in ["read", "write"] {
            let ratio = at(&format!("{kind}_p99_ratio"));
            let wanted = published(paper, &format!("{kind}_p99_ratio.75"));
            let what = format!("p99 of {kind}s at {load} %");
            let metric = format!("{kind}_p99_ratio");
            let published = (wanted, FACTOR);
            checks = timed_rig::check_range(checks, summary, (&metric, load), &what, published)
                .shape(ratio > 1.0, format!("{what} is better with placement"));
        }
        let throughput = at("throughput_ratio");
        checks = checks.exact(
            (1.0 - UNCHANGED..=1.0 + UNCHANGED).contains(&throughput),
            format!("throughput at {load} %: {throughput:.3} times that without placement"),
        );
    }
    let media = summary.mean("media_load.off.95") * 100.0;
    checks
        .note(format!(
            "at 95 % of what the drive takes without placement its dies program {media:.0} % of the time; \
             reads, and the programs that they suspend, take the rest. What leaves DRAM the cache writes in \
             bursts, as many buckets at a time as there are writers: a write finds room in the write buffer, \
             or waits until some of the programs of host and collection are done. The paper does not say how \
             near its load came to what its drive takes, nor how large the drive's buffer is"
        ))
        .judge()
}
