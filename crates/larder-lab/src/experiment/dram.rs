//! DLWA and hit ratio by the amount of DRAM that the cache has.

use super::judge::{Checks, NEXT_TO_NONE, SAME};
use super::measured::{highest, lowest};
use super::rig::{self, DLWA_OFF, DLWA_ON, DRIFT, DRIVE_WRITES, LOC_WRAPS, SOC_SHARE};
use super::{Experiment, Judgement, Metrics, Reference, Settings, Summary};
use crate::Error;
use crate::replay::{Monitor, ReplayOptions};

/// Percentages of the usual DRAM, as 4, 20 and 42 GB are of 42 GB.
const POINTS: [u64; 3] = [10, 50, 100];

/// How far equal hit ratios may be apart. In Table 2 those with and without placement differ by up to 5 % where the
/// cache does the same.
const SAME_HITS: f64 = 0.055;

pub(super) static DRAM_TRADEOFF: Experiment = Experiment {
    name: "dram-tradeoff",
    title: "hit ratios and DLWA with less DRAM",
    reproduces: "FDP paper (EuroSys'25), Table 2: KV Cache, 100 % utilisation, SOC 4 %",
    criterion: "the hit ratio of flash rises as DRAM falls; hit ratios of all tiers within 5.5 % of Table \
                2's and of flash within 15 %, with and without placement, which differ by at most \
                5.5 % of it; on 1 to 1.05 at each size; off at 100 % within 15 % of Table 2's",
    parameters: &[rig::REQUESTS, rig::FLASH],
    metrics: &[
        DLWA_ON,
        DLWA_OFF,
        ("hit.*", "hit ratio of GETs over the whole run, by DRAM in percent of the usual"),
        ("flash_hit.*", "GETs that flash answered, of those that DRAM could not"),
        ("hit_off.*", "the same as hit, without placement"),
        ("flash_hit_off.*", "the same as flash_hit, without placement"),
        SOC_SHARE,
        DRIVE_WRITES,
        LOC_WRAPS,
        DRIFT,
    ],
    references: &[
        Reference::published("hit.10", 0.863, "Table 2, FDP 4 GB"),
        Reference::published("hit.50", 0.919, "Table 2, FDP 20 GB"),
        Reference::published("hit.100", 0.9032, "Table 2, FDP 42 GB"),
        Reference::published("flash_hit.10", 0.3774, "Table 2, FDP 4 GB"),
        Reference::published("flash_hit.50", 0.3137, "Table 2, FDP 20 GB"),
        Reference::published("flash_hit.100", 0.1751, "Table 2, FDP 42 GB"),
        Reference::published("hit_off.10", 0.8611, "Table 2, Non-FDP 4 GB"),
        Reference::published("hit_off.50", 0.921, "Table 2, Non-FDP 20 GB"),
        Reference::published("hit_off.100", 0.9022, "Table 2, Non-FDP 42 GB"),
        Reference::published("flash_hit_off.10", 0.3741, "Table 2, Non-FDP 4 GB"),
        Reference::published("flash_hit_off.50", 0.33, "Table 2, Non-FDP 20 GB"),
        Reference::published("flash_hit_off.100", 0.1734, "Table 2, Non-FDP 42 GB"),
        Reference::derived("dlwa.on.100", 1.04, "Table 2, from its CO2e"),
        Reference::derived("dlwa.off.100", 3.28, "Table 2, from its CO2e"),
    ],
    needs: &[
        "dlwa.on.10",
        "dlwa.on.50",
        "dlwa.on.100",
        "dlwa.off.100",
        "hit.10",
        "hit.50",
        "hit.100",
        "flash_hit.10",
        "flash_hit.50",
        "flash_hit.100",
        "hit_off.10",
        "hit_off.50",
        "hit_off.100",
        "flash_hit_off.10",
        "flash_hit_off.50",
        "flash_hit_off.100",
    ],
    measure,
    judge,
};

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let mut metrics = Metrics::new();
    for percent in POINTS {
        let usual = rig::options("meta-kv", settings, seed)?;
        let options = ReplayOptions { dram_bytes: usual.dram_bytes * percent / 100, ..usual };
        let point = percent.to_string();
        let [(_, on), (_, off)] = rig::note_both(&options, monitor, &mut metrics, &point)?;
        for (arm, run) in [("", &on), ("_off", &off)] {
            for tenant in &run.tenants {
                metrics.insert(format!("hit{arm}.{point}"), tenant.run.hit_ratio);
                metrics.insert(format!("flash_hit{arm}.{point}"), tenant.run.flash_hit_ratio);
            }
        }
    }
    Ok(metrics)
}

fn judge(summary: &Summary) -> Judgement {
    let flash = POINTS.map(|percent| summary.mean(&format!("flash_hit.{percent}")));
    let on = POINTS.map(|percent| summary.get(&format!("dlwa.on.{percent}")));
    let (least, most) = (lowest(on.map(|on| on.min)), highest(on.map(|on| on.max)));
    let off = summary.mean("dlwa.off.100");
    let [tenth, half, all] = flash.map(|ratio| ratio * 100.0);
    let paper = DRAM_TRADEOFF.references;
    let mut checks = Checks::default()
        .exact(
            tenth > half && half > all,
            format!("flash answers {tenth:.1}, {half:.1}, {all:.1} % at 10, 50, 100 % of DRAM"),
        )
        .exact(
            NEXT_TO_NONE.contains(&least) && NEXT_TO_NONE.contains(&most),
            format!("on is {least:.3} to {most:.3}"),
        )
        .near("off at 100 %", off, paper, "dlwa.off.100", SAME)
        .shape(tenth > all, "flash matters more with a tenth of the DRAM")
        .shape(most < off, "placement lowers DLWA");
    for (ratio, tolerance) in [("hit", SAME_HITS), ("flash_hit", SAME)] {
        for percent in POINTS {
            let metric = format!("{ratio}.{percent}");
            let ours = summary.mean(&metric);
            let without = summary.mean(&format!("{ratio}_off.{percent}"));
            let apart = (without / ours - 1.0).abs();
            checks = checks.near(&metric, ours, paper, &metric, tolerance).shape(
                apart <= SAME_HITS,
                format!("{metric} is {:.2} % off it without placement", apart * 100.0),
            );
        }
    }
    checks.judge()
}
