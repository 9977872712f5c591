//! Turns the description of a chart and a result into a figure.

use super::result::{LabResult, Range};
use super::spec::{Places, Spec};
use crate::report::figure::{CLASSES, Figure, Kind, Point, Points, Series};

/// The figure of `spec`, or `None` if the result has no data for it.
pub(super) fn resolve(spec: &Spec, result: &LabResult) -> Option<Figure> {
    let found: Vec<(&str, Vec<(String, &str)>)> = spec
        .series
        .iter()
        .map(|(pattern, name)| (*name, matches(result, pattern, &spec.places)))
        .filter(|(_, found)| !found.is_empty())
        .collect();
    let all = || found.iter().flat_map(|(_, points)| points);
    let numbers: Option<Vec<f64>> = match spec.places {
        Places::Numbers => all().map(|(key, _)| number(key)).collect(),
        _ => None,
    };
    // A line needs at least two points.
    let lines = numbers.is_some_and(|numbers| numbers.windows(2).any(|pair| pair[0] != pair[1]));
    let keys = keys_in_order(&spec.places, all().map(|(key, _)| key.as_str()).collect());
    let place = |key: &str| -> Option<f64> {
        if lines {
            return number(key);
        }
        #[allow(clippy::cast_precision_loss)] // a few names
        keys.iter().position(|known| known == key).map(|index| index as f64 + 0.5)
    };
    let series: Vec<Series> = found
        .iter()
        .zip(CLASSES)
        .filter_map(|((name, found), class)| {
            let mut points: Vec<Point> = found
                .iter()
                .filter_map(|(key, metric)| point(result, metric, place(key)?))
                .collect();
            points.sort_by(|a, b| a.at.total_cmp(&b.at));
            let name = (*name).to_owned();
            (!points.is_empty()).then_some(Series { name, class, kind: Kind::Measured, points })
        })
        .collect();
    if series.is_empty() {
        return None;
    }
    let points = if lines { Points::Numbers } else { Points::Names(labels(&spec.places, &keys)) };
    Some(Figure {
        title: spec.title.to_owned(),
        x: spec.x.to_owned(),
        y: spec.y.to_owned(),
        points,
        series,
        level: None,
        base: spec.base,
        caption: String::new(),
    })
}

/// The metrics that match a pattern, each with the text that its star stands for.
fn matches<'a>(result: &'a LabResult, pattern: &str, places: &Places) -> Vec<(String, &'a str)> {
    let (before, after) = pattern.split_once('*').unwrap_or((pattern, ""));
    let of_pattern = |metric: &'a str| {
        let key = metric.strip_prefix(before)?.strip_suffix(after)?;
        let wanted = match places {
            Places::Numbers => number(key).is_some(),
            Places::Names(_) => !key.is_empty(),
            Places::Listed(list) => list.iter().any(|(known, _)| *known == key),
        };
        wanted.then(|| (key.to_owned(), metric))
    };
    result.metrics.keys().filter_map(|metric| of_pattern(metric)).collect()
}

fn point(result: &LabResult, metric: &str, at: f64) -> Option<Point> {
    let Range { min, mean, max } = result.metrics.get(metric)?;
    let value = (*mean)?;
    Some(Point {
        at,
        value,
        range: (min.unwrap_or(value), max.unwrap_or(value)),
        published: result
            .references
            .get(metric)
            .filter(|it| it.origin != "ours")
            .map(|it| it.value),
    })
}

fn number(key: &str) -> Option<f64> {
    key.parse().ok().filter(|number: &f64| number.is_finite())
}

/// The distinct keys that were found: in the listed order, by number, or by name.
fn keys_in_order(places: &Places, mut found: Vec<&str>) -> Vec<String> {
    match places {
        Places::Listed(list) => {
            list.iter().map(|(key, _)| *key).filter(|key| found.contains(key)).collect()
        }
        _ => {
            found.sort_by(|a, b| match (number(a), number(b)) {
                (Some(x), Some(y)) => x.total_cmp(&y).then(a.cmp(b)),
                _ => a.cmp(b),
            });
            found.dedup();
            found
        }
    }
    .into_iter()
    .map(str::to_owned)
    .collect()
}

fn labels(places: &Places, keys: &[String]) -> Vec<String> {
    let label = |key: &String| match places {
        Places::Numbers => key.clone(),
        Places::Names(label) => label(key),
        Places::Listed(list) => list
            .iter()
            .find(|(known, _)| known == key)
            .map_or_else(|| key.clone(), |(_, label)| (*label).to_owned()),
    };
    keys.iter().map(label).collect()
}
