//! Encodes an OTLP request for metrics (`ExportMetricsServiceRequest`) in JSON: 64-bit numbers are strings there, and
//! enumerations are numbers.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::families::{Family, Kind, Sample};

/// Numbers count from the start (`AGGREGATION_TEMPORALITY_CUMULATIVE`).
const CUMULATIVE: u32 = 2;

/// The body of a push: `families` of the server `instance`, for the time `span`.
pub(super) fn encode(
    families: &[Family],
    instance: &str,
    span: (SystemTime, SystemTime),
) -> Vec<u8> {
    let span = Span { from: nanoseconds(span.0), to: nanoseconds(span.1) };
    let metrics: Vec<Value> = families.iter().map(|family| metric(family, &span)).collect();
    let resource = [
        ("service.name", "larder"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("service.instance.id", instance),
    ];
    let scope = json!({ "name": "larder-server", "version": env!("CARGO_PKG_VERSION") });
    let request = json!({
        "resourceMetrics": [{
            "resource": { "attributes": resource.map(|(name, value)| attribute(name, value)) },
            "scopeMetrics": [{ "scope": scope, "metrics": metrics }],
        }]
    });
    request.to_string().into_bytes()
}

/// Start and end of the time span, in nanoseconds as text.
struct Span {
    from: String,
    to: String,
}

fn nanoseconds(moment: SystemTime) -> String {
    moment.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos()).to_string()
}

fn metric(family: &Family, span: &Span) -> Value {
    let points = |with_start| -> Vec<Value> {
        family.samples.iter().map(|sample| point(sample, span, with_start)).collect()
    };
    let (name, data) = match family.kind {
        Kind::Counter => (
            "sum",
            json!({ "aggregationTemporality": CUMULATIVE, "isMonotonic": true, "dataPoints": points(true) }),
        ),
        Kind::Gauge | Kind::Info => ("gauge", json!({ "dataPoints": points(false) })),
        Kind::Histogram => (
            "histogram",
            json!({ "aggregationTemporality": CUMULATIVE, "dataPoints": histograms(family, span) }),
        ),
    };
    json!({ "name": family.name, "description": family.help, "unit": unit(&family.unit), name: data })
}

/// The UCUM code of a unit.
fn unit(word: &str) -> &str {
    match word {
        "bytes" => "By",
        "seconds" => "s",
        "days" => "d",
        "milliseconds" => "ms",
        _ => "1",
    }
}

fn point(sample: &Sample, span: &Span, with_start: bool) -> Value {
    let mut point = json!({ "attributes": attributes(&sample.labels), "timeUnixNano": span.to });
    if with_start {
        point["startTimeUnixNano"] = json!(span.from);
    }
    match (sample.value.parse::<i64>(), sample.value.parse::<f64>()) {
        (Ok(whole), _) => point["asInt"] = json!(whole.to_string()),
        (_, Ok(number)) => point["asDouble"] = json!(number),
        // The flag for a point without a value.
        _ => point["flags"] = json!(1),
    }
    point
}

/// A point for each set of labels, of its buckets, its sum and its count.
fn histograms(family: &Family, span: &Span) -> Vec<Value> {
    let mut points: Vec<(Vec<(String, String)>, Histogram)> = Vec::new();
    for sample in &family.samples {
        let (bound, own): (Vec<_>, Vec<_>) =
            sample.labels.iter().cloned().partition(|(name, _)| name == "le");
        let at = points.iter().position(|(labels, _)| *labels == own).unwrap_or_else(|| {
            points.push((own, Histogram::default()));
            points.len() - 1
        });
        let Some((_, histogram)) = points.get_mut(at) else { continue };
        histogram.add(sample, bound.first().map(|(_, bound)| bound.as_str()));
    }
    points.into_iter().map(|(labels, histogram)| histogram.point(&labels, span)).collect()
}

#[derive(Default)]
struct Histogram {
    bounds: Vec<f64>,
    /// Cumulative counts up to each bound; the last is the total.
    up_to: Vec<u64>,
    count: u64,
    sum: f64,
}

impl Histogram {
    fn add(&mut self, sample: &Sample, bound: Option<&str>) {
        match (&*sample.suffix, bound) {
            ("_bucket", Some(bound)) => {
                self.up_to.push(sample.value.parse().unwrap_or(0));
                // The last bound is infinity, which OTLP does not write.
                self.bounds.extend(bound.parse::<f64>().ok().filter(|bound| bound.is_finite()));
            }
            ("_count", _) => self.count = sample.value.parse().unwrap_or(0),
            ("_sum", _) => self.sum = sample.value.parse().unwrap_or(0.0),
            _ => {}
        }
    }

    fn point(&self, labels: &[(String, String)], span: &Span) -> Value {
        debug_assert_eq!(self.up_to.len(), self.bounds.len() + 1, "a bucket more than bounds");
        let before = std::iter::once(&0).chain(&self.up_to);
        let each =
            self.up_to.iter().zip(before).map(|(up_to, before)| up_to.saturating_sub(*before));
        let counts: Vec<String> = each.map(|count| count.to_string()).collect();
        json!({
            "attributes": attributes(labels),
            "startTimeUnixNano": span.from,
            "timeUnixNano": span.to,
            "count": self.count.to_string(),
            "sum": self.sum,
            "bucketCounts": counts,
            "explicitBounds": self.bounds,
        })
    }
}

fn attributes(labels: &[(String, String)]) -> Vec<Value> {
    labels.iter().map(|(name, value)| attribute(name, value)).collect()
}

fn attribute(name: &str, value: &str) -> Value {
    json!({ "key": name, "value": { "stringValue": value } })
}

#[cfg(test)]
mod tests {
    use super::super::families::parse;
    use super::*;

    fn pushed(page: &str) -> Value {
        let body = encode(
            &parse(page),
            "here",
            (UNIX_EPOCH, UNIX_EPOCH + std::time::Duration::from_nanos(5)),
        );
        let request: Value = serde_json::from_slice(&body).unwrap();
        request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].clone()
    }

    #[test]
    fn counters_and_gauges_keep_their_numbers_and_labels() {
        let metrics = pushed(
            "# TYPE a_bytes counter\n# UNIT a_bytes bytes\na_bytes_total{t=\"x\"} 18\n# TYPE b gauge\nb 0.5\n",
        );
        let point = &metrics[0]["sum"]["dataPoints"][0];
        assert_eq!(
            (&metrics[0]["unit"], &metrics[0]["sum"]["isMonotonic"]),
            (&json!("By"), &json!(true))
        );
        assert_eq!(
            (&point["asInt"], &point["startTimeUnixNano"], &point["timeUnixNano"]),
            (&json!("18"), &json!("0"), &json!("5"))
        );
        assert_eq!(point["attributes"][0], json!({ "key": "t", "value": { "stringValue": "x" } }));
        assert_eq!(metrics[1]["gauge"]["dataPoints"][0]["asDouble"], json!(0.5));
    }

    #[test]
    fn buckets_count_what_is_in_them_and_not_what_is_below() {
        let metrics = pushed(
            "# TYPE h_seconds histogram\n# UNIT h_seconds seconds\n\
             h_seconds_bucket{op=\"get\",le=\"0.1\"} 2\nh_seconds_bucket{op=\"get\",le=\"0.2\"} 5\n\
             h_seconds_bucket{op=\"get\",le=\"+Inf\"} 6\nh_seconds_count{op=\"get\"} 6\n\
             h_seconds_sum{op=\"get\"} 0.75\n\
             h_seconds_bucket{op=\"set\",le=\"+Inf\"} 1\nh_seconds_count{op=\"set\"} 1\nh_seconds_sum{op=\"set\"} 9\n",
        );
        let points = &metrics[0]["histogram"]["dataPoints"];
        assert_eq!(points[0]["bucketCounts"], json!(["2", "3", "1"]));
        assert_eq!(points[0]["explicitBounds"], json!([0.1, 0.2]));
        assert_eq!((&points[0]["count"], &points[0]["sum"]), (&json!("6"), &json!(0.75)));
        assert_eq!((&points[1]["bucketCounts"], &points[1]["count"]), (&json!(["1"]), &json!("1")));
        assert_eq!(points.as_array().map(Vec::len), Some(2));
    }
}
