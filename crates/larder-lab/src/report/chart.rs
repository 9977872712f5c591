//! The frame of a chart and its axes, as SVG.
//!
//! A [`Chart`] is a fixed drawing [`WIDTH`] wide that the page scales a little. Marks (see [`marks`](super::marks)) are
//! drawn in the order of the calls. Colours come from classes of the style sheet.

use super::format::{self, Px};
use super::markup::Markup;
use super::scale::{Scale, Ticks, round_up, ticks};

/// Width of every drawing.
pub(super) const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 270.0;
pub(super) const LEFT: f64 = 46.0;
pub(super) const RIGHT: f64 = 426.0;
pub(super) const TOP: f64 = 34.0;
pub(super) const BOTTOM: f64 = 224.0;
/// From this number on the axis shows millions of requests.
const MILLIONS_FROM: f64 = 2e6;
/// Padding between the axis and its first and last number, as a share of its length.
const PADDING: f64 = 0.05;
/// Line distance of names, and width of a letter.
pub(super) const NAME_LINE: f64 = 13.0;
const LETTER: f64 = 6.4;

/// The vertical axis.
#[derive(Clone, Copy)]
pub(super) struct YAxis<'a> {
    /// The quantity with its unit.
    pub(super) title: &'a str,
    /// Lower end of the axis.
    pub(super) lo: f64,
    /// The axis must extend at least to this value.
    pub(super) hi: f64,
    /// Whether values are shares, shown in percent.
    pub(super) share: bool,
}

/// The horizontal axis.
#[derive(Clone, Copy)]
pub(super) enum XAxis<'a> {
    /// Requests since the start, from 0 to this many.
    Requests(f64),
    /// Numbers between two bounds. The title has the quantity and its unit.
    Numbers { title: &'a str, lo: f64, hi: f64 },
    /// Named places: the first from 0 to 1, the second from 1 to 2.
    Names { title: &'a str, names: &'a [String] },
}

impl XAxis<'_> {
    /// The values at the ends of the axis.
    #[allow(clippy::cast_precision_loss)] // a few names
    fn range(&self) -> (f64, f64) {
        match self {
            Self::Requests(hi) => (0.0, *hi),
            Self::Numbers { lo, hi, .. } => {
                let padding = if hi > lo { (hi - lo) * PADDING } else { 0.5 };
                (lo - padding, hi + padding)
            }
            Self::Names { names, .. } => (0.0, names.len() as f64),
        }
    }

    /// The names, each split into as many lines as needed to fit its place.
    #[allow(clippy::cast_precision_loss)] // a few names
    fn labels(&self) -> Vec<Vec<String>> {
        let Self::Names { names, .. } = self else { return Vec::new() };
        let letters = letters_in((RIGHT - LEFT) / names.len().max(1) as f64);
        names.iter().map(|name| wrapped(name, letters)).collect()
    }
}

/// A drawing with axes.
pub(super) struct Chart<'a> {
    pub(super) out: &'a mut Markup,
    pub(super) x: Scale,
    pub(super) y: Scale,
    y_of_share: bool,
    y_ticks: Ticks,
}

impl<'a> Chart<'a> {
    /// Draws a chart into `out`: the grid, the axes, then the output of `marks`.
    pub(super) fn draw(
        out: &'a mut Markup,
        description: &str,
        x_axis: XAxis<'_>,
        axis: YAxis<'_>,
        marks: impl FnOnce(&mut Chart<'_>),
    ) {
        let hi = round_up(axis.lo, axis.hi, 4);
        let labels = x_axis.labels();
        let lines = labels.iter().map(Vec::len).max().unwrap_or(1);
        #[allow(clippy::cast_precision_loss)] // a few lines
        let deeper = NAME_LINE * lines.saturating_sub(1) as f64;
        let view = format!("0 0 {WIDTH} {}", HEIGHT + deeper);
        let attributes: [(&str, &dyn std::fmt::Display); 4] = [
            ("viewBox", &view),
            ("role", &"img"),
            ("aria-label", &description),
            ("class", &"chart"),
        ];
        out.tag("svg", &attributes, |out| {
            let mut chart = Chart {
                out,
                x: Scale::new(x_axis.range(), (LEFT, RIGHT)),
                y: Scale::new((axis.lo, hi), (BOTTOM, TOP)),
                y_of_share: axis.share,
                y_ticks: ticks(axis.lo, hi, 4, 0.0),
            };
            chart.y_axis(axis.title);
            chart.rule("base", (LEFT, BOTTOM), (RIGHT, BOTTOM));
            let title = chart.x_axis(x_axis, &labels);
            chart.text("axis", (LEFT + RIGHT) / 2.0, BOTTOM + 38.0 + deeper, "middle", title);
            marks(&mut chart);
        });
    }

    fn y_axis(&mut self, title: &str) {
        self.text("axis", 0.0, 16.0, "start", title);
        let Ticks { step, values } = self.y_ticks.clone();
        for value in values {
            let y = self.y.at(value);
            self.rule("grid", (LEFT, y), (RIGHT, y));
            let label = if self.y_of_share {
                format!("{}%", format::tick(value * 100.0, step * 100.0))
            } else {
                format::tick(value, step)
            };
            self.text("tick", LEFT - 7.0, y + 4.0, "end", &label);
        }
    }

    /// Draws ticks or names, and returns the title of the axis.
    fn x_axis<'t>(&mut self, axis: XAxis<'t>, labels: &[Vec<String>]) -> &'t str {
        match axis {
            XAxis::Requests(hi) if hi >= MILLIONS_FROM => {
                self.numbers(1e6, &ticks(0.0, hi / 1e6, 5, 1e-6));
                "requests since the start, in millions"
            }
            XAxis::Requests(hi) => {
                let hi = if hi > 0.0 { hi } else { 1.0 };
                self.numbers(1.0, &ticks(0.0, hi, 5, 1.0));
                "requests since the start"
            }
            XAxis::Numbers { title, lo, hi } => {
                self.numbers(1.0, &ticks(lo, hi, 6, 0.0));
                title
            }
            XAxis::Names { title, .. } => {
                self.names(labels);
                title
            }
        }
    }

    fn numbers(&mut self, unit: f64, Ticks { step, values }: &Ticks) {
        for value in values {
            let x = self.x.at(value * unit);
            self.rule("base", (x, BOTTOM), (x, BOTTOM + 4.0));
            self.text("tick", x, BOTTOM + 18.0, "middle", &format::tick(*value, *step));
        }
    }

    fn names(&mut self, labels: &[Vec<String>]) {
        let mut place = 0.5;
        for lines in labels {
            let x = self.x.at(place);
            let mut y = BOTTOM + 18.0;
            for line in lines {
                self.text("tick", x, y, "middle", line);
                y += NAME_LINE;
            }
            place += 1.0;
        }
    }

    pub(super) fn rule(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let path = path([from, to].into_iter());
        self.out.empty("path", &[("class", &class), ("d", &path)]);
    }

    pub(super) fn rect(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64) {
        self.out.empty(
            "rect",
            &[
                ("class", &class),
                ("x", &Px(x)),
                ("y", &Px(y)),
                ("width", &Px(width)),
                ("height", &Px(height)),
            ],
        );
    }

    pub(super) fn text(&mut self, class: &str, x: f64, y: f64, anchor: &str, text: &str) {
        self.out.leaf(
            "text",
            &[("class", &class), ("x", &Px(x)), ("y", &Px(y)), ("text-anchor", &anchor)],
            text,
        );
    }
}

/// A polyline as path data.
pub(super) fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut text = String::new();
    for (index, (x, y)) in points.enumerate() {
        text.push(if index == 0 { 'M' } else { 'L' });
        text.push_str(&format!("{} {}", Px(x), Px(y)));
    }
    text
}

/// Number of letters that fit into this width.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // some letters
pub(super) fn letters_in(width: f64) -> usize {
    (width / LETTER) as usize
}

/// Splits `text` at blanks into lines of at most `letters` letters.
pub(super) fn wrapped(text: &str, letters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= letters => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::marks::Swatch;
    use super::*;

    fn drawn(x_axis: XAxis<'_>) -> String {
        let mut out = Markup::default();
        let axis = YAxis { title: "DLWA", lo: 0.0, hi: 10.0, share: false };
        Chart::draw(&mut out, "sample", x_axis, axis, |_| {});
        out.finish()
    }

    #[test]
    fn axes_name_what_they_measure() {
        let svg = drawn(XAxis::Requests(100.0));
        assert!(svg.contains(">DLWA</text>"));
        assert!(svg.contains(">requests since the start</text>"));
        assert!(svg.contains(">100</text>"));
        let svg = drawn(XAxis::Numbers { title: "used (%)", lo: 50.0, hi: 100.0 });
        assert!(svg.contains(">used (%)</text>") && svg.contains(">70</text>"));
    }

    #[test]
    fn names_are_wrapped_and_make_room_for_themselves() {
        let names = ["two alike", "two of a different kind"].map(str::to_owned);
        let svg = drawn(XAxis::Names { title: "tenants", names: &names });
        assert!(svg.contains(">two alike</text>") && svg.contains("0 0 560 270"), "{svg}");
        assert_eq!(wrapped("two of a kind", 6), ["two of", "a kind"]);
        assert_eq!(wrapped("unbreakable", 3), ["unbreakable"]);
        let many = vec!["a long name".to_owned(); 9];
        let svg = drawn(XAxis::Names { title: "tenants", names: &many });
        assert!(svg.contains("0 0 560 283"), "{svg}");
    }

    #[test]
    fn a_long_name_in_the_legend_stays_in_the_drawing() {
        let mut out = Markup::default();
        let axis = YAxis { title: "DLWA", lo: 0.0, hi: 10.0, share: false };
        Chart::draw(&mut out, "sample", XAxis::Requests(10.0), axis, |chart| {
            let of = |class, name| (Swatch::Bar, class, name);
            chart.legend(&[of("on", "first come, first served"), of("off", "plan")]);
        });
        let svg = out.finish();
        let at = |line: &str| {
            let (before, _) = svg.split_once(&format!(">{line}</text>")).unwrap();
            let (_, y) = before.rsplit_once(" y=\"").unwrap();
            y.split_once('"').unwrap().0.parse::<f64>().unwrap()
        };
        let (first, second, next) = (at("first come,"), at("first served"), at("plan"));
        assert!(second >= first + NAME_LINE && next >= second + NAME_LINE, "{svg}");
    }

    #[test]
    fn one_number_is_in_the_middle() {
        let axis = XAxis::Numbers { title: "", lo: 4.0, hi: 4.0 };
        assert_eq!(axis.range(), (3.5, 4.5));
    }
}
