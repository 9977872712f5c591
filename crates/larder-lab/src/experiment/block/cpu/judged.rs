//! The criterion for reproducing table 1: byte counts must match exactly; of the times, only what holds on any machine.

use super::super::counted::LINE_KIB;
use super::BLOCK_CPU;
use crate::experiment::judge::Checks;
use crate::experiment::measured::{highest, lowest};
use crate::experiment::{Judgement, Spread, Summary};

const PLACES: [&str; 2] = ["files", "memory"];
/// Largest accepted share of the logic in the processor time on files.
const LOGIC_MAX: f64 = 0.2;
/// Factor for footers and segment starts, in addition to the header blocks.
const FOOTERS: f64 = 1.012;

pub(super) fn judge(summary: &Summary) -> Judgement {
    let mut checks = Checks::default();
    for place in PLACES {
        let costs = Cost::all(summary, place);
        for layout in ["log", "ocf22", "ocf26"] {
            let costs: Vec<_> = costs.iter().filter(|cost| cost.layout == layout).collect();
            checks = match layout {
                "log" => {
                    let block_bytes = summary.max(&format!("block_bytes.{place}"));
                    bytes_of_log(checks, place, &costs, block_bytes)
                }
                _ => bytes_of_lines(checks, (place, layout), &costs),
            };
            checks = together(checks, (place, layout), &costs);
        }
        let to_core = highest(all_of(summary, &format!("kw.{place}."), ".").map(|seen| seen.max));
        checks =
            checks.exact(to_core == 0.0, format!("{place}: {to_core:.3} of them reach the core"));
    }
    times(checks, summary).judge()
}

/// A metric `cw`: its place in the table, and the bytes written to the cache device for each byte that users wrote.
struct Cost<'a> {
    pass: &'a str,
    layout: &'a str,
    kib: u32,
    depth: u32,
    bytes: Spread,
}

impl<'a> Cost<'a> {
    fn all(summary: &'a Summary, place: &str) -> Vec<Self> {
        let prefix = format!("cw.{place}.");
        let parsed = |(name, bytes): (&'a str, &Spread)| {
            let mut parts = name.strip_prefix(&prefix)?.split('.');
            let (pass, layout) = (parts.next()?, parts.next()?);
            let (kib, depth) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            Some(Self { pass, layout, kib, depth, bytes: *bytes })
        };
        summary.iter().filter_map(parsed).collect()
    }
}

fn bytes_of_lines(
    mut checks: Checks,
    (place, layout): (&str, &str),
    costs: &[&Cost<'_>],
) -> Checks {
    let first = |kib: u32| {
        let first = costs.iter().find(|it| (it.pass, it.kib, it.depth) == ("first", kib, 1));
        first.map_or(f64::NAN, |cost| cost.bytes.mean)
    };
    for kib in LINE_KIB {
        let metric = format!("cw.files.first.{layout}.{kib}.1");
        let what = format!("{place}, {layout}, lines of {kib} KiB");
        checks = checks.near(&what, first(kib), BLOCK_CPU.references, &metric, 0.02);
    }
    let again = costs.iter().filter(|cost| cost.pass == "second").map(|cost| cost.bytes);
    let again = highest(again.flat_map(|seen| [seen.min, seen.max]).map(|it| (it - 1.0).abs()));
    checks.exact(again < 1e-9, format!("{place}, {layout}: once when it is written again"))
}

fn bytes_of_log(checks: Checks, place: &str, costs: &[&Cost<'_>], block_bytes: f64) -> Checks {
    let limit = |kib: u32| (1.0 + block_bytes / f64::from(kib << 10)) * FOOTERS;
    let most = LINE_KIB.map(|kib| {
        let of_line = costs.iter().filter(|cost| (cost.kib, cost.depth) == (kib, 1));
        highest(of_line.map(|cost| cost.bytes.max))
    });
    checks.exact(
        LINE_KIB.iter().zip(most).all(|(kib, most)| most <= limit(*kib)),
        format!(
            "{place}, log: {:.3}, {:.3} and {:.3} times at most, in blocks of {block_bytes:.0} bytes",
            most[0], most[1], most[2]
        ),
    )
}

/// Compares each depth with depth 1 of the same configuration: concurrent requests may share a header or a page.
fn together(checks: Checks, (place, layout): (&str, &str), costs: &[&Cost<'_>]) -> Checks {
    let alone = |of: &Cost<'_>| {
        let same = costs.iter().find(|it| (it.pass, it.kib, it.depth) == (of.pass, of.kib, 1));
        same.map_or(f64::NAN, |cost| cost.bytes.max)
    };
    let mut more = costs.iter().filter(|cost| cost.depth > 1);
    checks.exact(
        more.all(|cost| cost.bytes.max <= alone(cost) + 1e-9),
        format!("{place}, {layout}: with 32 under way no more than one at a time"),
    )
}

fn times(checks: Checks, summary: &Summary) -> Checks {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let of_cpu = |layout: &str| {
        let part = format!(".{layout}.");
        let those = all_of(summary, "logic_of_cpu.files.", &part);
        those.map(|seen| seen.mean).collect::<Vec<_>>()
    };
    let log = highest(of_cpu("log"));
    let loss = |layout: &str| summary.mean(&format!("loss.files.{layout}.4.1"));
    let (of_lines, of_log) = (loss("ocf22"), loss("log"));
    let of_time = |place: &str, pass: &str| {
        percent(summary.mean(&format!("logic_of_time.{place}.{pass}.ocf22.4")))
    };
    let [least, most] = [lowest(of_cpu("ocf22")), highest(of_cpu("ocf22"))].map(percent);
    checks
        .shape(
            log <= LOGIC_MAX,
            format!("files: the log's logic is {} of the processor's time, at most", percent(log)),
        )
        .shape(
            of_lines > 0.0,
            format!("files: Open CAS 22 loses {} by the first access", percent(of_lines)),
        )
        .shape(of_log < of_lines, format!("files: the log {}", percent(of_log)))
        .note(format!(
            "the study has 45 and 38 % of the time of an access in the processor and the cache's logic; that logic \
             alone is, of Open CAS 22 in lines of 4 KiB, {} and {} here on files, {} and {} in memory, and {least} to \
             {most} of the processor's time on files",
            of_time("files", "first"),
            of_time("files", "second"),
            of_time("memory", "first"),
            of_time("memory", "second"),
        ))
}

/// The spreads of all metrics that begin with `prefix` and contain `part` after it.
fn all_of<'a>(
    summary: &'a Summary,
    prefix: &'a str,
    part: &'a str,
) -> impl Iterator<Item = &'a Spread> {
    let those = summary
        .iter()
        .filter(move |(name, _)| name.strip_prefix(prefix).is_some_and(|rest| rest.contains(part)));
    those.map(|(_, seen)| seen)
}
