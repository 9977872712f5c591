//! Wear of dies: what moves along when channels migrate, and what does not.

use larder_vssd::levelling::{Carry, DEFAULT_DIVISOR};

use super::load::Load;
use super::policy::{Channels, Dies, Policy};
use super::rated::{self, Rated};
use super::years::live;
use crate::Error;
use crate::experiment::judge::Checks;
use crate::experiment::measured::{highest, lowest};
use crate::experiment::{Experiment, Judgement, Metrics, Parameter, Reference, Settings, Summary};
use crate::replay::Monitor;

/// Levelled channels, with the given levelling of dies.
const fn dies(carry: Carry, by_themselves: bool) -> Policy {
    let channels = Channels::Pair(DEFAULT_DIVISOR);
    Policy { channels, dies: Dies { carry, by_themselves }, free: false }
}

/// The policies, by name in metrics.
const POLICIES: &[(&str, Policy)] = &[
    ("none", Policy::of(Channels::Never)),
    ("channels", dies(Carry::AsTheyAre, false)),
    ("carried_one", dies(Carry::MostWornDie, false)),
    ("carried", dies(Carry::AllDies, false)),
    ("all", dies(Carry::AllDies, true)),
];
/// The loads, by name in metrics.
const LOADS: [&str; 5] = ["mixed", "channels", "one_die", "die_each", "even"];

pub(in crate::experiment) static DIE_WEAR: Experiment = Experiment {
    name: "die-wear",
    title: "wear of dies at the end of a drive's life, by how dies are levelled",
    reproduces: "FlashBlox (FAST'17), section 4: dies are exchanged along with channels, at most 40 times in a \
                 life (no figure of their wear is given)",
    criterion: "with dies carried along and exchanged inside channels, the most worn die has at most 1.1 times \
                the mean at the end of life, whatever the load, and migrations make at most 5 % of all erases; an \
                even load: no exchange; mixed rates: the paper's die carried along helps",
    parameters: &[
        rated::CHANNELS,
        rated::CYCLES,
        rated::DELTA,
        rated::MIGRATION,
        Parameter { name: "dies", default: "4", help: "dies of a channel, 2 to 16" },
        Parameter {
            name: "sigma",
            default: "1.2",
            help: "spread of the rates: sigma of a lognormal law, 0 to 3",
        },
    ],
    metrics: &[
        (
            "imbalance.*",
            "erases of the most worn die by the mean at the end of life, by policy and load. Policies: none, \
             channels (channels alone change places), carried_one (the paper's: the contents with the lowest \
             rate come onto the most worn die), carried (all dies seated anew), all (dies of a channel also \
             change places by themselves). Loads: mixed (each die has its own rate), channels (each channel \
             has its own, its dies are alike), one_die (one die is written), die_each (one die of each \
             channel), even",
        ),
        ("life.*", "life as a share of the ideal one, until the first die is worn out"),
        ("migration.*", "share of all erases that migrations made"),
        ("swaps.*", "exchanges of two channels in the life"),
        ("die_swaps.*", "exchanges of two dies of a channel in the life, all channels"),
        ("die_swaps_per_channel.*", "the same, by channel"),
    ],
    references: &[Reference::derived(
        "die_swaps_per_channel.all.die_each",
        40.0,
        "section 4: the most that four dies of a channel take in a life, N / delta",
    )],
    needs: &[
        "imbalance.all.mixed",
        "imbalance.all.channels",
        "imbalance.all.one_die",
        "imbalance.all.die_each",
        "imbalance.channels.mixed",
        "imbalance.carried_one.mixed",
        "migration.all.mixed",
        "migration.all.channels",
        "migration.all.one_die",
        "migration.all.die_each",
        "migration.all.even",
        "life.all.mixed",
        "die_swaps.all.even",
        "swaps.all.even",
    ],
    measure,
    judge,
};

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let dies: usize = settings.get("dies")?;
    settings.within("dies", 2.0..=16.0)?;
    let sigma = settings.within("sigma", 0.0..=3.0)?;
    let rated = Rated::new(settings, dies)?;
    let mut metrics = Metrics::new();
    for name in LOADS {
        let load = load(name, &rated, sigma, seed);
        for (policy_name, policy) in POLICIES {
            let life = live(&rated, load.clone(), *policy, seed, None, monitor)?;
            let values = [
                ("imbalance", life.die_imbalance),
                ("life", life.share),
                ("migration", life.migration),
                ("swaps", life.swaps as f64),
                ("die_swaps", life.die_swaps as f64),
                ("die_swaps_per_channel", life.die_swaps as f64 / rated.channels as f64),
            ];
            let point = format!("{policy_name}.{name}");
            metrics.extend(values.map(|(what, value)| (format!("{what}.{point}"), value)));
        }
    }
    Ok(metrics)
}

fn load(name: &str, rated: &Rated, sigma: f64, seed: u64) -> Load {
    let (channels, dies) = (rated.channels, rated.dies);
    let by_die = |rate: &dyn Fn(usize, usize) -> f64| {
        let channel = |channel| (0..dies).map(|die| rate(channel, die)).collect();
        Load::new((0..channels).map(channel).collect())
    };
    match name {
        "mixed" => Load::lognormal(channels, dies, sigma, seed),
        "channels" => {
            let rates = Load::lognormal(channels, 1, sigma, seed).contents;
            by_die(&|channel, _| rates[channel].shares[0])
        }
        "one_die" => by_die(&|channel, die| if channel + die == 0 { 1.0 } else { 0.0 }),
        "die_each" => by_die(&|_, die| if die == 0 { 1.0 } else { 0.0 }),
        _ => by_die(&|_, _| 1.0),
    }
}

fn judge(summary: &Summary) -> Judgement {
    let of = |policy: &str| {
        highest(
            LOADS
                .iter()
                .filter(|load| **load != "even")
                .map(|load| summary.max(&format!("imbalance.{policy}.{load}"))),
        )
    };
    let all = of("all");
    let mixed = |policy: &str| summary.mean(&format!("imbalance.{policy}.mixed"));
    let even = summary.max("die_swaps.all.even") + summary.max("swaps.all.even");
    let migration = highest(LOADS.map(|load| summary.max(&format!("migration.all.{load}"))));
    let lives = LOADS.map(|load| summary.min(&format!("life.all.{load}")));
    Checks::default()
        .exact(all <= 1.1, format!("most worn die at most {all:.3} times the mean"))
        .exact(even == 0.0, format!("an even load: {even:.0} exchanges"))
        .exact(
            migration <= 0.05,
            format!("migrations make at most {:.1} % of all erases", migration * 100.0),
        )
        .exact(
            mixed("carried_one") < mixed("channels"),
            format!(
                "with the paper's die carried along {:.2}, if channels alone change places {:.2}",
                mixed("carried_one"),
                mixed("channels")
            ),
        )
        .shape(all >= 1.0 && all < mixed("channels"), "dies are more even than without exchanges of theirs")
        .note(format!(
            "mixed rates: {:.2} with all dies seated anew, {:.3} if dies change places by themselves too, which the \
             paper does not have; shortest life {:.1} %",
            mixed("carried"),
            mixed("all"),
            lowest(lives) * 100.0
        ))
        .judge()
}
