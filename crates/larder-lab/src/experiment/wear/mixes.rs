//! Tenants that write at different rates: random mixes, one as uneven as the paper's workloads, and an even one.

use fastrand::Rng;
use larder_vssd::levelling::DEFAULT_DIVISOR;

use super::load::Load;
use super::policy::{Channels, Policy};
use super::rated::{self, Rated};
use super::years::{Life, live};
use crate::Error;
use crate::experiment::judge::Checks;
use crate::experiment::measured::{highest, lowest};
use crate::experiment::{Experiment, Judgement, Metrics, Parameter, Reference, Settings, Summary};
use crate::replay::Monitor;

/// The policies, by name in metrics.
const POLICIES: &[(&str, Channels)] = &[
    ("none", Channels::Never),
    ("literal", Channels::Literal),
    ("week1", Channels::Weeks(1)),
    ("week4", Channels::Weeks(4)),
    ("together2", Channels::Together(2)),
    ("pair1", Channels::Pair(1)),
    ("pair2", Channels::Pair(DEFAULT_DIVISOR)),
    ("pair4", Channels::Pair(4)),
];
/// The policies that are also tried with bursty writes.
const IN_BURSTS: [(&str, Channels); 3] = [
    ("none", Channels::Never),
    ("pair2", Channels::Pair(DEFAULT_DIVISOR)),
    ("pair4", Channels::Pair(4)),
];

/// Largest accepted difference between the means of two sets of random mixes.
const OTHER_MIXES: f64 = 0.3;
const SIMULATED: &str = "another simulation of the same rule, not the paper's";

const fn simulated(metric: &'static str, value: f64) -> Reference {
    Reference::ours(metric, value, SIMULATED)
}

pub(in crate::experiment) static WEAR_MIXES: Experiment = Experiment {
    name: "wear-mixes",
    title: "life of a drive whose channels have tenants of different write rates",
    reproduces: "FlashBlox (FAST'17), Figures 5, 15 and 16: rates that differ up to 12 times between \
                 channels, and erase counts that are next to even with exchanges",
    criterion: "random mixes: on average at least 85 % of the ideal life with the pair rule at gamma/2, 90 % at \
                gamma/4, and at most 2 % of all erases by migrations at gamma/2; an even load: no exchange; \
                rates that differ 12 times (Figure 5): with exchanges the wear of channels differs by at most \
                1.2 times when the drive without them is worn out",
    parameters: &[
        rated::CHANNELS,
        rated::CYCLES,
        rated::DELTA,
        rated::MIGRATION,
        Parameter { name: "mixes", default: "40", help: "random mixes, 1 to 1000" },
        Parameter {
            name: "sigma",
            default: "1.2",
            help: "spread of their rates: sigma of a lognormal law, 0 to 3",
        },
        Parameter {
            name: "ratio",
            default: "12",
            help: "highest by lowest rate of the mix like the paper's, 1.1 to 1000",
        },
        Parameter {
            name: "bursts",
            default: "1",
            help: "spread of a tenant's weeks about its rate, where writes come in bursts: sigma, 0 to 2",
        },
    ],
    metrics: &[
        (
            "life_mean.*",
            "life as a share of the ideal one, mean of the mixes, by policy: none (no exchanges), literal \
             (the paper's rule), week1 and week4 (the pair rule, at this interval in weeks), together2 (the pair \
             rule with the paper's counters, gamma/2), pair1 to pair4 (ours, at gamma to gamma/4)",
        ),
        ("life_min.*", "the shortest of them"),
        (
            "imbalance_max.*",
            "erases of the most worn channel by the mean, at the end or after 90 % of the ideal life, the worst mix",
        ),
        ("migration_max.*", "share of all erases that migrations made, the mix with most of it"),
        (
            "bursty_mean.*",
            "life with writes in bursts, mean of the mixes, of what would be ideal for the same writes",
        ),
        ("bursty_min.*", "the shortest of them"),
        ("even_swaps.*", "exchanges in the life of a drive whose channels are written alike"),
        ("even_life.*", "its life as a share of the ideal one"),
        (
            "rate.*",
            "mix like the paper's: erases of a channel's tenant by those of the least busy one, by channel",
        ),
        (
            "cycles.none.*",
            "that mix, without exchanges: erases of each block of a channel at the end of the drive's life, by channel",
        ),
        ("cycles.pair2.*", "the same at the same time with exchanges at gamma/2"),
        (
            "wear_ratio.*",
            "erases of the most by those of the least worn channel then, with exchanges",
        ),
        ("spread_life.*", "life with that mix as a share of the ideal one, by policy"),
    ],
    references: &[
        simulated("life_mean.none", 0.223),
        simulated("life_min.none", 0.108),
        simulated("life_mean.literal", 0.375),
        simulated("life_min.literal", 0.203),
        simulated("life_mean.together2", 0.90),
        simulated("life_min.together2", 0.75),
    ],
    needs: &[
        "life_mean.none",
        "life_mean.literal",
        "life_mean.pair2",
        "life_min.pair2",
        "life_mean.pair4",
        "migration_max.pair2",
        "bursty_mean.pair2",
        "even_swaps.pair1",
        "even_swaps.pair2",
        "even_swaps.pair4",
        "wear_ratio.pair2",
    ],
    measure,
    judge,
};

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let rated = Rated::new(settings, 1)?;
    let mut metrics = Metrics::new();
    let run = |load: Load, channels, weeks| {
        live(&rated, load, Policy::of(channels), seed, weeks, monitor)
    };
    random_mixes(settings, seed, &run, &mut metrics)?;
    for (name, channels) in POLICIES.iter().filter(|(name, _)| name.starts_with("pair")) {
        let life = run(Load::hot(rated.channels, rated.channels), *channels, None)?;
        metrics.insert(format!("even_swaps.{name}"), life.swaps as f64);
        metrics.insert(format!("even_life.{name}"), life.share);
    }
    let ratio = settings.within("ratio", 1.1..=1000.0)?;
    uneven(ratio, rated.channels, &run, &mut metrics)?;
    Ok(metrics)
}

/// Simulates a life with a load and a policy, for at most the given number of weeks.
type Run<'a> = &'a dyn Fn(Load, Channels, Option<f64>) -> Result<Life, Error>;

fn random_mixes(
    settings: &Settings,
    seed: u64,
    run: Run<'_>,
    metrics: &mut Metrics,
) -> Result<(), Error> {
    let mixes: usize = settings.get("mixes")?;
    settings.within("mixes", 1.0..=1000.0)?;
    let sigma = settings.within("sigma", 0.0..=3.0)?;
    let bursts = settings.within("bursts", 0.0..=2.0)?;
    let channels: usize = settings.get("channels")?;
    let mut rng = Rng::with_seed(seed);
    let loads: Vec<Load> =
        (0..mixes).map(|_| Load::lognormal(channels, 1, sigma, rng.u64(..))).collect();
    let all = |policy, bursts| -> Result<Vec<Life>, Error> {
        loads.iter().map(|load| run(load.clone().with_bursts(bursts), policy, None)).collect()
    };
    for (name, policy) in POLICIES {
        let lives = all(*policy, 0.0)?;
        note_lives(metrics, "life", name, &lives);
        let worst = |of: fn(&Life) -> f64| highest(lives.iter().map(of));
        metrics.insert(format!("imbalance_max.{name}"), worst(|life| life.imbalance));
        metrics.insert(format!("migration_max.{name}"), worst(|life| life.migration));
    }
    for (name, policy) in IN_BURSTS {
        note_lives(metrics, "bursty", name, &all(policy, bursts)?);
    }
    Ok(())
}

fn note_lives(metrics: &mut Metrics, what: &str, name: &str, lives: &[Life]) {
    let shares = || lives.iter().map(|life| life.share);
    metrics.insert(format!("{what}_mean.{name}"), shares().sum::<f64>() / lives.len() as f64);
    metrics.insert(format!("{what}_min.{name}"), lowest(shares()));
}

/// A mix as uneven as the paper's: absolute wear by channel, at the time when the drive without exchanges is worn out.
fn uneven(ratio: f64, channels: usize, run: Run<'_>, metrics: &mut Metrics) -> Result<(), Error> {
    let load = Load::spread(channels, ratio);
    let least = load.contents[0].shares[0];
    for (channel, contents) in load.contents.iter().enumerate() {
        metrics.insert(format!("rate.{}", channel + 1), contents.shares[0] / least);
    }
    let end = run(load.clone(), Channels::Never, None)?.weeks;
    for (name, policy) in POLICIES {
        let life = run(load.clone(), *policy, None)?;
        metrics.insert(format!("spread_life.{name}"), life.share);
        if !["none", "pair2"].contains(name) {
            continue;
        }
        let cycles = run(load.clone(), *policy, Some(end))?.cycles;
        for (channel, &cycles) in cycles.iter().enumerate() {
            metrics.insert(format!("cycles.{name}.{}", channel + 1), cycles);
        }
        let (most, least) = (highest(cycles.iter().copied()), lowest(cycles.iter().copied()));
        // Without exchanges it is the parameter `ratio`.
        if *name == "pair2" {
            metrics.insert("wear_ratio.pair2".to_owned(), most / least);
        }
    }
    Ok(())
}

fn judge(summary: &Summary) -> Judgement {
    let mean = |name: &str| summary.mean(name);
    let (half, quarter) = (summary.get("life_mean.pair2"), summary.get("life_mean.pair4"));
    let migration = summary.max("migration_max.pair2");
    let even =
        highest(["pair1", "pair2", "pair4"].map(|name| summary.max(&format!("even_swaps.{name}"))));
    let level = summary.max("wear_ratio.pair2");
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    Checks::default()
        .exact(half.min >= 0.85, format!("mixes at gamma/2: {} on average", percent(half.min)))
        .exact(quarter.min >= 0.9, format!("at gamma/4: {}", percent(quarter.min)))
        .exact(half.max.max(quarter.max) <= 1.0, "no life is longer than the ideal one")
        .exact(migration <= 0.02, format!("migrations make at most {} of all erases", percent(migration)))
        .exact(even == 0.0, format!("an even load: {even:.0} exchanges"))
        .exact(level <= 1.2, format!("wear of channels differs by {level:.3} times with exchanges"))
        .near("without exchanges", mean("life_mean.none"), WEAR_MIXES.references, "life_mean.none", OTHER_MIXES)
        .near("paper's rule", mean("life_mean.literal"), WEAR_MIXES.references, "life_mean.literal", OTHER_MIXES)
        .shape(
            half.mean > mean("life_mean.literal") && mean("life_mean.literal") > mean("life_mean.none"),
            "the pair rule gains more than the paper's rule, and that more than none",
        )
        .note(format!(
            "without exchanges {}, with the paper's rule as it stands {}; the shortest life at gamma/2 is {}; \
             with writes in bursts {} on average",
            percent(mean("life_mean.none")),
            percent(mean("life_mean.literal")),
            percent(summary.min("life_min.pair2")),
            percent(mean("bursty_mean.pair2"))
        ))
        .judge()
}
