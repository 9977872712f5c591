//! Two channels are exchanged by the rules of levelling in service, again and again, under loads that read and write.

use larder_ssd::nand::ChannelIndex;
use larder_ssd::timed::{DieService, Nanoseconds};
use larder_vssd::channel_pairs;
use larder_vssd::levelling::PaceLimits;

use super::drive::{CHANNELS, Drive, Kind, PLANES};
use super::failed;
use super::mixed::Mixed;
use super::run::Beside;
use super::tenant::{Pattern, TenantResult};
use super::window::Window;
use crate::Error;
use crate::experiment::judge::Checks;
use crate::experiment::{Experiment, Judgement, Metrics, Parameter, Settings, Summary};
use crate::replay::Monitor;

const LOADS: Parameter = Parameter {
    name: "loads",
    default: "1000+0,1000+100,2000+300,1000+full",
    help: "loads, separated by commas: reads and writes of 64 KiB a second, which do not wait for one another; `full`: \
           16 writes at a time, each followed by another. A channel of one plane writes 1400 a second",
};
const PARTNER: Parameter = Parameter {
    name: "partner",
    default: "load",
    help: "what the tenant does whose channel is the other one: `load`, or `reads` (the reads of the load alone)",
};
const SECONDS: Parameter = Parameter {
    name: "seconds",
    default: "120",
    help: "seconds of the drive's time that are measured before exchanges, and at least during exchanges, one after \
           the other; 10 to 10000",
};

pub(in crate::experiment) static EXCHANGE: Experiment = Experiment {
    name: "exchange",
    title: "two channels are exchanged as levelling does it in service: what tenants that read and write notice",
    reproduces: "FlashBlox (FAST'17), section 3.4: migrations for wear levelling beside the tenants; the bounds are \
                 our own",
    criterion: "writes at 0 to 21 % of the channel's bandwidth: p99 of reads and of writes of the tenant that moves at \
                most 1.5 times that before, and each exchange ends; reads of those that do not move 0.95 to 1.05 \
                times, their writes 0.9 to 1.1 times",
    parameters: &[CHANNELS, PLANES, LOADS, PARTNER, SECONDS],
    metrics: &[
        (
            "read_us.*",
            "p99 of reads by load, tenant and phase (before, during): moved (the load), partner (on the other \
             channel), others (the load, not exchanged), alone (its reads alone, not exchanged)",
        ),
        ("write_us.*", "p99 of writes"),
        ("read_ratio.*", "p99 of reads by load and tenant: during the exchanges by before them"),
        ("write_ratio.*", "the same of writes"),
        ("mb_s.*", "MB/s by load, tenant and phase"),
        (
            "seconds.*",
            "an exchange took, on average, by load; that of one that did not end is longer",
        ),
        ("ended.*", "share of the exchanges that ended within the seconds that are measured"),
        ("copied_mb_s.*", "MB/s that exchanges have copied into each channel, on average"),
    ],
    references: &[],
    needs: &[
        "read_ratio.1000+0.moved",
        "read_ratio.1000+0.others",
        "read_ratio.1000+100.moved",
        "write_ratio.1000+100.moved",
        "read_ratio.1000+100.others",
        "write_ratio.1000+100.others",
        "read_ratio.2000+300.moved",
        "write_ratio.2000+300.moved",
        "read_ratio.2000+300.others",
        "write_ratio.2000+300.others",
        "read_ratio.1000+full.others",
        "write_ratio.1000+full.others",
        "ended.1000+100",
        "ended.2000+300",
    ],
    measure,
    judge,
};

/// Blocks of 4 MiB of a die: a channel has 144 MiB.
const BLOCKS_PER_DIE: u32 = 9;
const SECOND: Nanoseconds = 1_000_000_000;
/// The first seconds are not measured, and neither are these between two exchanges.
const SETTLING: Nanoseconds = 5 * SECOND;

const NAMES: [&str; 4] = ["moved", "partner", "others", "alone"];

/// Exchanges under a load.
struct Exchanged {
    before: Vec<TenantResult>,
    during: Vec<TenantResult>,
    /// Time in exchanges.
    during_ns: Nanoseconds,
    begun: u64,
    ended: u64,
    bytes: u64,
}

fn exchanged(
    drive: &Drive,
    [load, partner]: [Mixed; 2],
    (seed, measured_ns): (u64, Nanoseconds),
    monitor: &Monitor,
) -> Result<Exchanged, Error> {
    let tenants = [load, partner, load, load.reads_alone()];
    let tenants = tenants.map(|load| (1, 1, Pattern::Mixed(load)));
    let mut beside = Beside::new(drive, Kind::Channel, &tenants, seed)?;
    let mut now = SETTLING + measured_ns;
    let before = beside.until(SETTLING, now, monitor)?;
    let channel_of = |tenant: usize, beside: &Beside| {
        let info = beside.timed.array().info(beside.tenants[tenant].vssd()).map_err(failed)?;
        let die = info.dies.first().map(|&(_, die)| drive.timing.array().channel_of(die));
        Ok::<ChannelIndex, Error>(die.unwrap_or(ChannelIndex(0)))
    };
    let (a, b) = (channel_of(0, &beside)?, channel_of(1, &beside)?);
    let pairs = channel_pairs(drive.timing.array(), a, b, None).map_err(failed)?;
    let mut during = vec![TenantResult::default(); NAMES.len()];
    let (mut during_ns, mut begun) = (0, 0);
    while during_ns < measured_ns && !monitor.is_stopped() {
        let began = now;
        let limits = PaceLimits::default();
        beside.timed.swap_begin_gently(now, 0, &pairs, limits).map_err(failed)?;
        begun += 1;
        while beside.timed.is_swapping() && during_ns < measured_ns && !monitor.is_stopped() {
            now += SECOND / 10;
            during_ns += SECOND / 10;
            let seen = beside.until(began, now, monitor)?;
            during.iter_mut().zip(seen).for_each(|(all, seen)| all.add(seen));
        }
        now += SETTLING;
        if during_ns < measured_ns {
            beside.until(now, now, monitor)?;
        }
    }
    beside.timed.array().audit().map_err(Error::run)?;
    let progress = beside.timed.swap_progress();
    let (ended, bytes) = (progress.swaps, progress.bytes);
    Ok(Exchanged { before, during, during_ns, begun, ended, bytes })
}

#[allow(clippy::cast_precision_loss)]
fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let mut metrics = Metrics::new();
    let drive = Drive::new(settings, DieService::InOrder, BLOCKS_PER_DIE)?;
    let seconds: u64 = settings.within(SECONDS.name, 10..=10_000)?;
    let alike = match settings.text(PARTNER.name) {
        "load" => true,
        "reads" => false,
        other => return Err(settings.refuse(PARTNER.name, other, "must be load or reads")),
    };
    let names = settings.text(LOADS.name).split(',').map(str::trim);
    for (load, name) in settings.list::<Mixed>(LOADS.name)?.into_iter().zip(names) {
        let loads = [load, if alike { load } else { load.reads_alone() }];
        let mut run = exchanged(&drive, loads, (seed, seconds * SECOND), monitor)?;
        for (tenant, (before, during)) in
            NAMES.into_iter().zip(run.before.iter_mut().zip(&mut run.during))
        {
            let mut put = |metric: &str, quantile: fn(&mut TenantResult, f64) -> f64| {
                let p99 = [quantile(before, 0.99), quantile(during, 0.99)];
                if p99.iter().any(|p99| p99.is_nan()) {
                    return;
                }
                for (phase, p99) in ["before", "during"].into_iter().zip(p99) {
                    metrics.insert(format!("{metric}_us.{name}.{tenant}.{phase}"), p99);
                }
                metrics.insert(format!("{metric}_ratio.{name}.{tenant}"), p99[1] / p99[0]);
            };
            put("read", TenantResult::quantile_us);
            put("write", TenantResult::wrote_quantile_us);
            let mb_s = |seen: &TenantResult, ns| seen.mb_s(Window { from: 0, until: ns });
            let phases = [
                ("before", mb_s(before, seconds * SECOND)),
                ("during", mb_s(during, run.during_ns)),
            ];
            metrics.extend(
                phases.map(|(phase, mb_s)| (format!("mb_s.{name}.{tenant}.{phase}"), mb_s)),
            );
        }
        let took = run.during_ns as f64 / 1e9;
        // The last one is cut off by the end of the measurement.
        let whole = (run.begun - 1).max(1) as f64;
        let ended = run.ended.min(run.begun - 1).max(u64::from(run.begun == 1 && run.ended == 1));
        metrics.insert(format!("seconds.{name}"), took / run.ended.max(1) as f64);
        metrics.insert(format!("ended.{name}"), ended as f64 / whole);
        metrics.insert(format!("copied_mb_s.{name}"), run.bytes as f64 / 2e6 / took);
    }
    Ok(metrics)
}

fn judge(summary: &Summary) -> Judgement {
    let mut checks = Checks::default();
    let moved = [("1000+0", "read"), ("1000+100", "read"), ("1000+100", "write")];
    let moved = moved.into_iter().chain([("2000+300", "read"), ("2000+300", "write")]);
    for (load, kind) in moved.clone() {
        let ratio = summary.get(&format!("{kind}_ratio.{load}.moved"));
        checks = checks
            .exact(
                ratio.min >= 0.5 && ratio.max <= 1.5,
                format!("{load}, {kind}s that move: p99 {:.2} times that before", ratio.mean),
            )
            .shape(ratio.mean <= 2.0, format!("{load}, {kind}s that move: at most twice"));
    }
    for (load, kind) in moved.chain([("1000+full", "read"), ("1000+full", "write")]) {
        let ratio = summary.get(&format!("{kind}_ratio.{load}.others"));
        let slack = if kind == "read" { 0.05 } else { 0.1 };
        checks = checks.exact(
            (ratio.min - 1.0).abs() <= slack && (ratio.max - 1.0).abs() <= slack,
            format!("{load}, {kind}s that do not move: {:.3} times", ratio.mean),
        );
    }
    for load in ["1000+100", "2000+300"] {
        let ended = summary.min(&format!("ended.{load}"));
        checks = checks.exact(ended >= 1.0, format!("{load}: {:.0} % end", ended * 100.0));
    }
    let partner = |kind: &str| summary.mean(&format!("{kind}_ratio.2000+300.partner"));
    checks
        .note(format!(
            "the tenant of the other channel: p99 of reads {:.2}, of writes {:.2} times at 2000+300",
            partner("read"),
            partner("write")
        ))
        .judge()
}
