//! Tables for people, CSV and JSON for programs.

use std::fmt::Write;

use larder_workload::Spread;
use serde_json::json;

use crate::run::Outcome;
use crate::summary::Row;
use crate::system::System;
use crate::workload::Scale;

/// A column: its name, and the function that reads it from a run.
type Column = (&'static str, fn(&Outcome) -> Option<f64>);

const COLUMNS: [Column; 8] = [
    ("ops_per_second", |o| Some(o.ops_per_second)),
    ("cpu_us_per_op", |o| Some(o.cpu_us_per_op)),
    ("hit_ratio", |o| Some(o.hit_ratio)),
    ("p50_get_us", |o| Some(o.p50_get_us)),
    ("p99_get_us", |o| Some(o.p99_get_us)),
    ("p99_set_us", |o| Some(o.p99_set_us)),
    ("bytes_written_per_byte_set", |o| o.bytes_written_per_byte_set),
    ("peak_rss_bytes", |o| Some(o.peak_rss_bytes)),
];

/// Additional columns that may explain a row, without a spread.
const NOTES: [Column; 2] =
    [("dram_bytes", |o| Some(o.dram_bytes)), ("load_average", |o| Some(o.load_average))];

/// Rows of one workload, as a Markdown table.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| workload | system | clients | ops/s (least-most) | CPU us/op (least-most) | hit ratio \
         | p50 get us | p99 get us | p99 set us | written/set | peak RSS MiB |\n\
         |---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for row in rows {
        let [ops, cpu, hits, p50, p99, p99_set, written, rss] =
            COLUMNS.map(|(_, take)| row.spread(take));
        let cells = [
            spread(ops, |n| format!("{n:.0}")),
            spread(cpu, |n| format!("{n:.3}")),
            median(hits, |n| format!("{n:.4}")),
            median(p50, |n| format!("{n:.2}")),
            median(p99, |n| format!("{n:.2}")),
            median(p99_set, |n| format!("{n:.2}")),
            median(written, |n| format!("{n:.2}")),
            median(rss, |n| format!("{:.0}", n / f64::from(1 << 20))),
        ];
        let (system, clients) = (row.system.name(), row.clients);
        let _ =
            writeln!(text, "| {} | {system} | {clients} | {} |", row.workload, cells.join(" | "));
    }
    text
}

fn spread(spread: Option<Spread>, shown: impl Fn(f64) -> String) -> String {
    spread.map_or_else(String::new, |s| {
        format!("{} ({}-{})", shown(s.median), shown(s.min), shown(s.max))
    })
}

fn median(spread: Option<Spread>, shown: impl Fn(f64) -> String) -> String {
    spread.map_or_else(String::new, |s| shown(s.median))
}

/// Larder compared with each peer: medians of ratios of runs in the same round.
pub(crate) fn comparisons(rows: &[Row]) -> String {
    let mut text = String::new();
    let is_larder = |row: &&Row| row.system.is_larder();
    let is_peer = |row: &Row| !row.system.is_larder() && row.system != System::Harness;
    for mine in rows.iter().filter(is_larder) {
        let same = |row: &Row| row.workload == mine.workload && row.clients == mine.clients;
        for peer in rows.iter().filter(|row| same(row) && is_peer(row)) {
            let ratio = |number: fn(&Outcome) -> f64| {
                mine.ratio(peer, number).map_or_else(|| "?".to_owned(), |r| format!("{r:.2}"))
            };
            let _ = writeln!(
                text,
                "{}, {} clients: {} has {} x the ops/s of {}, {} x its CPU an op, {} x its p99 of get, {} of set",
                mine.workload,
                mine.clients,
                mine.system.name(),
                ratio(|o| o.ops_per_second),
                peer.system.name(),
                ratio(|o| o.cpu_us_per_op),
                ratio(|o| o.p99_get_us),
                ratio(|o| o.p99_set_us),
            );
        }
    }
    text
}

/// All rows as CSV, below comments about the machine.
pub(crate) fn csv(machine: &[String], scale: Scale, rows: &[Row]) -> String {
    let mut text = String::new();
    for line in machine {
        let _ = writeln!(text, "# {line}");
    }
    let _ =
        writeln!(text, "# scale: {}; bytes written are write_bytes of /proc/self/io", scale.name());
    let mut names = "workload,system,clients".to_owned();
    for (name, _) in COLUMNS {
        let _ = write!(names, ",{name}");
    }
    for (name, _) in COLUMNS {
        let _ = write!(names, ",{name}_min,{name}_max");
    }
    for (name, _) in NOTES {
        let _ = write!(names, ",{name}");
    }
    let _ = writeln!(text, "{names},rounds");
    for row in rows {
        let _ = write!(text, "{},{},{}", row.workload, row.system.name(), row.clients);
        for (_, take) in COLUMNS {
            let _ = write!(text, ",{}", median(row.spread(take), plain));
        }
        for (_, take) in COLUMNS {
            let ends = row.spread(take).map(|s| (plain(s.min), plain(s.max))).unwrap_or_default();
            let _ = write!(text, ",{},{}", ends.0, ends.1);
        }
        for (_, take) in NOTES {
            let _ = write!(text, ",{}", median(row.spread(take), plain));
        }
        let _ = writeln!(text, ",{}", row.rounds.len());
    }
    text
}

/// A number with its significant digits.
fn plain(number: f64) -> String {
    match number.abs() {
        large if large >= 1000.0 => format!("{number:.0}"),
        _ => format!("{number:.4}"),
    }
}

/// All rows with every run, as JSON.
pub(crate) fn json(machine: &[String], scale: Scale, rows: &[Row]) -> String {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let mut object = json!({
                "workload": row.workload,
                "system": row.system.name(),
                "clients": row.clients,
                "rounds": row.rounds.iter().map(Outcome::to_json).collect::<Vec<_>>(),
            });
            for (name, take) in COLUMNS {
                let spread = row.spread(take);
                object[name] = json!(spread.map(|s| s.median));
                object[format!("{name}_min")] = json!(spread.map(|s| s.min));
                object[format!("{name}_max")] = json!(spread.map(|s| s.max));
            }
            object
        })
        .collect();
    let all = json!({ "machine": machine, "scale": scale.name(), "rows": rows });
    format!("{all:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::tests::row;

    #[test]
    fn every_form_holds_every_row() {
        let rows = [row(System::Larder, &[4e6, 2e6, 3e6]), row(System::Foyer, &[1e6, 1e6, 1e6])];
        let text = table(&rows);
        assert!(text.contains("| dram | larder | 2 | 3000000 (2000000-4000000) | 0.250"), "{text}");
        assert!(comparisons(&rows).contains("larder has 3.00 x the ops/s of foyer"));

        let csv = csv(&["cpu: x".to_owned()], Scale::Quick, &rows);
        let lines: Vec<&str> = csv.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(lines.len(), 3);
        let wide = |line: &&str| line.split(',').count();
        assert!(lines.iter().all(|line| wide(line) == wide(&lines[0])), "{csv}");

        let json: serde_json::Value =
            serde_json::from_str(&json(&[], Scale::Quick, &rows)).unwrap();
        assert_eq!(json["rows"][1]["rounds"].as_array().unwrap().len(), 3);
        assert_eq!(json["rows"][0]["ops_per_second"], 3e6);
    }
}
