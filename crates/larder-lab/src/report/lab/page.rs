//! The layout of the page, and its tables.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::result::{LabResult, Range};
use super::{inferred, resolve, specs};
use crate::experiment;
use crate::report::figure::Figure;
use crate::report::markup::Markup;
use crate::report::page::{self, section};
use crate::report::{format, tables};

/// A series with more points than this is one row of the table, because the chart shows the points.
const ROWS_OF_SERIES_MAX: usize = 12;

/// Verdicts with a mark that does not depend on colour, and their meaning.
const VERDICTS: [(&str, &str, &str); 4] = [
    ("reproduced", "✓", "the criterion holds"),
    (
        "reproduced in shape",
        "≈",
        "direction and order are right, the numbers are not within the criterion",
    ),
    ("diverges", "✗", "neither, or a claim of the publication does not hold"),
    ("not judged", "?", "not measured, or on a drive that had not settled"),
];

/// The whole page.
pub(in crate::report) fn render(results: &[LabResult]) -> String {
    let title = "Larder lab";
    page::document(title, |out| {
        page::header(out, title, &finding(results), &notes());
        section(out, "Verdicts", |out| verdicts(out, results));
        for result in results {
            experiment_section(out, result);
        }
        section(out, "How to reproduce", |out| reproduce(out, results));
        page::terms(out);
    })
}

fn finding(results: &[LabResult]) -> String {
    let of = |verdict: &str| results.iter().filter(|result| result.verdict == verdict).count();
    match results {
        [one] => format!("{}: {}.", one.experiment, one.verdict),
        all if of("reproduced") == all.len() => {
            format!("All {} experiments reproduce what was published.", all.len())
        }
        all => {
            let counts = VERDICTS.iter().map(|(verdict, ..)| (of(verdict), verdict));
            let counts: Vec<String> = counts
                .filter(|(count, _)| *count > 0)
                .map(|(count, verdict)| format!("{count} {verdict}"))
                .collect();
            format!("Of {} experiments: {}.", all.len(), counts.join(", "))
        }
    }
}

fn notes() -> Vec<String> {
    let notes = [
        "Published figures, made again on the SSD model with the real cache, and held against \
         criteria that were fixed beforehand.",
        "“placement on” is with Flexible Data Placement, “placement off” without.",
    ];
    notes.map(str::to_owned).into()
}

/// The table of verdicts, one row for each experiment.
fn verdicts(out: &mut Markup, results: &[LabResult]) {
    out.tag("table", &[("class", &"verdicts")], |out| {
        head(out, &[("experiment", false), ("what it reproduces", false), ("verdict", false)]);
        out.tag("tbody", &[], |out| {
            for result in results {
                out.tag("tr", &[], |out| {
                    out.tag("th", &[("scope", &"row")], |out| {
                        let address = format!("#{}", anchor(result));
                        out.leaf("a", &[("href", &address)], &result.experiment);
                    });
                    out.leaf("td", &[], &result.reproduces);
                    out.tag("td", &[], |out| {
                        out.leaf("b", &[("class", &"verdict")], &marked(&result.verdict));
                        changed_mark(out, result);
                        if !result.reading.is_empty() {
                            out.text(&format!(" {}", result.reading));
                        }
                        out.tag("details", &[], |out| {
                            out.leaf("summary", &[], "why");
                            out.text(&result.reason);
                        });
                    });
                });
            }
        });
    });
    let meanings =
        VERDICTS.iter().map(|(verdict, mark, meaning)| format!("{mark} {verdict}: {meaning}"));
    let meanings = meanings.collect::<Vec<_>>().join("; ");
    out.leaf("p", &[("class", &"lead legend-line")], &format!("{meanings}."));
}

fn experiment_section(out: &mut Markup, result: &LabResult) {
    let attributes: [(&str, &dyn std::fmt::Display); 2] =
        [("class", &"experiment"), ("id", &anchor(result))];
    out.tag("section", &attributes, |out| {
        out.leaf("h2", &[], &format!("{}: {}", result.experiment, result.title));
        out.tag("p", &[("class", &"outcome")], |out| {
            out.leaf("b", &[("class", &"verdict")], &marked(&result.verdict));
            if !result.reading.is_empty() {
                out.text(&format!(": {}.", result.reading));
            }
        });
        out.tag("details", &[], |out| {
            out.leaf("summary", &[], "why");
            out.text(&format!("{}.", result.reason.trim_end_matches('.')));
        });
        changed_note(out, result);
        out.tag("dl", &[("class", &"facts")], |out| {
            let seeds: Vec<String> = result.seeds.iter().map(u64::to_string).collect();
            let facts = [
                ("reproduces", result.reproduces.clone()),
                ("criterion", result.criterion.clone()),
                ("parameters", parameters(result)),
                ("seeds", seeds.join(", ")),
            ];
            let clock = [
                ("by the clock of a machine", result.by_clock.join(", ")),
                ("machine", result.machine.join("; ")),
            ];
            let clock = clock.into_iter().filter(|(_, text)| !text.is_empty());
            for (name, text) in facts.into_iter().chain(clock) {
                out.leaf("dt", &[], name);
                out.leaf("dd", &[], &text);
            }
        });
        let figures = figures(result);
        if !figures.is_empty() {
            out.tag("div", &[("class", &"pair")], |out| {
                figures.iter().for_each(|figure| figure.draw(out));
            });
        }
        out.tag("details", &[("class", &"raw")], |out| {
            let count = result.metrics.len();
            out.leaf("summary", &[], &format!("what was measured: {count} metrics"));
            metrics(out, result);
        });
    });
}

/// A mark next to the verdict if parameters differ from their defaults.
fn changed_mark(out: &mut Markup, result: &LabResult) {
    if !result.changed.is_empty() {
        out.text(" ");
        out.leaf("span", &[("class", &"changed")], "other parameters");
    }
}

fn changed_note(out: &mut Markup, result: &LabResult) {
    if result.changed.is_empty() {
        return;
    }
    let each = result.changed.iter().map(|(name, default)| {
        let value = result.parameters.get(name).map_or("not known", String::as_str);
        format!("{name} = {value}, by default {default}")
    });
    let list = each.collect::<Vec<_>>().join("; ");
    out.tag("p", &[("class", &"changed-note")], |out| {
        out.leaf("b", &[], "Not with the parameters by default, for which the criterion is made");
        out.text(&format!(": {list}."));
    });
}

fn figures(result: &LabResult) -> Vec<Figure> {
    let specs = specs::of(&result.experiment);
    let described: Vec<Figure> =
        specs.iter().filter_map(|spec| resolve::resolve(spec, result)).collect();
    if described.is_empty() { inferred::figures(result) } else { described }
}

fn parameters(result: &LabResult) -> String {
    if result.parameters.is_empty() {
        return "none".to_owned();
    }
    let each = result.parameters.iter().map(|(name, value)| format!("{name} = {value}"));
    each.collect::<Vec<_>>().join(", ")
}

/// The table of what was measured and what it is compared with.
fn metrics(out: &mut Markup, result: &LabResult) {
    let meanings = Meanings::of(result);
    out.tag("table", &[("class", &"metrics")], |out| {
        let columns = [
            ("metric", false),
            ("min", true),
            ("mean", true),
            ("max", true),
            ("compared with", true),
            ("where, or what is measured", false),
        ];
        head(out, &columns);
        out.tag("tbody", &[], |out| {
            for (name, range, points) in rows(result) {
                let reference = result.references.get(&name);
                let compared = reference.map_or(String::new(), |it| format::significant(it.value));
                let remark = match (reference, points) {
                    (Some(it), _) => {
                        let mark = if it.judged { "" } else { ", not judged" };
                        format!("{}{mark}: {}", it.origin, it.source)
                    }
                    (None, 1) => meanings.of_metric(&name),
                    (None, points) => format!("{points} points; {}", meanings.of_metric(&name)),
                };
                out.tag("tr", &[], |out| {
                    out.leaf("th", &[("scope", &"row")], &name);
                    for value in [range.min, range.mean, range.max] {
                        let text = format::significant(value.unwrap_or(f64::NAN));
                        out.leaf("td", &[("class", &"number")], &text);
                    }
                    out.leaf("td", &[("class", &"number")], &compared);
                    out.leaf("td", &[("class", &"remark")], &remark);
                });
            }
        });
    });
}

/// The rows of the table: one for each metric, or one for a long series, with the number of its points.
fn rows(result: &LabResult) -> Vec<(String, Range, usize)> {
    let mut series: BTreeMap<&str, Vec<&Range>> = BTreeMap::new();
    for (name, range) in &result.metrics {
        series.entry(base(name)).or_default().push(range);
    }
    let mut metrics: Vec<(&String, &Range)> = result.metrics.iter().collect();
    metrics.sort_by(|(a, _), (b, _)| order(a).partial_cmp(&order(b)).unwrap_or(Ordering::Equal));
    let mut rows: Vec<(String, Range, usize)> = Vec::new();
    for (name, range) in metrics {
        let points = &series[base(name)];
        if points.len() <= ROWS_OF_SERIES_MAX {
            rows.push((name.clone(), *range, 1));
        } else if rows.last().is_none_or(|(last, ..)| *last != format!("{}.*", base(name))) {
            rows.push((format!("{}.*", base(name)), whole(points), points.len()));
        }
    }
    rows
}

/// The sort key: by series, then by number if there is one, so 50 comes before 100.
fn order(name: &str) -> (&str, f64, &str) {
    let (series, point) = inferred::split(name);
    (series, point.parse().unwrap_or(f64::INFINITY), name)
}

fn base(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(base, _)| base)
}

/// All points of a series combined.
fn whole(points: &[&Range]) -> Range {
    let known = |value: fn(&Range) -> Option<f64>| points.iter().filter_map(move |r| value(r));
    let means: Vec<f64> = known(|range| range.mean).collect();
    #[allow(clippy::cast_precision_loss)] // some points
    let mean = (!means.is_empty()).then(|| means.iter().sum::<f64>() / means.len() as f64);
    Range {
        min: known(|range| range.min).reduce(f64::min),
        mean,
        max: known(|range| range.max).reduce(f64::max),
    }
}

/// The meaning of metrics, if this version knows the experiment.
struct Meanings(&'static [(&'static str, &'static str)]);

impl Meanings {
    fn of(result: &LabResult) -> Self {
        Self(experiment::find(&result.experiment).map_or(&[], |experiment| experiment.metrics))
    }

    fn of_metric(&self, name: &str) -> String {
        let exact = self.0.iter().find(|(known, _)| *known == name);
        let series = || {
            let of_series = |known: &str| {
                known.strip_suffix('*').is_some_and(|prefix| name.starts_with(prefix))
            };
            self.0.iter().find(|(known, _)| of_series(known))
        };
        exact.or_else(series).map_or(String::new(), |(_, meaning)| (*meaning).to_owned())
    }
}

fn reproduce(out: &mut Markup, results: &[LabResult]) {
    let lead = "The same parameters and seeds give the same numbers on the same version, but for \
                what is measured per second.";
    out.leaf("p", &[("class", &"lead")], lead);
    let mut lines = String::new();
    for result in results {
        lines += &format!("larder lab run {} --seeds {}", result.experiment, result.seeds.len());
        match result.seeds.first() {
            None | Some(1) => {}
            Some(first) => lines += &format!(" --first-seed {first}"),
        }
        for (name, value) in &result.parameters {
            let assignment = format!("{name}={value}");
            lines += &format!(" --set {}", tables::quoted(&assignment));
        }
        lines.push('\n');
    }
    out.tag("pre", &[], |out| out.leaf("code", &[], lines.trim_end()));
}

fn head(out: &mut Markup, columns: &[(&str, bool)]) {
    out.tag("thead", &[], |out| {
        out.tag("tr", &[], |out| {
            for (name, number) in columns {
                let class = if *number { "number" } else { "" };
                out.leaf("th", &[("scope", &"col"), ("class", &class)], name);
            }
        });
    });
}

/// The verdict with its mark.
fn marked(verdict: &str) -> String {
    let known = VERDICTS.iter().find(|(name, ..)| *name == verdict);
    known.map_or_else(|| verdict.to_owned(), |(name, mark, _)| format!("{mark} {name}"))
}

/// An anchor for the section. It is valid in a URL whatever the experiment's name.
fn anchor(result: &LabResult) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' };
    format!("experiment-{}", result.experiment.chars().map(plain).collect::<String>())
}
