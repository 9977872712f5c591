//! Two channels are swapped under load.

use larder_ssd::nand::ChannelIndex;
use larder_ssd::timed::{DieService, Nanoseconds};
use larder_vssd::channel_pairs;
use larder_vssd::timed::Pace;

use super::drive::{CHANNELS, Drive, Kind, PLANES};
use super::failed;
use super::run::Beside;
use super::tenant::{Pattern, TenantResult};
use super::window::Window;
use crate::Error;
use crate::experiment::judge::Checks;
use crate::experiment::{Experiment, Judgement, Metrics, Parameter, Reference, Settings, Summary};
use crate::replay::Monitor;

const RATE: Parameter = Parameter {
    name: "rate_mb_s",
    default: "8",
    help: "MB/s that a swap copies, 1 to 1000; a pair of dies of one plane makes 22 if it does nothing else, and 11 \
           beside these tenants",
};

pub(in crate::experiment) static MIGRATION: Experiment = Experiment {
    name: "migration",
    title: "a swap of two channels under load: what its tenants and the others notice, and how long it takes",
    reproduces: "FlashBlox (FAST'17), section 4.4, Figures 12 and 13: a channel migrates under load",
    criterion: "p99 of all other vSSDs within 5 % of what it was; the swap takes what its bytes take at its rate, \
                within 10 %; what was copied is what the blocks hold",
    parameters: &[CHANNELS, PLANES, RATE],
    metrics: &[
        (
            "p99_us.*",
            "p99 of tenant and phase (before, during, after): moved (64 KiB reads and writes), partner \
                     (64 KiB reads), others (64 KiB reads and writes), alone (64 KiB reads)",
        ),
        ("mb_s.*", "their MB/s"),
        (
            "others_p99_change",
            "p99 of those that are not moved, during the swap by before it, the largest",
        ),
        ("moved_dip", "share of its bandwidth that the moved tenant loses during the swap"),
        ("moved_p99_ratio", "p99 of the moved tenant, during the swap by before it"),
        ("seconds", "the swap took"),
        ("rate_ratio", "time of the swap by what its bytes take at its rate"),
        ("gib", "copied, in GiB"),
        ("minutes_64_gib", "what a channel of 64 GB would take at this rate, in minutes"),
        (
            "rested_p99_ratio",
            "p99 of the moved tenant during a swap that rests for it, by before it",
        ),
        ("rested_seconds", "that swap took"),
    ],
    references: &[Reference::published(
        "minutes_64_gib",
        15.0,
        "section 4.4: 64 GB at 78.9 MB/s in about 15 minutes",
    )],
    needs: &["others_p99_change", "rate_ratio", "moved_dip", "seconds", "gib"],
    measure,
    judge,
};

/// A small number, so that a swap takes a few seconds of the drive's time.
const BLOCKS_PER_DIE: u32 = 5;
const SECOND: Nanoseconds = 1_000_000_000;
/// The window before the swap.
const BEFORE: Window = Window { from: SECOND, until: 5 * SECOND };

/// The load of the tenants. Each tenant has an eighth of the channels.
fn tenants() -> [(u32, u32, Pattern); 4] {
    let bytes = 64 << 10;
    [
        (1, 1, Pattern::Job(bytes, 4)),
        (1, 1, Pattern::Read(bytes, 2)),
        (1, 1, Pattern::Job(bytes, 4)),
        (1, 1, Pattern::Read(bytes, 2)),
    ]
}

const NAMES: [&str; 4] = ["moved", "partner", "others", "alone"];

/// A swap under load: the results before, during and after it, and its duration.
struct Swapped {
    phases: [(Vec<TenantResult>, Window); 3],
    seconds: f64,
    bytes: u64,
}

fn swapped(
    settings: &Settings,
    seed: u64,
    pace: Pace,
    monitor: &Monitor,
) -> Result<Swapped, Error> {
    let drive = Drive::new(settings, DieService::InOrder, BLOCKS_PER_DIE)?;
    let mut beside = Beside::new(&drive, Kind::Channel, &tenants(), seed)?;
    let before = beside.measure(BEFORE, monitor)?;
    let channel_of = |tenant: usize, beside: &Beside| {
        let info = beside.timed.array().info(beside.tenants[tenant].vssd()).map_err(failed)?;
        let die = info.dies.first().map(|&(_, die)| drive.timing.array().channel_of(die));
        Ok::<ChannelIndex, Error>(die.unwrap_or(ChannelIndex(0)))
    };
    let (a, b) = (channel_of(0, &beside)?, channel_of(1, &beside)?);
    let pairs = channel_pairs(drive.timing.array(), a, b, None).map_err(failed)?;
    beside.timed.swap_begin(BEFORE.until, 0, &pairs, pace).map_err(failed)?;
    let mut during = vec![TenantResult::default(); NAMES.len()];
    let mut now = BEFORE.until;
    while beside.timed.is_swapping() && !monitor.is_stopped() {
        let seen = beside.until(BEFORE.until, now + SECOND / 10, monitor)?;
        during.iter_mut().zip(seen).for_each(|(all, seen)| all.add(seen));
        now += SECOND / 10;
    }
    let after = Window { from: now + SECOND, until: now + 5 * SECOND };
    let later = beside.measure(after, monitor)?;
    beside.timed.array().audit().map_err(Error::run)?;
    let progress = beside.timed.swap_progress();
    Ok(Swapped {
        phases: [
            (before, BEFORE),
            (during, Window { from: BEFORE.until, until: now }),
            (later, after),
        ],
        seconds: Window { from: BEFORE.until, until: progress.ended_at.max(BEFORE.until) }
            .seconds(),
        bytes: progress.bytes,
    })
}

#[allow(clippy::cast_precision_loss)]
fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let mut metrics = Metrics::new();
    settings.within(RATE.name, 1.0..=1000.0)?;
    let rate: u64 = settings.get(RATE.name)?;
    let pace = Pace { bytes_per_s: rate * 1_000_000, p99_ns: None };
    let mut swap = swapped(settings, seed, pace, monitor)?;
    for (phase, (seen, window)) in ["before", "during", "after"].into_iter().zip(&mut swap.phases) {
        for (name, seen) in NAMES.into_iter().zip(seen) {
            metrics.insert(format!("p99_us.{name}.{phase}"), seen.quantile_us(0.99));
            metrics.insert(format!("mb_s.{name}.{phase}"), seen.mb_s(*window));
        }
    }
    let by = |name: &str| metrics[name];
    let change =
        |name: &str| by(&format!("p99_us.{name}.during")) / by(&format!("p99_us.{name}.before"));
    let furthest = |a: f64, b: f64| if (a - 1.0).abs() > (b - 1.0).abs() { a } else { b };
    let should_take = swap.bytes as f64 / (rate as f64 * 1e6);
    let mut values = vec![
        ("others_p99_change", furthest(change("others"), change("alone"))),
        ("moved_dip", 1.0 - by("mb_s.moved.during") / by("mb_s.moved.before")),
        ("moved_p99_ratio", change("moved")),
        ("seconds", swap.seconds),
        ("rate_ratio", swap.seconds / should_take),
        ("gib", swap.bytes as f64 / (1_u64 << 30) as f64),
        ("minutes_64_gib", 64e9 / (swap.bytes as f64 / swap.seconds) / 60.0),
    ];
    // Twice the earlier latency is too much for the moved tenant.
    let limit_us = 2.0 * by("p99_us.moved.before");
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // microseconds
    let pace = Pace { p99_ns: Some((limit_us * 1000.0) as u64), ..pace };
    let mut rested = swapped(settings, seed, pace, monitor)?;
    let [(before, _), (during, _), _] = &mut rested.phases;
    values.push(("rested_p99_ratio", during[0].quantile_us(0.99) / before[0].quantile_us(0.99)));
    values.push(("rested_seconds", rested.seconds));
    metrics.extend(values.into_iter().map(|(name, value)| (name.to_owned(), value)));
    Ok(metrics)
}

fn judge(summary: &Summary) -> Judgement {
    let (change, rate) = (summary.get("others_p99_change"), summary.get("rate_ratio"));
    Checks::default()
        .exact(
            (0.95..=1.05).contains(&change.min) && (0.95..=1.05).contains(&change.max),
            format!("p99 of the others changes to {:.3} of what it was", change.mean),
        )
        .exact(
            (0.9..=1.1).contains(&rate.min) && (0.9..=1.1).contains(&rate.max),
            format!("the swap takes {:.3} of its bytes' time", rate.mean),
        )
        .shape(change.mean < 1.5, "the others hardly notice")
        .note(format!(
            "the moved tenant loses {:.0} % of its bandwidth, its p99 is {:.1} times as long; {:.1} times where the \
             swap rests for it, which then takes {:.1} times as long",
            summary.mean("moved_dip") * 100.0,
            summary.mean("moved_p99_ratio"),
            summary.mean("rested_p99_ratio"),
            summary.mean("rested_seconds") / summary.mean("seconds")
        ))
        .judge()
}
