//! Writes of several lines: a write that finds too few clean lines goes around the cache.

use super::counted::{COUNTED_22, COUNTED_26, Counted, FILES, KINDS, LINES, files, lines, note};
use crate::Error;
use crate::experiment::judge::Checks;
use crate::experiment::measured::highest;
use crate::experiment::{Experiment, Judgement, Metrics, Parameter, Reference, Settings, Summary};
use crate::replay::Monitor;

const LONG_FILES: Parameter = Parameter { default: "50,75,100,125,150,200", ..FILES };
/// Room for a hundred writes of 128 lines.
const LONG_LINES: Parameter = Parameter { default: "16384", ..LINES };

const LINE_BYTES: u32 = 4096;
const WRITE_LINES: [u64; 2] = [4, 128];
/// Largest accepted difference of a share from the rule.
const OFF_RULE: f64 = 0.03;
/// Largest accepted difference from the published count, which varies by as much with the capacity.
const OFF_COUNTED: f64 = 0.04;

pub(in crate::experiment) static BLOCK_INVALIDATE: Experiment = Experiment {
    name: "block-invalidate",
    title: "writes of 4 and of 128 lines that go around a full block cache",
    reproduces: "HotStorage'23 study of Open CAS, figure 4, as shares and bytes: writes of several lines",
    criterion: "nothing goes around below the capacity; with 128 lines 0.8 (1 - CC/FS) of first writes and 0.8 to 1 \
                times (1 - CC/FS) of second ones, within 3 points; within 4 points of what was counted, which moves by \
                as much with the capacity",
    parameters: &[LONG_LINES, LONG_FILES],
    metrics: &[
        (
            "around.*",
            "share of writes that went around the cache: first or second pass, layout, lines of a write (4 KiB each), \
             percent that the file has of the cache",
        ),
        ("cw.*", "bytes written to the cache device by bytes that users wrote, by the same"),
        ("md.*", "of these: what only says where data are"),
        ("cr.*", "bytes read from the cache device, by the same"),
        ("kw.*", "bytes written to the core, by the same"),
    ],
    references: &[
        Reference::ours("around.first.ocf26.128.150", 0.271, COUNTED_26),
        Reference::ours("around.second.ocf26.128.150", 0.326, COUNTED_26),
        Reference::ours("around.second.ocf22.128.150", 0.333, COUNTED_22),
        Reference::ours("around.first.ocf26.128.125", 0.162, COUNTED_26),
        Reference::ours("around.second.ocf26.128.125", 0.169, COUNTED_26),
        Reference::ours("around.second.ocf22.128.125", 0.206, COUNTED_22),
        Reference::ours("around.second.ocf26.4.125", 0.111, COUNTED_26),
        Reference::ours("around.second.ocf22.4.125", 0.111, COUNTED_22),
    ],
    needs: &[
        "around.first.ocf26.128.150",
        "around.second.ocf26.4.125",
        "around.second.ocf22.128.150",
    ],
    measure,
    judge,
};

#[allow(clippy::cast_precision_loss)]
fn measure(settings: &Settings, _seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let cache_lines = lines(settings)?;
    let files = files(settings)?;
    let mut metrics = Metrics::new();
    for (layout, kind) in KINDS {
        for lines in WRITE_LINES {
            for percent in &files {
                let mut cache = Counted::new(kind, LINE_BYTES, cache_lines)?;
                let bytes = lines * u64::from(LINE_BYTES);
                let writes = cache.writes(*percent, bytes);
                for pass in ["first", "second"] {
                    let before = cache.writes_around();
                    let counts = cache.write(bytes, 0..writes, monitor)?;
                    let point = format!("{pass}.{layout}.{lines}.{percent}");
                    note(&mut metrics, &point, &counts);
                    let share = (cache.writes_around() - before) as f64 / counts.requests as f64;
                    metrics.insert(format!("around.{point}"), share);
                }
            }
        }
    }
    Ok(metrics)
}

fn judge(summary: &Summary) -> Judgement {
    let around = |point: String| summary.mean(&format!("around.{point}"));
    let mut checks = Checks::default();
    for value in BLOCK_INVALIDATE.references {
        let ours = summary.mean(value.metric);
        let text = format!("{}: {ours:.3}, published {}", value.metric, value.value);
        checks = checks.exact((ours - value.value).abs() <= OFF_COUNTED, text);
    }
    for version in ["ocf22", "ocf26"] {
        let below = WRITE_LINES.map(|lines| around(format!("second.{version}.{lines}.75")));
        checks =
            checks.shape(highest(below) == 0.0, format!("{version}: nothing below the capacity"));
        let mut off: Vec<f64> = Vec::new();
        for (percent, file) in [(125, 1.25), (150, 1.5), (200, 2.0)] {
            let beyond = 1.0 - 1.0 / file;
            let first = around(format!("first.{version}.128.{percent}"));
            let second = around(format!("second.{version}.128.{percent}"));
            off.push((first - 0.8 * beyond).abs());
            off.push((0.8 * beyond - second).max(second - beyond));
        }
        let worst = highest(off);
        checks = checks.exact(
            worst <= OFF_RULE,
            format!(
                "{version}: shares of 128 lines are off by {:.1} points at most",
                worst * 100.0
            ),
        );
    }
    checks.judge()
}
