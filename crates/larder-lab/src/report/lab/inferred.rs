//! Charts of experiments without a chart description, inferred from the names of their metrics.
//!
//! `dlwa.on.4` is the point 4 of the series `dlwa.on`. Series that differ only in `on` and `off` are drawn together.
//! Metrics about the steadiness of a run are only shown in the table.

use std::collections::BTreeMap;

use super::resolve::resolve;
use super::result::LabResult;
use super::spec::{Places, Spec};
use crate::report::figure::{CLASSES, Figure};

/// Series about the run itself, not about its results.
const ASIDE: [&str; 5] =
    ["drive_writes_before", "loc_wraps_before", "soc_share", "fallen_back", "shared"];
/// Largest number of inferred charts.
const CHARTS_MAX: usize = 4;

/// The charts that the metrics of `result` suggest.
pub(super) fn figures(result: &LabResult) -> Vec<Figure> {
    let mut charts: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    for metric in result.metrics.keys() {
        let (series, point) = split(metric);
        if point.is_empty() || ASIDE.contains(&series) {
            continue;
        }
        *charts.entry(chart_of(series)).or_default().entry(series.to_owned()).or_default() += 1;
    }
    let several = charts
        .iter()
        .filter(|(_, series)| series.len() > 1 || series.values().any(|&points| points > 1));
    several.take(CHARTS_MAX).filter_map(|(chart, series)| figure(result, chart, series)).collect()
}

fn figure(result: &LabResult, chart: &str, series: &BTreeMap<String, usize>) -> Option<Figure> {
    let mut names: Vec<&String> = series.keys().collect();
    names.truncate(CLASSES.len());
    // "on" before "off", as everywhere in the report.
    names.sort_by_key(|name| (name.split('.').any(|part| part == "off"), *name));
    let patterns: Vec<String> = names.iter().map(|name| format!("{name}.*")).collect();
    let labels: Vec<String> = names.iter().map(|name| label(name)).collect();
    let series: Vec<(&str, &str)> =
        patterns.iter().map(String::as_str).zip(labels.iter().map(String::as_str)).collect();
    let (y, base) = unit(chart);
    let numbers = result.metrics.keys().all(|metric| {
        let (of, point) = split(metric);
        !names.iter().any(|name| *name == of) || point.parse::<f64>().is_ok()
    });
    let places = if numbers { Places::Numbers } else { Places::Names(str::to_owned) };
    let spec =
        Spec { title: chart, x: "point of the series", y: &y, series: &series, places, base };
    resolve(&spec, result)
}

/// Splits a metric into series and point: the point is the longest number at its end, or its last word.
pub(super) fn split(metric: &str) -> (&str, &str) {
    let dots = || metric.match_indices('.').map(|(at, _)| at);
    let number = dots().find(|at| metric[at + 1..].parse::<f64>().is_ok_and(f64::is_finite));
    match number.or_else(|| dots().next_back()) {
        Some(at) => (&metric[..at], &metric[at + 1..]),
        None => (metric, ""),
    }
}

/// The name of a series' chart: its name without "on" and "off".
fn chart_of(series: &str) -> String {
    let parts: Vec<&str> = series.split('.').filter(|part| !["on", "off"].contains(part)).collect();
    if parts.is_empty() { series.to_owned() } else { parts.join(".") }
}

fn label(series: &str) -> String {
    match series.split('.').find(|part| ["on", "off"].contains(part)) {
        Some(placement) => format!("placement {placement}"),
        None => series.to_owned(),
    }
}

/// The title of the axis, and its lower end.
fn unit(chart: &str) -> (String, f64) {
    match chart {
        "dlwa" => ("DLWA (media bytes per host byte)".to_owned(), 1.0),
        _ if chart.ends_with("_us") => (format!("{chart} (us)"), 0.0),
        _ if chart.ends_with("_kg") => (format!("{chart} (kg)"), 0.0),
        _ if chart.contains("ratio") => (format!("{chart} (times)"), 0.0),
        _ => (format!("{chart} (unit: see the table)"), 0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_series_and_points() {
        assert_eq!(split("dlwa.on.4"), ("dlwa.on", "4"));
        assert_eq!(split("read_us.on.99.9"), ("read_us.on", "99.9"));
        assert_eq!(split("dlwa.on.noisy"), ("dlwa.on", "noisy"));
        assert_eq!(split("wa"), ("wa", ""));
        assert_eq!(split("x.inf"), ("x", "inf"));
        assert_eq!(chart_of("dlwa.on"), "dlwa");
        assert_eq!(chart_of("on"), "on");
    }
}
