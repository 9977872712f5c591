//! A result as a table for people: one column a run.

use indicatif::{HumanBytes, HumanCount};
use larder_lab::replay::{Outcome, Run};

/// Lays the runs out side by side.
pub(crate) fn render(outcome: &Outcome) -> String {
    let mut text = format!("{:24}", "placement");
    outcome.runs.iter().for_each(|run| text += &format!("{:>16}", run.placement));
    text.push('\n');
    for (name, cell) in ROWS {
        text += &format!("{name:24}");
        outcome.runs.iter().for_each(|run| text += &format!("{:>16}", cell(run)));
        text.push('\n');
    }
    text
}

type Cell = fn(&Run) -> String;

const ROWS: [(&str, Cell); 19] = [
    ("requests", |run| count(run.requests)),
    ("hit ratio", |run| percent(run.hit_ratio)),
    ("  DRAM", |run| percent(run.dram_hit_ratio)),
    ("  flash, of DRAM misses", |run| percent(run.flash_hit_ratio)),
    ("DLWA", |run| factor(run.dlwa)),
    ("ALWA", |run| factor(run.alwa)),
    ("host bytes written", |run| bytes(Some(run.host_bytes))),
    ("  by the SOC", |run| share(run.soc_bytes, run.host_bytes)),
    ("  by the LOC", |run| share(run.loc_bytes, run.host_bytes)),
    ("  by the array", |run| share(run.array_bytes, run.host_bytes)),
    ("media bytes written", |run| bytes(run.media_bytes)),
    ("  copied by the drive", |run| bytes(run.copied_bytes)),
    ("media bytes erased", |run| bytes(run.erased_bytes)),
    ("drive writes before", |run| format!("{:.1}", run.drive_writes_before)),
    ("admitted to flash", |run| count(run.admitted_objects)),
    ("  turned away", |run| {
        share(run.rejected_objects, run.admitted_objects + run.rejected_objects)
    }),
    ("refused objects", |run| count(run.refused_objects)),
    ("requests/s", |run| rate(run.requests_per_second)),
    ("complete", |run| if run.interrupted { "interrupted" } else { "yes" }.to_owned()),
];

fn count(n: u64) -> String {
    HumanCount(n).to_string()
}

fn percent(share: f64) -> String {
    format!("{:.3} %", share * 100.0)
}

fn factor(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"))
}

fn bytes(n: Option<u64>) -> String {
    n.map_or_else(|| "-".to_owned(), |n| HumanBytes(n).to_string())
}

#[allow(clippy::cast_precision_loss)]
fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    format!("{:.1} %", part as f64 / whole as f64 * 100.0)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a positive number
fn rate(per_second: f64) -> String {
    count(per_second as u64)
}
