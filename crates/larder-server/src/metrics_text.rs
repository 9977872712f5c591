//! OpenMetrics text, family by family.

use std::fmt::{Display, Write};

/// The last line of a page of metrics.
pub(crate) const END: &str = "# EOF\n";

/// A page of metrics in the text form of OpenMetrics. All names begin with a prefix, and the samples of a family follow
/// it.
///
/// ```
/// use larder_server::MetricsText;
///
/// let mut page = MetricsText::new("larder_block");
/// page.family("dirty_bytes", "gauge", "Bytes that only the cache has.");
/// page.sample("dirty_bytes", &[("core", "0")], 4096);
/// assert!(page.finish().contains("larder_block_dirty_bytes{core=\"0\"} 4096\n"));
/// ```
#[derive(Clone, Debug)]
pub struct MetricsText {
    prefix: &'static str,
    text: String,
}

impl MetricsText {
    /// An empty page.
    pub fn new(prefix: &'static str) -> Self {
        Self { prefix, text: String::new() }
    }

    /// Begins a family. `kind` is `gauge`, `counter`, `histogram` or `info`.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        family(&mut self.text, self.prefix, name, (kind, help));
    }

    /// Adds a sample to the family that was begun last. Names of counters end with `_total`, of infos with `_info`, of
    /// histograms with `_bucket`, `_count` and `_sum`.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        sample(&mut self.text, self.prefix, name, labels, value);
    }

    /// The text without the line that ends a page, to be appended to another page.
    pub(crate) fn families(self) -> String {
        self.text
    }

    /// The whole page.
    pub fn finish(mut self) -> String {
        self.text.push_str(END);
        self.text
    }
}

pub(crate) fn family(text: &mut String, prefix: &str, name: &str, (kind, help): (&str, &str)) {
    let _ = writeln!(text, "# TYPE {prefix}_{name} {kind}\n# HELP {prefix}_{name} {help}");
}

pub(crate) fn sample(
    text: &mut String,
    prefix: &str,
    name: &str,
    labels: &[(&str, &str)],
    value: impl Display,
) {
    let _ = write!(text, "{prefix}_{name}");
    for (at, (label, value)) in labels.iter().enumerate() {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let _ = write!(text, "{}{label}=\"{value}\"", if at == 0 { '{' } else { ',' });
    }
    let _ = writeln!(text, "{} {value}", if labels.is_empty() { "" } else { "}" });
}
