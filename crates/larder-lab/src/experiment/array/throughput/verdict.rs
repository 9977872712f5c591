//! What the paper's numbers and the project's own bounds say of the results.

use super::{ARRAY_THROUGHPUT, OURS};
use crate::experiment::judge::{Checks, published};
use crate::experiment::measured::{highest, lowest};
use crate::experiment::{Judgement, Summary};

/// The artifact's script: a hot fifth, half of the operations SETs, one drive, 3 % filled.
const SCRIPT: &str = "udepot-cache.hotspot.3.1";
/// A number is as published if it is between two thirds and 1.5 times of it.
const TIMES: f64 = 1.5;
/// Least throughput of the engine by that of its rule.
const OF_RULE: f64 = 0.9;
/// The same drive filled.
const FULL: &str = "85.1";

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// The mean of every metric with this prefix and end.
fn all(summary: &Summary, prefix: &str, end: &str) -> Vec<f64> {
    let of = summary.iter().filter(|(name, _)| name.starts_with(prefix) && name.ends_with(end));
    of.map(|(_, it)| it.mean).collect()
}

pub(super) fn judge(summary: &Summary) -> Judgement {
    let mut checks = script(Checks::default(), summary);
    let kept = lowest(all(summary, "of_entries.", ""));
    checks = checks.exact(
        kept >= OF_RULE,
        format!("the engine has at least {} of its rule's throughput", percent(kept)),
    );
    for ours in OURS {
        let name = if ours == "engine" { "the engine" } else { "its rule" };
        let gains = |base: &str| {
            let prefix = format!("throughput_gain.{ours}.{base}.");
            lowest(all(summary, &prefix, &format!(".{FULL}")))
        };
        let (udepot, slick) = (gains("udepot-cache"), gains("slickcache"));
        checks = checks.shape(
            udepot >= 1.0 && slick >= 1.0,
            format!(
                "{name}: on a full drive at least {udepot:.2} times uDepot-Cache's throughput, {slick:.2} SlickCache's"
            ),
        );
    }
    full(checks, summary).judge()
}

/// The paper's three numbers at the set-up of its artifact.
fn script(mut checks: Checks, summary: &Summary) -> Checks {
    let what = |metric: &str| match metric {
        "throughput_gain" => ("throughput", false),
        "get_mean_cut" => ("mean time of GETs", true),
        _ => ("their p99", true),
    };
    for metric in ["throughput_gain", "get_mean_cut", "get_p99_cut"] {
        let (what, is_cut) = what(metric);
        let name = format!("{metric}.engine.{SCRIPT}");
        let (ours, paper) = (summary.mean(&name), published(ARRAY_THROUGHPUT.references, &name));
        // What is left of a time is compared, not what was cut off.
        let times = if is_cut { (1.0 - ours) / (1.0 - paper) } else { ours / paper };
        let said = if is_cut {
            format!("-{}, published -{}", percent(ours), percent(paper))
        } else {
            format!("{ours:.2} times, published {paper}")
        };
        checks = checks.within(
            [times; 2],
            TIMES,
            format!("the artifact's script, beside uDepot-Cache: {what} {said}"),
        );
    }
    let cut = |metric: &str| percent(summary.mean(&format!("{metric}.engine.{SCRIPT}")));
    checks.note(format!(
        "there the mean time of all operations is lower by {}, their p99 by {}; the rule as a model has {:.2} times \
         uDepot-Cache's throughput",
        cut("mean_cut"),
        cut("p99_cut"),
        summary.mean(&format!("throughput_gain.entries.{SCRIPT}"))
    ))
}

/// What the table of the full drive shows.
fn full(checks: Checks, summary: &Summary) -> Checks {
    let of = |metric: &str, index: &str| summary.mean(&format!("{metric}.{index}.hotspot.{FULL}"));
    let gain = |base: &str| of("throughput_gain.engine", base);
    let most = |base: &str| {
        highest(all(summary, &format!("throughput_gain.engine.{base}."), &format!(".{FULL}")))
    };
    checks
        .note(format!(
            "with 85 % filled both designs read their index from flash: by a hot fifth the engine has {:.2} times \
             uDepot-Cache's throughput, {:.2} times SlickCache's and {:.2} times that of uDepot with the whole table \
             in DRAM; at most {:.2}, {:.2} and {:.2} times",
            gain("udepot-cache"),
            gain("slickcache"),
            gain("udepot-opt"),
            most("udepot-cache"),
            most("slickcache"),
            most("udepot-opt")
        ))
        .note(average(summary, "3.1"))
        .note(average(summary, "85.1"))
}

/// The paper's averages are over workloads and caches, at a load that it does not state.
fn average(summary: &Summary, place: &str) -> String {
    let of = |metric: &str| summary.mean(&format!("{metric}.engine.average.{place}"));
    let filled = place.split('.').next().unwrap_or_default();
    format!(
        "mean over all workloads, beside uDepot-Cache and SlickCache, {filled} % filled: {:.2} times the throughput, \
         mean time of all operations {:+.0} %, p99 {:+.0} %",
        of("throughput_gain"),
        -100.0 * of("mean_cut"),
        -100.0 * of("p99_cut")
    )
}
