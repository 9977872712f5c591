//! A chart of measured points: a line over numbers, or groups of bars over names; also spreads over seeds, published
//! values, and levels to stay below.

use super::chart::{Chart, XAxis, YAxis};
use super::format;
use super::marks::Swatch;
use super::markup::Markup;

/// Classes of series, in the order in which they are assigned. Each has its own colour, point shape and line style.
pub(super) const CLASSES: [&str; 4] = ["on", "off", "third", "fourth"];

/// A line through more points than this is drawn without point shapes, which would hide it.
const SHAPES_MAX: usize = 12;

/// A point of a series.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    /// Position: a number, or the place of its name.
    pub(super) at: f64,
    /// The value that is drawn.
    pub(super) value: f64,
    /// Minimum and maximum over the seeds.
    pub(super) range: (f64, f64),
    /// The published value.
    pub(super) published: Option<f64>,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Measured: drawn with points.
    Measured,
    /// Theory: a thin line.
    Theory,
}

/// A series of points.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series {
    /// Name in the legend.
    pub(super) name: String,
    /// Class of the style sheet, one of [`CLASSES`].
    pub(super) class: &'static str,
    pub(super) kind: Kind,
    /// In the order of the axis.
    pub(super) points: Vec<Point>,
}

/// The kind of the horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Points {
    /// Numbers: series are lines.
    Numbers,
    /// Names: series are bars, and a name's point is in the middle of its place.
    Names(Vec<String>),
}

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figure {
    pub(super) title: String,
    /// Title of the horizontal axis, with its unit.
    pub(super) x: String,
    /// Title of the vertical axis, with its unit.
    pub(super) y: String,
    pub(super) points: Points,
    pub(super) series: Vec<Series>,
    /// A level to stay below, with its name.
    pub(super) level: Option<(f64, String)>,
    /// Lower end of a line chart's axis, if no value is below it; bars begin at 0.
    pub(super) base: f64,
    pub(super) caption: String,
}

impl Figure {
    /// Draws the figure with its caption, or a sentence if there is nothing to draw.
    pub(super) fn draw(&self, out: &mut Markup) {
        out.tag("figure", &[], |out| {
            out.leaf("h3", &[], &self.title);
            if self.all().next().is_none() {
                out.leaf("p", &[("class", &"absent")], "Nothing was measured.");
                return;
            }
            let (x_axis, y_axis) = (self.x_axis(), self.y_axis());
            Chart::draw(out, &self.title, x_axis, y_axis, |chart| {
                if let Some((value, name)) = &self.level {
                    chart.level(*value, name);
                }
                match &self.points {
                    Points::Numbers => self.lines(chart),
                    Points::Names(_) => self.bars(chart),
                }
                self.legend(chart);
                self.tips(chart);
            });
            out.leaf("figcaption", &[], &self.caption_text());
        });
    }

    fn all(&self) -> impl Iterator<Item = &Point> {
        self.series.iter().flat_map(|series| &series.points)
    }

    fn x_axis(&self) -> XAxis<'_> {
        match &self.points {
            Points::Names(names) => XAxis::Names { title: &self.x, names },
            Points::Numbers => {
                let at = self.all().map(|point| point.at);
                let (lo, hi) = at.fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), at| {
                    (lo.min(at), hi.max(at))
                });
                XAxis::Numbers { title: &self.x, lo, hi }
            }
        }
    }

    fn y_axis(&self) -> YAxis<'_> {
        let values = self.all().flat_map(|point| {
            [Some(point.range.0), Some(point.range.1), Some(point.value), point.published]
        });
        let level = self.level.as_ref().map(|(value, _)| *value);
        let values = values.chain([level]).flatten().filter(|value| value.is_finite());
        let (least, most) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), value| {
            (lo.min(value), hi.max(value))
        });
        let base = if self.points == Points::Numbers { self.base } else { 0.0 };
        // A value slightly below the base is due to rounding and does not move the axis.
        let lo = if least >= base - 0.01 * base.abs() { base } else { least.floor().min(0.0) };
        YAxis { title: &self.y, lo, hi: if most > lo { most } else { lo + 1.0 }, share: false }
    }

    fn lines(&self, chart: &mut Chart<'_>) {
        for series in &self.series {
            let points: Vec<_> =
                series.points.iter().map(|point| (point.at, Some(point.value))).collect();
            chart.line(&format!("line {}", line_class(series)), &points);
        }
        for series in self.series.iter().filter(|series| series.kind == Kind::Measured) {
            for point in &series.points {
                let x = chart.x.at(point.at);
                chart.spread(series.class, x, point.range.0, point.range.1);
                if series.points.len() <= SHAPES_MAX {
                    chart.point(series.class, x, point.value);
                }
            }
        }
        // Published values on top of everything: the reader compares with them.
        for series in &self.series {
            for point in &series.points {
                if let Some(published) = point.published {
                    let x = chart.x.at(point.at);
                    chart.published(series.class, x, published);
                }
            }
        }
    }

    fn bars(&self, chart: &mut Chart<'_>) {
        let slots = self.series.len();
        for (slot, series) in self.series.iter().enumerate() {
            for point in &series.points {
                let x = chart.bar(series.class, (point.at, slot, slots), point.value);
                chart.spread("of-bar", x, point.range.0, point.range.1);
                if let Some(published) = point.published {
                    chart.published(series.class, x, published);
                }
            }
        }
    }

    fn legend(&self, chart: &mut Chart<'_>) {
        let swatch = |series: &Series| match (&self.points, series.kind) {
            (Points::Names(_), _) => Swatch::Bar,
            (Points::Numbers, Kind::Measured) if series.points.len() <= SHAPES_MAX => Swatch::Line,
            (Points::Numbers, _) => Swatch::PlainLine,
        };
        let classes: Vec<String> = self.series.iter().map(line_class).collect();
        let mut entries: Vec<_> = self
            .series
            .iter()
            .zip(&classes)
            .map(|(series, class)| (swatch(series), class.as_str(), series.name.as_str()))
            .collect();
        if self.all().any(|point| point.published.is_some()) {
            entries.push((Swatch::Diamond, "", "published"));
        }
        chart.legend(&entries);
    }

    /// Adds tooltips with the values of all series at each place.
    fn tips(&self, chart: &mut Chart<'_>) {
        let mut places: Vec<f64> = self.all().map(|point| point.at).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        for (index, &at) in places.iter().enumerate() {
            let mut text = match &self.points {
                Points::Numbers => format!("{}: {}", self.x, format::significant(at)),
                Points::Names(names) => names.get(index).cloned().unwrap_or_default(),
            };
            for series in &self.series {
                for point in series.points.iter().filter(|point| point.at == at) {
                    text += &format!("\n{}: {}", series.name, format::significant(point.value));
                    if let Some(published) = point.published {
                        text += &format!(", published {}", format::significant(published));
                    }
                }
            }
            let middle = |other: Option<&f64>, or: f64| other.map_or(or, |o| f64::midpoint(*o, at));
            let (from, to) = match &self.points {
                Points::Names(_) => (at.floor(), at.floor() + 1.0),
                Points::Numbers => {
                    let before = index.checked_sub(1).and_then(|index| places.get(index));
                    (
                        middle(before, f64::NEG_INFINITY),
                        middle(places.get(index + 1), f64::INFINITY),
                    )
                }
            };
            chart.tip(from, to, &text);
        }
    }

    fn caption_text(&self) -> String {
        let mut text = self.caption.clone();
        let mut say = |sentence: &str| {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(sentence);
        };
        if self.all().any(|point| point.range.0 < point.range.1) {
            say("The whiskers go from the least to the most of the seeds.");
        }
        if self.all().any(|point| point.published.is_some()) {
            say("The diamonds are published values, or follow from these.");
        }
        text
    }
}

fn line_class(series: &Series) -> String {
    match series.kind {
        Kind::Measured => series.class.to_owned(),
        Kind::Theory => format!("{} theory", series.class),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at: f64, value: f64, published: Option<f64>) -> Point {
        Point { at, value, range: (value - 0.1, value + 0.1), published }
    }

    fn figure(points: Points) -> Figure {
        let series = |name: &str, class, kind, published| Series {
            name: name.to_owned(),
            class,
            kind,
            points: vec![point(0.5, 1.1, published), point(1.5, 3.0, None)],
        };
        Figure {
            title: "DLWA".to_owned(),
            x: "utilisation (%)".to_owned(),
            y: "DLWA (bytes per byte)".to_owned(),
            points,
            series: vec![
                series("placement on", "on", Kind::Measured, Some(1.03)),
                series("theory", "off", Kind::Theory, None),
            ],
            level: Some((1.5, "the limit".to_owned())),
            base: 1.0,
            caption: String::new(),
        }
    }

    fn drawn(figure: &Figure) -> String {
        let mut out = Markup::default();
        figure.draw(&mut out);
        out.finish()
    }

    #[test]
    fn numbers_are_lines_and_names_are_bars() {
        let lines = drawn(&figure(Points::Numbers));
        assert!(lines.contains("class=\"line on\"") && lines.contains("class=\"line off theory\""));
        assert!(!lines.contains("class=\"bar"));
        let names = vec!["half".to_owned(), "full".to_owned()];
        let bars = drawn(&figure(Points::Names(names)));
        assert!(bars.contains("class=\"bar on\"") && !bars.contains("class=\"line on\""));
        for drawn in [lines, bars] {
            assert!(drawn.contains(">utilisation (%)</text>"));
            assert!(drawn.contains(">DLWA (bytes per byte)</text>"));
            assert!(drawn.contains(">placement on</text>") && drawn.contains(">published</text>"));
            assert!(drawn.contains(">the limit</text>") && drawn.contains("class=\"spread o"));
            assert!(drawn.contains("class=\"published on\""));
            assert!(drawn.contains("The diamonds are"));
        }
    }

    #[test]
    fn without_points_there_is_a_sentence() {
        let mut empty = figure(Points::Numbers);
        empty.series.clear();
        let text = drawn(&empty);
        assert!(text.contains("Nothing was measured") && !text.contains("<svg"));
    }

    #[test]
    fn the_axis_begins_at_its_base_unless_a_value_is_below() {
        let mut figure = figure(Points::Numbers);
        assert_eq!(figure.y_axis().lo, 1.0);
        figure.series[0].points[0].range.0 = 0.4;
        assert_eq!(figure.y_axis().lo, 0.0);
        figure.series[0].points[0].range.0 = -0.4;
        assert_eq!(figure.y_axis().lo, -1.0);
    }
}
