//! The summary, the parameters, and the command line that repeats the run.

use serde_json::{Map, Value};

use super::figures::run_name;
use super::format;
use super::markup::Markup;
use crate::replay::outcome::Run;

/// Parameters about where results go. They do not affect the results.
const DESTINATIONS: [&str; 2] = ["json", "report"];

/// The command is wrapped at this column.
const COMMAND_COLUMNS: usize = 72;

/// The text of a cell, and its tooltip.
struct Entry {
    text: String,
    more: Option<String>,
}

impl From<String> for Entry {
    fn from(text: String) -> Self {
        Self { text, more: None }
    }
}

/// Label and entry of a row of the summary.
type Row = (&'static str, fn(&Run) -> Entry);

/// A group of rows: the part of the run over which they are measured, and the rows.
type Group = (&'static str, &'static [Row]);

/// The rows of the summary, in groups.
const GROUPS: [Group; 3] = [
    (
        "whole run",
        &[
            ("Requests", |run| format::thousands(run.requests).into()),
            ("Hit ratio, DRAM and flash", |run| ratio(run.gets, run.hit_ratio)),
            ("Hit ratio, DRAM", |run| ratio(run.gets, run.dram_hit_ratio)),
            ("Hit ratio, flash (of what DRAM missed)", |run| ratio(run.gets, run.flash_hit_ratio)),
            ("Requests per second of real time", |run| {
                format::decimal(run.requests_per_second, 0).into()
            }),
        ],
    ),
    (
        "after warm-up",
        &[
            ("DLWA: written to flash per byte of the host", |run| factor(run.dlwa)),
            ("ALWA: written by the host per byte admitted", |run| factor(run.alwa)),
        ],
    ),
    (
        "",
        &[
            ("Written by the host", |run| bytes(Some(run.host_bytes))),
            ("Written to flash", |run| bytes(run.media_bytes)),
            ("Copied by garbage collection", |run| bytes(run.copied_bytes)),
            ("Erased", |run| bytes(run.erased_bytes)),
        ],
    ),
];

/// The summary: one column for each run.
pub(super) fn summary(out: &mut Markup, runs: &[Run]) {
    out.tag("table", &[("class", &"summary")], |out| {
        out.tag("thead", &[], |out| {
            out.tag("tr", &[], |out| {
                out.leaf("th", &[("scope", &"col")], "");
                for run in runs {
                    out.leaf("th", &[("scope", &"col"), ("class", &"number")], &run_name(run));
                }
            });
        });
        for (part, rows) in GROUPS {
            out.tag("tbody", &[], |out| {
                if !part.is_empty() {
                    let columns = runs.len() + 1;
                    out.tag("tr", &[], |out| {
                        out.leaf("th", &[("class", &"part"), ("colspan", &columns)], part);
                    });
                }
                for (label, entry) in rows {
                    row(out, label, runs.iter().map(entry));
                }
            });
        }
    });
}

fn row(out: &mut Markup, label: &str, entries: impl Iterator<Item = Entry>) {
    out.tag("tr", &[], |out| {
        out.leaf("th", &[("scope", &"row")], label);
        for entry in entries {
            match entry.more {
                Some(more) => {
                    out.leaf("td", &[("class", &"number"), ("title", &more)], &entry.text);
                }
                None => out.leaf("td", &[("class", &"number")], &entry.text),
            }
        }
    });
}

fn ratio(gets: u64, ratio: f64) -> Entry {
    if gets == 0 { "no GETs".to_owned().into() } else { format::percent(ratio).into() }
}

fn factor(value: Option<f64>) -> Entry {
    value.map_or_else(|| format::ABSENT.to_owned(), format::factor).into()
}

fn bytes(count: Option<u64>) -> Entry {
    count.map_or_else(
        || format::ABSENT.to_owned().into(),
        |n| Entry { text: format::bytes(n), more: Some(format!("{} bytes", format::thousands(n))) },
    )
}

/// The question: the command, its parameters by name, its seed.
pub(super) type Asked<'a> = (&'a str, &'a Map<String, Value>, u64);

/// Instructions for making the same page again.
pub(super) fn reproduce(out: &mut Markup, lead: &str, asked: Asked<'_>) {
    out.leaf("p", &[("class", &"lead")], lead);
    out.tag("pre", &[], |out| out.leaf("code", &[], &command_line(asked)));
    parameters(out, asked);
}

/// The resolved parameters, and the seed.
fn parameters(out: &mut Markup, (_, parameters, seed): Asked<'_>) {
    out.tag("table", &[("class", &"parameters")], |out| {
        out.tag("tbody", &[], |out| {
            for (name, value) in parameters.iter().filter(|(name, _)| *name != "seed") {
                parameter(out, name, &shown(value));
            }
            parameter(out, "seed", &seed.to_string());
        });
    });
}

/// A row of a table of parameters.
pub(super) fn parameter(out: &mut Markup, name: &str, value: &str) {
    out.tag("tr", &[], |out| {
        out.leaf("th", &[("scope", &"row")], name);
        out.leaf("td", &[], value);
    });
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "not set".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Number(number) => {
            number.as_u64().map_or_else(|| number.to_string(), format::thousands)
        }
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(shown).collect::<Vec<_>>().join(", "),
        Value::Object(_) => value.to_string(),
    }
}

/// The command line that repeats the run. It includes every parameter, because defaults may change.
///
/// It is wrapped, with a backslash at the end of each line, so that it can be read and pasted.
fn command_line((command, parameters, seed): Asked<'_>) -> String {
    let mut words = vec![format!("larder {command}")];
    for (name, value) in parameters {
        if name != "seed" && !DESTINATIONS.contains(&name.as_str()) {
            words.extend(option(name, value));
        }
    }
    words.push(format!("--seed {seed}"));
    folded(&words)
}

/// A parameter as an option; `None` if leaving it out means the same.
fn option(name: &str, value: &Value) -> Option<String> {
    let option = quoted(&format!("--{}", name.replace('_', "-")));
    match value {
        Value::String(path) if name == "trace" => Some(quoted(path)), // the only positional argument
        Value::Null | Value::Bool(false) | Value::Object(_) => None,
        Value::Bool(true) => Some(option),
        Value::Array(values) if values.is_empty() => None,
        Value::Array(values) => {
            let joined = values.iter().map(plain).collect::<Vec<_>>().join(",");
            Some(format!("{option} {}", quoted(&joined)))
        }
        value => Some(format!("{option} {}", quoted(&plain(value)))),
    }
}

fn folded(words: &[String]) -> String {
    let mut text = String::new();
    let mut columns = 0;
    for word in words {
        if columns > 0 && columns + word.len() > COMMAND_COLUMNS {
            text += " \\\n ";
            columns = 1;
        }
        if columns > 0 {
            text.push(' ');
        }
        text += word;
        columns += word.len() + 1;
    }
    text
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// `word`, quoted for the shell.
pub(super) fn quoted(word: &str) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(harmless) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::report::tests::run;

    #[test]
    fn the_command_line_spells_everything_out() {
        let parameters = json!({
            "cache_bytes": 1024, "fifo": true, "lru": false, "trace": null,
            "name": "it's; rm -rf", "sizes": [1, 2], "report": "out", "seed": 42,
        });
        let asked = ("replay", parameters.as_object().unwrap(), 7);
        let line = command_line(asked).replace(" \\\n ", "");
        assert!(line.starts_with("larder replay "));
        assert!(line.ends_with(" --seed 7"));
        assert!(line.contains(" --cache-bytes 1024"));
        assert!(line.contains(" --fifo"));
        assert!(line.contains(" --name 'it'\\''s; rm -rf'"));
        assert!(line.contains(" --sizes 1,2"));
        for absent in ["lru", "trace", "report", "42"] {
            assert!(!line.contains(absent), "{absent} in {line}");
        }
    }

    #[test]
    fn long_commands_are_folded() {
        let words = vec!["larder replay".to_owned(), "x".repeat(70), "--seed 1".to_owned()];
        let long = "x".repeat(70);
        assert_eq!(folded(&words), format!("larder replay \\\n  {long} \\\n  --seed 1"));
        assert_eq!(folded(&words[..1]), "larder replay");
    }

    #[test]
    fn the_summary_says_what_is_not_known() {
        let mut out = Markup::default();
        summary(&mut out, &[run("off")]);
        let text = out.finish();
        assert!(text.contains("no GETs"));
        assert!(text.contains("not known"));
        assert!(text.contains("placement off"));
    }

    #[test]
    fn exact_bytes_are_under_the_pointer() {
        let mut run = run("on");
        run.host_bytes = 1 << 30;
        let mut out = Markup::default();
        summary(&mut out, &[run]);
        let text = out.finish();
        assert!(text.contains("title=\"1,073,741,824 bytes\">1.00\u{a0}GiB</td>"));
    }
}
