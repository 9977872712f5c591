//! Sends hits to the core while the cache device is saturated, as in OrthusCAS, with a tuned share.

mod pair;

use std::time::Duration;

use larder_block::policy::routing::RoutingPolicy;
use larder_device::model::virtual_time::shapes;

use crate::Error;
use crate::experiment::judge::Checks;
use crate::experiment::measured::lowest;
use crate::experiment::{Experiment, Judgement, Metrics, Parameter, Settings, Summary};
use crate::replay::Monitor;
use pair::{Load, Pair};

const CORES: Parameter = Parameter {
    name: "cores",
    default: "10,20,40,80,100",
    help: "speed of the core in percent of the cache device's, each 5 to 100",
};
const WINDOWS: Parameter = Parameter {
    name: "windows",
    default: "40",
    help: "windows of 50 ms that are measured a second after each change of the load, 2 to 1000",
};

/// The loads run one after the other.
const LOADS: [Load; 3] = [
    Load { name: "hits", missed_percent: 0, written_percent: 0 },
    Load { name: "misses", missed_percent: 5, written_percent: 0 },
    Load { name: "writes", missed_percent: 0, written_percent: 30 },
];
const ADAPTS: Duration = Duration::from_secs(1);
const WINDOW: Duration = Duration::from_millis(50);
/// Fixed shares to compare with, in thousandths.
const SHARES: [u16; 7] = [80, 160, 240, 320, 400, 480, 560];
/// Assumed speed of the core in percent of its real speed, by seed.
const MEASURED_PERCENT: [u64; 4] = [100, 50, 150, 200];

/// From this speed of the core on, in percent, routing has to pay off.
const PAYS_FROM: u32 = 40;

pub(in crate::experiment) static BLOCK_OFFLOAD: Experiment = Experiment {
    name: "block-offload",
    title: "clean hits that a core serves while the cache device is saturated",
    reproduces: "OrthusCAS (FAST'21), classic against non-hierarchical caching on a saturated cache device, by ratios: \
                 a SATA SSD before cores of a part of its speed, write-through, 64 requests of 4 KiB at a time",
    criterion: "reads at 1.3 times the rate of classic caching or more where the core has 0.4 of the cache's speed or \
                more; all loads at 0.85 of the best fixed share or more and 0.97 of classic or more, each from a \
                second after it has begun; of reads no window of 50 ms is below 0.97 of the lowest of classic; \
                in shape if all loads are at 0.9 of classic or more",
    parameters: &[CORES, WINDOWS],
    metrics: &[
        (
            "gain.*",
            "bytes a second with a share that is tuned, by those of classic caching: load (hits; 5 % misses; 30 % \
             writes), speed of the core in percent of the cache device's",
        ),
        ("of_best.*", "the same by those of the best fixed share or none, by the same"),
        ("adapting.*", "a load's first second, by that of classic caching, by the same"),
        ("best.*", "the best fixed share or none by classic caching, by the same"),
        ("lowest.*", "the lowest window by the mean of classic caching, by the same"),
        ("lowest_classic.*", "the lowest window of classic caching by its mean, by the same"),
        ("mb_s.*", "classic caching in MB/s, by the same"),
        ("core_share.*", "reads that the core has served though they were cached, by the same"),
    ],
    references: &[],
    needs: &["gain.hits.40", "gain.misses.40", "gain.writes.40", "gain.hits.100"],
    measure,
    judge,
};

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let cores: Vec<u64> = settings.list(CORES.name)?;
    if let Some(wrong) = cores.iter().find(|percent| !(5..=100).contains(*percent)) {
        return Err(settings.refuse(CORES.name, &wrong.to_string(), "must be 5 to 100"));
    }
    let windows: u32 = settings.within(WINDOWS.name, 2..=1000)?;
    let mut metrics = Metrics::new();
    for core in cores {
        compare(core, windows, seed, monitor, &mut metrics)?;
    }
    Ok(metrics)
}

/// Bytes a second in the first second of a load, and in each window after it.
fn windows(pair: &mut Pair, load: Load, count: u32) -> (f64, Vec<f64>) {
    let adapting = pair.run(load, ADAPTS);
    (adapting, (0..count).map(|_| pair.run(load, WINDOW)).collect())
}

#[allow(clippy::cast_precision_loss)]
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[allow(clippy::cast_precision_loss)]
fn compare(
    core: u64,
    count: u32,
    seed: u64,
    monitor: &Monitor,
    metrics: &mut Metrics,
) -> Result<(), Error> {
    let pair = || Pair::new(shapes::SATA_SSD, core, seed).map_err(Error::run);
    let refused = |error: larder_block::Error| Error::run(error.to_string());
    let (mut classic, mut tuned) = (pair()?, pair()?);
    let known = MEASURED_PERCENT[usize::try_from(seed % 4).unwrap_or_default()];
    tuned.set(tuned.tuned(known)).map_err(refused)?;
    for load in LOADS {
        if monitor.is_stopped() {
            return Err(Error::run("interrupted"));
        }
        let (first_of_classic, of_classic) = windows(&mut classic, load, count);
        let before = tuned.statistics();
        let (first_of_tuned, of_tuned) = windows(&mut tuned, load, count);
        let after = tuned.statistics();
        let (plain, ours) = (mean(&of_classic), mean(&of_tuned));
        let mut best = plain;
        let mut fixed = pair()?;
        for core_permille in SHARES {
            fixed.set(RoutingPolicy::Fixed { core_permille }).map_err(refused)?;
            fixed.run(load, WINDOW);
            best = best.max(fixed.run(load, 4 * WINDOW));
        }
        let reads = (after.reads.total() - before.reads.total()).max(1);
        let core_hits = after.core_hits - before.core_hits;
        for (name, value) in [
            ("gain", ours / plain),
            ("of_best", ours / best),
            ("best", best / plain),
            ("adapting", first_of_tuned / first_of_classic),
            ("lowest", lowest(of_tuned) / plain),
            ("lowest_classic", lowest(of_classic) / plain),
            ("mb_s", plain / 1e6),
            ("core_share", core_hits as f64 / reads as f64),
        ] {
            metrics.insert(format!("{name}.{}.{core}", load.name), value);
        }
    }
    Ok(())
}

fn judge(summary: &Summary) -> Judgement {
    let default: Vec<u32> = CORES.default.split(',').filter_map(|core| core.parse().ok()).collect();
    let of = |name: &str, load: &str, cores: &[u32]| {
        lowest(cores.iter().map(|core| summary.mean(&format!("{name}.{load}.{core}"))))
    };
    let paying: Vec<u32> = default.iter().copied().filter(|core| *core >= PAYS_FROM).collect();
    let mut checks = Checks::default();
    for load in LOADS {
        let name = load.name;
        let (gain, of_best) = (of("gain", name, &default), of("of_best", name, &default));
        checks = checks
            .shape(gain >= 0.9, format!("{name}: 0.9 x classic at least"))
            .exact(gain >= 0.97, format!("{name}: {gain:.3} x classic at least"))
            .exact(of_best >= 0.85, format!("{name}: {of_best:.3} x the best share at least"));
        // Classic caching also has windows that are slower than others, for example where a log makes room.
        let window = lowest(default.iter().map(|core| {
            let point = |metric: &str| summary.mean(&format!("{metric}.{name}.{core}"));
            point("lowest") / point("lowest_classic")
        }));
        let window_text = format!("{name}: {window:.3} x the lowest window of classic at least");
        if load.written_percent > 0 {
            checks = checks.note(window_text);
            continue;
        }
        let pays = of("gain", name, &paying);
        checks = checks
            .exact(pays >= 1.3, format!("{name}: {pays:.3} x from a core of {PAYS_FROM} % on"))
            .exact(window >= 0.97, window_text);
    }
    checks.judge()
}
