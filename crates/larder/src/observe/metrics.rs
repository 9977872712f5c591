//! The numbers of [`Stats`](crate::Stats) with the metadata that a monitoring system needs: name, kind, unit, help.
//! They are generated from the declarations in `stats`, so none can be missing.

use std::fmt;

/// The last word of a name, if it is one of these, is the unit.
const UNITS: [&str; 9] =
    ["bytes", "objects", "items", "regions", "buckets", "segments", "pages", "records", "streams"];

/// How a number changes.
///
/// ```
/// assert_eq!(larder::MetricKind::Counter.to_string(), "counter");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MetricKind {
    /// It only grows while the cache is open, and starts at 0 with every opening.
    Counter,
    /// A current value, which can go up and down.
    Gauge,
}

impl fmt::Display for MetricKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
        })
    }
}

/// One number of [`Stats`](crate::Stats).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// Name of its field in [`Stats`](crate::Stats).
    pub name: &'static str,
    /// Counter or gauge.
    pub kind: MetricKind,
    /// The unit: the last word of the name if that is one ("bytes", "objects", "regions", …); `None` for a name that
    /// needs none (`gets`).
    pub unit: Option<&'static str>,
    /// One sentence for people, without markup.
    pub help: &'static str,
    /// The value.
    pub value: u64,
}

/// The metadata of a number, without its value.
#[derive(Debug)]
pub(crate) struct MetricName {
    name: &'static str,
    kind: MetricKind,
    unit: Option<&'static str>,
    help: String,
}

impl MetricName {
    pub(crate) fn new(name: &'static str, kind: MetricKind, doc: &str) -> Self {
        let last = name.rsplit('_').next().unwrap_or(name);
        let unit = UNITS.into_iter().find(|unit| *unit == last && last != name);
        Self { name, kind, unit, help: first_sentence(&plain(doc)) }
    }

    /// The number, whose value is now `value`.
    pub(crate) fn metric(&'static self, value: u64) -> Metric {
        let Self { name, kind, unit, help } = self;
        Metric { name, kind: *kind, unit: *unit, help, value }
    }
}

/// The text up to the first full stop that ends a word, on one line.
fn first_sentence(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    let last = words.iter().position(|word| word.ends_with('.')).unwrap_or(words.len() - 1);
    words[..=last].join(" ")
}

/// Removes Markdown marks and everything in parentheses, which are links.
fn plain(doc: &str) -> String {
    let mut depth = 0;
    let mut text = String::new();
    for letter in doc.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            '`' | '[' | ']' => {}
            _ if depth == 0 => text.push(letter),
            _ => {}
        }
    }
    // "fetches (see …)." leaves a space before the full stop.
    text.replace(" .", ".").replace(" ;", ";").replace(" ,", ",")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::observe::stats::Stats;

    #[test]
    fn help_is_a_sentence_that_is_understood_alone() {
        let mut names = HashSet::new();
        for Metric { name, help, unit, .. } in Stats::default().metrics() {
            assert!(names.insert(name), "{name} comes twice");
            assert!(help.ends_with('.') && help.contains(' '), "{name}: {help}");
            assert!(!help.contains(['`', '[', '(', '\n']), "{name}: {help}");
            for leaning in ["Of these", "Those", "The same", "Bytes of this data", "with them"] {
                assert!(!help.contains(leaning), "{name}: {help}");
            }
            assert!(unit.is_none_or(|unit| name.ends_with(&format!("_{unit}"))), "{name}");
        }
        assert!(names.len() > 80, "{}", names.len());
    }

    #[test]
    fn each_number_is_that_of_its_field() {
        let stats =
            Stats { gets: 1, drive_moved_other_bytes: 2, dram_items: 3, ..Stats::default() };
        let shown: Vec<_> = stats.metrics().filter(|metric| metric.value > 0).collect();
        let shown: Vec<_> = shown.iter().map(|it| (it.name, it.kind, it.unit, it.value)).collect();
        let (counter, gauge) = (MetricKind::Counter, MetricKind::Gauge);
        assert_eq!(
            shown,
            [
                ("gets", counter, None, 1),
                ("drive_moved_other_bytes", counter, Some("bytes"), 2),
                ("dram_items", gauge, Some("items"), 3),
            ]
        );
    }

    #[test]
    fn markup_and_all_but_the_first_sentence_go() {
        let doc = " Fetches begun for `a` key (see\n [`Larder::get`](crate::Larder::get)). More.";
        assert_eq!(first_sentence(&plain(doc)), "Fetches begun for a key.");
    }
}
