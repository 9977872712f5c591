//! How much DRAM the cache has, and what the drive then has to do.

use super::judge::{Checks, highest};
use super::rig::{self, DLWA_OFF, DLWA_ON, DRIVE_WRITES, LOC_WRAPS, SOC_SHARE};
use super::{Experiment, Judgement, Metrics, PaperValue, Settings, Summary};
use crate::Error;
use crate::replay::{Monitor, ReplayOptions};

/// Percentages of the usual DRAM, as 4, 20 and 42 GB are of 42 GB.
const POINTS: [u64; 3] = [10, 50, 100];

pub(super) static DRAM_TRADEOFF: Experiment = Experiment {
    name: "dram-tradeoff",
    title: "hit ratios and DLWA with less DRAM",
    reproduces: "FDP paper (EuroSys'25), Table 2: KV Cache, 100 % utilisation, SOC 4 %",
    criterion: "the hit ratio of flash rises as DRAM falls; on <= 1.05 at each size (that all hits \
                together fall is no part of it: in the paper they do not)",
    parameters: &[rig::REQUESTS, rig::FLASH],
    metrics: &[
        DLWA_ON,
        DLWA_OFF,
        ("hit.*", "hit ratio of GETs over the whole run, by DRAM in percent of the usual"),
        ("flash_hit.*", "GETs that flash answered, of those that DRAM could not"),
        SOC_SHARE,
        DRIVE_WRITES,
        LOC_WRAPS,
    ],
    paper: &[
        PaperValue { metric: "hit.10", value: 0.863, source: "Table 2, FDP 4 GB" },
        PaperValue { metric: "hit.50", value: 0.919, source: "Table 2, FDP 20 GB" },
        PaperValue { metric: "hit.100", value: 0.9032, source: "Table 2, FDP 42 GB" },
        PaperValue { metric: "flash_hit.10", value: 0.3774, source: "Table 2, FDP 4 GB" },
        PaperValue { metric: "flash_hit.50", value: 0.3137, source: "Table 2, FDP 20 GB" },
        PaperValue { metric: "flash_hit.100", value: 0.1751, source: "Table 2, FDP 42 GB" },
        PaperValue { metric: "dlwa.on.100", value: 1.04, source: "Table 2, from its CO2e" },
        PaperValue { metric: "dlwa.off.100", value: 3.28, source: "Table 2, from its CO2e" },
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
        let [(_, on), _] = rig::note_both(&options, monitor, &mut metrics, &point)?;
        for tenant in &on.tenants {
            metrics.insert(format!("hit.{point}"), tenant.run.hit_ratio);
            metrics.insert(format!("flash_hit.{point}"), tenant.run.flash_hit_ratio);
        }
    }
    Ok(metrics)
}

fn judge(summary: &Summary) -> Judgement {
    let flash = POINTS.map(|percent| summary.mean(&format!("flash_hit.{percent}")));
    let on = POINTS.map(|percent| summary.max(&format!("dlwa.on.{percent}")));
    let highest = highest(on);
    let off = summary.mean("dlwa.off.100");
    let [tenth, half, all] = flash.map(|ratio| ratio * 100.0);
    Checks::default()
        .exact(
            tenth > half && half > all,
            format!("flash answers {tenth:.1}, {half:.1}, {all:.1} % at 10, 50, 100 % of DRAM"),
        )
        .exact(highest <= 1.05, format!("on at most {highest:.3}"))
        .shape(tenth > all, "flash matters more with a tenth of the DRAM")
        .shape(highest < off, "placement lowers DLWA")
        .judge()
}
