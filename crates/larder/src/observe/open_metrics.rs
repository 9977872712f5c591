//! The numbers as [OpenMetrics 1.0] text for monitoring systems.
//!
//! ```text
//! # TYPE larder_loc_written_bytes counter       the family: without _total
//! # UNIT larder_loc_written_bytes bytes         its last word
//! # HELP larder_loc_written_bytes Bytes …
//! larder_loc_written_bytes_total{tenant="web"} 4096
//! …
//! # EOF
//! ```
//!
//! A family may occur only once, with the samples of all caches. The texts of several caches cannot be concatenated,
//! so [`OpenMetrics`] takes several caches.
//!
//! [OpenMetrics 1.0]: https://prometheus.io/docs/specs/om/open_metrics_spec/

use std::fmt;
use std::time::Duration;

use larder_device::nvme::DriveReport;

use crate::base::error::{Error, ErrorKind};
use crate::observe::latency::Latency;
use crate::observe::metrics::{Metric, MetricKind};
use crate::observe::stats::Stats;

/// Label names with a special meaning in the format or in this module.
const RESERVED: [&str; 6] = ["le", "quantile", "path", "operation", "tier", "drive"];

/// The numbers of one or more caches as OpenMetrics text, through [`Display`](fmt::Display). All names begin with
/// `larder_`.
///
/// ```
/// use larder::{OpenMetrics, Stats};
///
/// let (web, mail) = (Stats::default(), Stats::default());
/// let text = OpenMetrics::new().cache(&[("tenant", "web")], &web)?.cache(&[("tenant", "mail")], &mail)?;
/// let text = text.to_string();
/// assert!(text.contains("\nlarder_gets_total{tenant=\"mail\"} 0\n"));
/// assert!(text.ends_with("# EOF\n"));
/// # Ok::<(), larder::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct OpenMetrics<'a> {
    caches: Vec<(String, &'a Stats)>,
}

impl<'a> OpenMetrics<'a> {
    /// The content type of an HTTP response with this text.
    pub const CONTENT_TYPE: &'static str =
        "application/openmetrics-text; version=1.0.0; charset=utf-8";

    /// Creates a text without a cache.
    ///
    /// ```
    /// assert_eq!(larder::OpenMetrics::new().to_string(), "# EOF\n");
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a cache. `labels` are names and values that distinguish it from others (tenant, shard).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an invalid label name (valid: letters, digits and `_`, not starting with a
    /// digit or `__`; not `le`, `quantile`, `path`, `operation`, `tier` or `drive`), for a name that occurs twice,
    /// and for labels that another cache already has.
    ///
    /// ```
    /// use larder::{ErrorKind, OpenMetrics, Stats};
    ///
    /// let stats = Stats::default();
    /// let text = OpenMetrics::new().cache(&[("shard", "0")], &stats)?;
    /// let again = text.cache(&[("shard", "0")], &stats);
    /// assert_eq!(again.unwrap_err().kind(), ErrorKind::InvalidInput);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn cache(mut self, labels: &[(&str, &str)], stats: &'a Stats) -> Result<Self, Error> {
        let refuse = |message: String| Err(Error::new(ErrorKind::InvalidInput, message));
        for (at, (name, _)) in labels.iter().enumerate() {
            if !is_label_name(name) {
                return refuse(format!(
                    "label {name:?}: must be letters, digits and _, not begin with a digit or __, \
                     and not be one of {RESERVED:?}"
                ));
            }
            if labels[..at].iter().any(|(before, _)| before == name) {
                return refuse(format!("label {name:?} comes twice: give it once"));
            }
        }
        let mut labels: Vec<_> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        // Sort the labels, since their order means nothing: equal sets must be found equal.
        labels.sort();
        let labels = labels.join(",");
        if self.caches.iter().any(|(others, _)| *others == labels) {
            return refuse(format!(
                "two caches with the labels {{{labels}}}: give each a label that tells them apart"
            ));
        }
        self.caches.push((labels, stats));
        Ok(self)
    }

    fn write_numbers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all: Vec<_> = self.caches.iter().map(|(_, stats)| stats.metrics()).collect();
        let Some((first, others)) = all.split_first_mut() else { return Ok(()) };
        for metric in first {
            let Metric { name, kind, unit, help, value } = metric;
            write_family(f, name, &kind.to_string(), unit, help)?;
            let suffix = if kind == MetricKind::Counter { "_total" } else { "" };
            let values = others.iter_mut().map(|other| other.next().map_or(0, |it| it.value));
            for ((labels, _), value) in self.caches.iter().zip(std::iter::once(value).chain(values))
            {
                write_sample(f, &format!("{name}{suffix}"), &[labels], value)?;
            }
        }
        Ok(())
    }

    /// Writes how placement reaches the devices, as a label.
    fn write_placement(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.caches.is_empty() {
            return Ok(());
        }
        write_family(f, "placement_path", "info", None, "How placement reaches the device.")?;
        for (labels, stats) in &self.caches {
            let path = format!("path=\"{}\"", escaped(stats.placement_path));
            write_sample(f, "placement_path_info", &[labels, &path], 1)?;
        }
        Ok(())
    }

    /// Writes the application-level write amplification of all caches that have written.
    fn write_alwa(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<_> =
            self.caches.iter().filter_map(|(labels, it)| Some((labels, it.alwa()?))).collect();
        if !known.is_empty() {
            let help = "Bytes written to the device for each byte of objects admitted to flash.";
            write_family(f, "alwa", "gauge", None, help)?;
        }
        known.into_iter().try_for_each(|(labels, alwa)| write_sample(f, "alwa", &[labels], alwa))
    }

    /// Writes the drives' own counters, for caches whose drives report them.
    fn write_drives(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        type Told = fn(&DriveReport) -> Option<String>;
        let families: [(&str, &str, Option<&str>, &str, Told); 5] = [
            (
                "drive_host_written_bytes",
                "counter",
                Some("bytes"),
                "Bytes that hosts wrote to the drive since the device was opened.",
                |report| Some(report.since_open?.host_bytes.to_string()),
            ),
            (
                "drive_media_written_bytes",
                "counter",
                Some("bytes"),
                "Bytes that the drive wrote to its media since the device was opened.",
                |report| Some(report.since_open?.media_bytes.to_string()),
            ),
            (
                "drive_dlwa",
                "gauge",
                None,
                "Bytes that the drive wrote for each byte it was given, in the last five minutes.",
                |report| Some(report.recent?.dlwa()?.to_string()),
            ),
            (
                "drive_used_percent",
                "gauge",
                None,
                "Life of the drive that is used up, in percent.",
                |report| Some(report.used_percent?.to_string()),
            ),
            (
                "drive_event_gaps",
                "counter",
                None,
                "Times that the log of FDP events was overwritten before it was read: then events are missing.",
                |report| (report.looks > 0).then(|| report.event_gaps.to_string()),
            ),
        ];
        for (name, kind, unit, help, told) in families {
            let mut is_first = true;
            for (labels, stats) in &self.caches {
                for report in &stats.drives {
                    let Some(value) = told(report) else { continue };
                    if std::mem::take(&mut is_first) {
                        write_family(f, name, kind, unit, help)?;
                    }
                    let drive = format!("drive=\"{}\"", escaped(&report.path));
                    let suffix = if kind == "counter" { "_total" } else { "" };
                    write_sample(f, &format!("{name}{suffix}"), &[labels, &drive], value)?;
                }
            }
        }
        Ok(())
    }

    /// Writes the latencies, for caches that measure them.
    fn write_latencies(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = "latency_seconds";
        if self.caches.iter().any(|(_, stats)| !stats.latencies.is_empty()) {
            write_family(f, name, "histogram", Some("seconds"), "How long calls took.")?;
        }
        for (labels, stats) in &self.caches {
            for Latency { operation, tier, histogram } in &stats.latencies {
                let operation = format!("operation=\"{operation}\"");
                let tier = tier.map_or_else(String::new, |tier| format!("tier=\"{tier}\""));
                let bucket = format!("{name}_bucket");
                for (bound_ns, calls) in histogram.octaves() {
                    let le = Duration::from_nanos(bound_ns).as_secs_f64();
                    let le = format!("le=\"{le}\"");
                    write_sample(f, &bucket, &[labels, &operation, &tier, &le], calls)?;
                }
                let own = [labels.as_str(), &operation, &tier];
                let all = [labels.as_str(), &operation, &tier, "le=\"+Inf\""];
                write_sample(f, &bucket, &all, histogram.count())?;
                write_sample(f, &format!("{name}_count"), &own, histogram.count())?;
                write_sample(f, &format!("{name}_sum"), &own, histogram.sum().as_secs_f64())?;
            }
        }
        Ok(())
    }

    /// Writes the forecast of the drive's life, for caches that have one.
    fn write_drive_life(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lives: Vec<_> = self
            .caches
            .iter()
            .filter_map(|(labels, stats)| Some((labels.as_str(), stats.drive_life?)))
            .collect();
        let mut gauge = |name, unit, help, values: Vec<(&str, Option<u64>)>| {
            if values.iter().any(|(_, value)| value.is_some()) {
                write_family(f, name, "gauge", Some(unit), help)?;
            }
            for (labels, value) in values {
                if let Some(value) = value {
                    write_sample(f, name, &[labels], value)?;
                }
            }
            Ok(())
        };
        let left = lives.iter().map(|(labels, life)| (*labels, Some(life.left_bytes))).collect();
        let help = "Bytes that the rating of the drive leaves.";
        gauge("drive_life_left_bytes", "bytes", help, left)?;
        let days = lives.iter().map(|(labels, life)| (*labels, life.days_left)).collect();
        let help = "Days until the rating of the drive is used up at this rate.";
        gauge("drive_life_left_days", "days", help, days)
    }
}

impl fmt::Display for OpenMetrics<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_numbers(f)?;
        self.write_placement(f)?;
        self.write_alwa(f)?;
        self.write_drives(f)?;
        self.write_drive_life(f)?;
        self.write_latencies(f)?;
        f.write_str("# EOF\n")
    }
}

impl Stats {
    /// These numbers as OpenMetrics text, without labels. For several caches in one text, see [`OpenMetrics`].
    ///
    /// ```
    /// let text = larder::Stats::default().open_metrics().to_string();
    /// assert!(text.starts_with("# TYPE larder_gets counter\n"));
    /// ```
    pub fn open_metrics(&self) -> OpenMetrics<'_> {
        OpenMetrics { caches: vec![(String::new(), self)] }
    }
}

fn write_family(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    kind: &str,
    unit: Option<&str>,
    help: &str,
) -> fmt::Result {
    writeln!(f, "# TYPE larder_{name} {kind}")?;
    if let Some(unit) = unit {
        writeln!(f, "# UNIT larder_{name} {unit}")?;
    }
    writeln!(f, "# HELP larder_{name} {}", escaped(help))
}

fn write_sample(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    labels: &[&str],
    value: impl fmt::Display,
) -> fmt::Result {
    let labels: Vec<_> = labels.iter().copied().filter(|some| !some.is_empty()).collect();
    match labels.as_slice() {
        [] => writeln!(f, "larder_{name} {value}"),
        labels => writeln!(f, "larder_{name}{{{}}} {value}", labels.join(",")),
    }
}

/// Escapes a label value or a help text.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn is_label_name(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
    name.starts_with(is_letter)
        && !name.starts_with("__")
        && name.chars().all(|letter| is_letter(letter) || letter.is_ascii_digit())
        && !RESERVED.contains(&name)
}

#[cfg(test)]
mod tests;
