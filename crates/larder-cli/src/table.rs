//! A result as a table for people: one column for each run.

use indicatif::{HumanBytes, HumanCount};
use larder_lab::replay::{Outcome, Run, ShardRun};

/// Shows the runs side by side. Rows without a value in any run are left out.
pub(crate) fn render(outcome: &Outcome) -> String {
    let mut text = format!("{:24}", "placement");
    outcome.runs.iter().for_each(|run| text += &format!("{:>16}", run.placement));
    text.push('\n');
    for (name, cell) in ROWS {
        let cells: Vec<_> = outcome.runs.iter().map(cell).collect();
        if cells.iter().all(Option::is_none) {
            continue;
        }
        text += &format!("{name:24}");
        cells.iter().for_each(|cell| text += &format!("{:>16}", cell.as_deref().unwrap_or("-")));
        text.push('\n');
    }
    text
}

/// `None` if a run has no such value.
type Cell = fn(&Run) -> Option<String>;

const ROWS: [(&str, Cell); 28] = [
    ("requests", |run| Some(count(run.requests))),
    ("hit ratio", |run| Some(percent(run.hit_ratio))),
    ("  DRAM", |run| Some(percent(run.dram_hit_ratio))),
    ("  flash, of DRAM misses", |run| Some(percent(run.flash_hit_ratio))),
    ("  least of a shard", |run| ranked(run, 0, |it| it.hit_ratio).map(percent)),
    ("  most", |run| ranked(run, 2, |it| it.hit_ratio).map(percent)),
    ("DLWA", |run| Some(factor(run.dlwa))),
    ("  least of a shard", |run| ranked(run, 0, |it| it.dlwa).map(|it| factor(Some(it)))),
    ("  median", |run| ranked(run, 1, |it| it.dlwa).map(|it| factor(Some(it)))),
    ("  most", |run| ranked(run, 2, |it| it.dlwa).map(|it| factor(Some(it)))),
    ("ALWA", |run| Some(factor(run.alwa))),
    ("host bytes written", |run| Some(bytes(Some(run.host_bytes)))),
    ("  by the SOC", |run| Some(share(run.soc_bytes, run.host_bytes))),
    ("  by the LOC", |run| Some(share(run.loc_bytes, run.host_bytes))),
    ("  by the array", |run| run.array_memory.map(|_| share(run.array_bytes, run.host_bytes))),
    ("    for its index", |run| {
        run.array.map(|array| share(array.index_written_bytes, run.host_bytes))
    }),
    ("media bytes written", |run| Some(bytes(run.media_bytes))),
    ("  copied by the drive", |run| Some(bytes(run.copied_bytes))),
    ("media bytes erased", |run| Some(bytes(run.erased_bytes))),
    ("array, reads of records", |run| run.array.map(|array| count(array.record_reads))),
    ("  of tables", |run| run.array.map(|array| count(array.table_reads))),
    ("drive writes before", |run| Some(format!("{:.1}", run.drive_writes_before))),
    ("admitted to flash", |run| Some(count(run.admitted_objects))),
    ("  turned away", |run| {
        Some(share(run.rejected_objects, run.admitted_objects + run.rejected_objects))
    }),
    ("refused objects", |run| Some(count(run.refused_objects))),
    ("shards", |run| (!run.shards.is_empty()).then(|| count(run.shards.len() as u64))),
    ("requests/s", |run| Some(rate(run.requests_per_second))),
    ("complete", |run| Some(if run.interrupted { "interrupted" } else { "yes" }.to_owned())),
];

/// The smallest value of a shard (`halves` 0), the median (1), or the largest (2). `None` without shards.
fn ranked(run: &Run, halves: usize, value: fn(&ShardRun) -> Option<f64>) -> Option<f64> {
    let mut values: Vec<f64> = run.shards.iter().filter_map(value).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) * halves / 2).copied()
}

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
