//! DLWA and hit ratio by the amount of DRAM that the cache has.

use larder::AdmissionPolicy;

use super::judge::{self, Checks, NEXT_TO_NONE, SAME};
use super::measured::{highest, lowest};
use super::rig::{self, DLWA_OFF, DLWA_ON, DRIFT, DRIVE_WRITES, LOC_WRAPS, SOC_SHARE};
use super::{Experiment, Judgement, Metrics, Parameter, Reference, Settings, Summary};
use crate::Error;
use crate::replay::outcome::Run;
use crate::replay::{Monitor, ReplayOptions};

/// DRAM in Table 2: what it is called here, roughly the percentage of the usual DRAM; GB; thousands of GETs a second.
const POINTS: [(u64, f64, f64); 3] =
    [(10, 4.0, 303.1), (50, 20.0, 412.2), (100, rig::TABLE_2_DRAM_GB, 445.9)];
/// Requests by GETs of the KV Cache: GET:SET is 4:1.
const REQUESTS_PER_GET: f64 = 1.25;
/// The published configuration of CacheBench (`nvmAdmissionRetentionTimeThreshold`) writes an object to flash if it was
/// asked for in this number of seconds before it left DRAM.
const RETENTION_S: f64 = 7200.0;

/// How far equal hit ratios may be apart. In Table 2 those with and without placement differ by up to 5 % where the
/// cache does the same.
const SAME_HITS: f64 = 0.055;

pub(super) static DRAM_TRADEOFF: Experiment = Experiment {
    name: "dram-tradeoff",
    title: "hit ratios and DLWA with less DRAM",
    reproduces: "FDP paper (EuroSys'25), Table 2: KV Cache, 100 % utilisation, SOC 4 %",
    criterion: "the hit ratio of flash rises as DRAM falls; hit ratios of all tiers with half and a tenth of \
                the DRAM within 5.5 % of Table 2's and of flash within 15 % at each size, with and without \
                placement, which differ by at most 5.5 % of it; on 1 to 1.05 at each size; off at 100 % \
                within 15 % of Table 2's. The workload's number of keys is fitted to the hit ratio with all \
                of the DRAM, which is not judged",
    parameters: &[
        rig::REQUESTS,
        rig::TABLE_2_FLASH,
        Parameter {
            name: "admission",
            default: "all",
            help: "which objects that leave DRAM are written to flash, as `larder replay --admission`; the \
                   published configuration's rule admits all of them: see dram_age_s",
        },
    ],
    metrics: &[
        DLWA_ON,
        DLWA_OFF,
        (
            "hit.*",
            "hit ratio of GETs over the whole run, by DRAM in percent of the usual: 10, 50, 100 are \
             Table 2's 4, 20 and 42 GB",
        ),
        ("flash_hit.*", "GETs that flash answered, of those that DRAM could not"),
        ("hit_off.*", "the same as hit, without placement"),
        ("flash_hit_off.*", "the same as flash_hit, without placement"),
        (
            "dram_age_s.*",
            "seconds in which as much goes from DRAM to flash as DRAM holds, at the sizes and GETs a second \
             of Table 2",
        ),
        SOC_SHARE,
        DRIVE_WRITES,
        LOC_WRAPS,
        DRIFT,
    ],
    references: &[
        Reference::published("hit.10", 0.863, "Table 2, FDP 4 GB"),
        Reference::published("hit.50", 0.919, "Table 2, FDP 20 GB"),
        Reference::fitted(
            "hit.100",
            0.9032,
            "Table 2, FDP 42 GB; the workload's keys are fitted to it",
        ),
        Reference::published("flash_hit.10", 0.3774, "Table 2, FDP 4 GB"),
        Reference::published("flash_hit.50", 0.3137, "Table 2, FDP 20 GB"),
        Reference::published("flash_hit.100", 0.1751, "Table 2, FDP 42 GB"),
        Reference::published("hit_off.10", 0.8611, "Table 2, Non-FDP 4 GB"),
        Reference::published("hit_off.50", 0.921, "Table 2, Non-FDP 20 GB"),
        Reference::fitted(
            "hit_off.100",
            0.9022,
            "Table 2, Non-FDP 42 GB; as hit.100, for the cache does the same",
        ),
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
    let admission = settings.text("admission");
    let admission: AdmissionPolicy = admission
        .parse()
        .map_err(|wrong: String| settings.refuse("admission", admission, &wrong))?;
    let mut metrics = Metrics::new();
    for (percent, dram_gb, kget_per_s) in POINTS {
        let options = rig::table_2(settings, seed, dram_gb)?;
        let options = ReplayOptions { admission, ..options };
        let point = percent.to_string();
        let [(_, on), (_, off)] = rig::note_both(&options, monitor, &mut metrics, &point)?;
        for (arm, run) in [("", &on), ("_off", &off)] {
            for tenant in &run.tenants {
                metrics.insert(format!("hit{arm}.{point}"), tenant.run.hit_ratio);
                metrics.insert(format!("flash_hit{arm}.{point}"), tenant.run.flash_hit_ratio);
            }
        }
        for tenant in &on.tenants {
            let per_s = kget_per_s * 1000.0 * REQUESTS_PER_GET;
            let age_s = dram_gb * 1e9 / (demoted_bytes_per_request(&tenant.run) * per_s);
            metrics.insert(format!("dram_age_s.{point}"), age_s);
        }
    }
    Ok(metrics)
}

/// Bytes of keys and values that a request moves from DRAM to flash.
#[allow(clippy::cast_precision_loss)]
fn demoted_bytes_per_request(run: &Run) -> f64 {
    let measured = (run.requests - run.warmup_requests) as f64;
    run.host_bytes as f64 / run.alwa.unwrap_or(f64::NAN) / measured
}

fn judge(summary: &Summary) -> Judgement {
    let flash = POINTS.map(|(percent, ..)| summary.mean(&format!("flash_hit.{percent}")));
    let on = POINTS.map(|(percent, ..)| summary.get(&format!("dlwa.on.{percent}")));
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
        for (percent, ..) in POINTS {
            for metric in [format!("{ratio}.{percent}"), format!("{ratio}_off.{percent}")] {
                if judge::is_judged(paper, &metric) {
                    checks = checks.near(&metric, summary.mean(&metric), paper, &metric, tolerance);
                }
            }
            let metric = format!("{ratio}.{percent}");
            let without = summary.mean(&format!("{ratio}_off.{percent}"));
            let apart = (without / summary.mean(&metric) - 1.0).abs();
            checks = checks.shape(
                apart <= SAME_HITS,
                format!("{metric} is {:.2} % off it without placement", apart * 100.0),
            );
        }
    }
    let ages = POINTS.map(|(percent, ..)| summary.mean(&format!("dram_age_s.{percent}")));
    checks
        .note(format!(
            "the workload's keys are fitted to hit.100: {:.4}, published 0.9032",
            summary.mean("hit.100")
        ))
        .note(format!(
            "the published configuration rejects what was last asked for more than {RETENTION_S} s before it \
             leaves DRAM. There, DRAM is written to flash in {:.0}, {:.0} and {:.0} s with 4, 20 and 42 GB: \
             nothing is rejected",
            ages[0], ages[1], ages[2]
        ))
        .judge()
}
