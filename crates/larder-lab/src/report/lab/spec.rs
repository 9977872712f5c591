//! The description of a chart.

/// The places of a chart's points.
#[derive(Clone, Copy)]
pub(super) enum Places {
    /// At the numbers at the end of the metrics' names. Series are lines.
    Numbers,
    /// Side by side, each point under its name. Series are bars.
    Names(fn(&str) -> String),
    /// The same, but only for the listed points, with their names.
    Listed(&'static [(&'static str, &'static str)]),
}

/// The description of a chart.
#[derive(Clone, Copy)]
pub(super) struct Spec<'a> {
    pub(super) title: &'a str,
    /// Titles of the axes, with units.
    pub(super) x: &'a str,
    pub(super) y: &'a str,
    /// Patterns of metrics, in which a star stands for the point, each with the name of the series.
    pub(super) series: &'a [(&'a str, &'a str)],
    pub(super) places: Places,
    /// Lower end of a line chart's axis.
    pub(super) base: f64,
}
