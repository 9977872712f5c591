//! Axes, lines and areas as SVG.
//!
//! A [`Chart`] is a fixed drawing of [`WIDTH`] by [`HEIGHT`] that the page scales a little. Marks
//! are drawn in the order of the calls; colours come from classes of the style sheet.

use super::format::{self, Px};
use super::markup::Markup;
use super::scale::{Scale, Ticks, round_up, ticks};

/// Width of every drawing.
pub(super) const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 270.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 440.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 224.0;
/// Least distance between two labels at the ends of lines.
const LABEL_GAP: f64 = 16.0;
/// From here on the axis counts millions of requests.
const MILLIONS_FROM: f64 = 2e6;

/// The vertical axis.
#[derive(Clone, Copy)]
pub(super) struct YAxis<'a> {
    /// What is measured, with its unit.
    pub(super) title: &'a str,
    /// Where the axis begins.
    pub(super) lo: f64,
    /// What must fit below its end.
    pub(super) hi: f64,
    /// Whether values are shares, to be written in percent.
    pub(super) share: bool,
}

/// A label at the right edge, beside the mark it names.
pub(super) struct EndLabel {
    /// Where it would best stand, as a value of the vertical axis.
    pub(super) y: f64,
    /// What it says.
    pub(super) text: String,
    /// Class of its text and of its swatch.
    pub(super) class: &'static str,
}

/// A drawing with a horizontal axis of requests.
pub(super) struct Chart<'a> {
    out: &'a mut Markup,
    x: Scale,
    y: Scale,
    y_of_share: bool,
    x_hi: f64,
    y_ticks: Ticks,
}

impl<'a> Chart<'a> {
    /// Draws a chart into `out`: the grid, the axes, then whatever `marks` draws.
    pub(super) fn draw(
        out: &'a mut Markup,
        description: &str,
        x_hi: f64,
        axis: YAxis<'_>,
        marks: impl FnOnce(&mut Chart<'_>),
    ) {
        let hi = round_up(axis.lo, axis.hi, 4);
        let view = format!("0 0 {WIDTH} {HEIGHT}");
        let attributes: [(&str, &dyn std::fmt::Display); 4] = [
            ("viewBox", &view),
            ("role", &"img"),
            ("aria-label", &description),
            ("class", &"chart"),
        ];
        out.tag("svg", &attributes, |out| {
            let mut chart = Chart {
                out,
                x: Scale::new((0.0, x_hi), (LEFT, RIGHT)),
                y: Scale::new((axis.lo, hi), (BOTTOM, TOP)),
                y_of_share: axis.share,
                x_hi: if x_hi > 0.0 { x_hi } else { 1.0 },
                y_ticks: ticks(axis.lo, hi, 4, 0.0),
            };
            chart.y_axis(axis.title);
            chart.x_axis();
            marks(&mut chart);
        });
    }

    /// Shades everything from 0 to `end` and names it.
    pub(super) fn shade(&mut self, end: f64, name: &str) {
        let (x, width) = (LEFT, self.x.at(end) - LEFT);
        if width < 1.0 {
            return;
        }
        self.rect("warmup", x, TOP, width, BOTTOM - TOP);
        if width > 52.0 {
            self.text("note", x + 5.0, TOP + 13.0, "start", name);
        }
    }

    /// A line through the known values; gaps stay gaps, and a value between two gaps is a dot.
    pub(super) fn line(&mut self, class: &str, points: &[(f64, Option<f64>)]) {
        for segment in points.split(|(_, y)| y.is_none()) {
            let pixels: Vec<(f64, f64)> = segment
                .iter()
                .filter_map(|(x, y)| y.map(|y| (self.x.at(*x), self.y.at(y))))
                .collect();
            match pixels.as_slice() {
                [] => {}
                [(x, y)] => self.out.empty(
                    "circle",
                    &[("class", &class), ("cx", &Px(*x)), ("cy", &Px(*y)), ("r", &3.5)],
                ),
                pixels => {
                    let path = path(pixels.iter().copied());
                    self.out.empty("path", &[("class", &class), ("d", &path)]);
                }
            }
        }
    }

    /// The area between two step functions: `(from, to, low, high)` for each step, without gaps.
    pub(super) fn steps(&mut self, class: &str, steps: &[(f64, f64, f64, f64)]) {
        let up = steps.iter().flat_map(|&(from, to, _, high)| [(from, high), (to, high)]);
        let down = steps.iter().rev().flat_map(|&(from, to, low, _)| [(to, low), (from, low)]);
        let pixels = up.chain(down).map(|(x, y)| (self.x.at(x), self.y.at(y)));
        let path = path(pixels) + "z";
        self.out.empty("path", &[("class", &class), ("d", &path)]);
    }

    /// Labels at the right edge, moved apart so far that none covers another.
    pub(super) fn end_labels(&mut self, mut labels: Vec<EndLabel>) {
        labels.sort_by(|a, b| self.y.at(a.y).total_cmp(&self.y.at(b.y)));
        let wanted: Vec<f64> = labels.iter().map(|label| self.y.at(label.y)).collect();
        for (label, y) in labels.iter().zip(spread(&wanted, TOP + 4.0, BOTTOM)) {
            let class = format!("swatch {}", label.class);
            let path = path([(RIGHT + 6.0, y), (RIGHT + 16.0, y)].into_iter());
            self.out.empty("path", &[("class", &class), ("d", &path)]);
            self.text("label", RIGHT + 20.0, y + 4.0, "start", &label.text);
        }
    }

    /// A text that shows up while the pointer is between `from` and `to`.
    pub(super) fn tip(&mut self, from: f64, to: f64, text: &str) {
        let (x, end) = (self.x.at(from), self.x.at(to));
        let (x, width, height) = (Px(x), Px(end - x), Px(BOTTOM - TOP));
        let attributes: [(&str, &dyn std::fmt::Display); 5] =
            [("class", &"tip"), ("x", &x), ("y", &TOP), ("width", &width), ("height", &height)];
        self.out.tag("rect", &attributes, |m| m.leaf("title", &[], text));
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

    fn x_axis(&mut self) {
        self.rule("base", (LEFT, BOTTOM), (RIGHT, BOTTOM));
        let (unit, title) = if self.x_hi >= MILLIONS_FROM {
            (1e6, "requests since the start, in millions")
        } else {
            (1.0, "requests since the start")
        };
        let Ticks { step, values } = ticks(0.0, self.x_hi / unit, 5, 1.0 / unit);
        for value in values {
            let x = self.x.at(value * unit);
            self.rule("base", (x, BOTTOM), (x, BOTTOM + 4.0));
            self.text("tick", x, BOTTOM + 18.0, "middle", &format::tick(value, step));
        }
        self.text("axis", (LEFT + RIGHT) / 2.0, BOTTOM + 38.0, "middle", title);
    }

    fn rule(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let path = path([from, to].into_iter());
        self.out.empty("path", &[("class", &class), ("d", &path)]);
    }

    fn rect(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64) {
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

    fn text(&mut self, class: &str, x: f64, y: f64, anchor: &str, text: &str) {
        self.out.leaf(
            "text",
            &[("class", &class), ("x", &Px(x)), ("y", &Px(y)), ("text-anchor", &anchor)],
            text,
        );
    }
}

/// A polyline as path data.
fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut text = String::new();
    for (index, (x, y)) in points.enumerate() {
        text.push(if index == 0 { 'M' } else { 'L' });
        text.push_str(&format!("{} {}", Px(x), Px(y)));
    }
    text
}

/// Moves ascending positions apart to [`LABEL_GAP`], as little as a single sweep down and up needs.
fn spread(wanted: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    let mut placed: Vec<f64> = wanted.to_vec();
    let mut least = top;
    for y in &mut placed {
        *y = y.max(least);
        least = *y + LABEL_GAP;
    }
    let mut most = bottom;
    for y in placed.iter_mut().rev() {
        *y = y.min(most);
        most = *y - LABEL_GAP;
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(marks: impl FnOnce(&mut Chart<'_>)) -> String {
        let mut out = Markup::default();
        let axis = YAxis { title: "DLWA", lo: 0.0, hi: 10.0, share: false };
        Chart::draw(&mut out, "sample", 100.0, axis, marks);
        out.finish()
    }

    #[test]
    fn labels_are_moved_apart_and_stay_inside() {
        assert_eq!(spread(&[50.0, 50.0], 0.0, 200.0), [50.0, 66.0]);
        assert_eq!(spread(&[199.0, 200.0], 0.0, 200.0), [184.0, 200.0]);
        assert_eq!(spread(&[10.0, 100.0], 0.0, 200.0), [10.0, 100.0]);
        assert!(spread(&[], 0.0, 200.0).is_empty());
    }

    #[test]
    fn a_gap_splits_the_line_and_a_lone_value_is_a_dot() {
        let points = [(0.0, Some(1.0)), (1.0, Some(2.0)), (2.0, None), (3.0, Some(3.0))];
        let svg = drawn(|chart| chart.line("mine", &points));
        assert_eq!(svg.matches("<path class=\"mine\"").count(), 1);
        assert_eq!(svg.matches("<circle class=\"mine\"").count(), 1);
    }

    #[test]
    fn axes_name_what_they_measure() {
        let svg = drawn(|_| {});
        assert!(svg.contains(">DLWA</text>"));
        assert!(svg.contains(">requests since the start</text>"));
        assert!(svg.contains(">100</text>"));
    }

    #[test]
    fn a_short_warm_up_is_shaded_without_a_name() {
        assert!(drawn(|chart| chart.shade(50.0, "warm-up")).contains(">warm-up<"));
        assert!(!drawn(|chart| chart.shade(2.0, "warm-up")).contains(">warm-up<"));
        assert!(!drawn(|chart| chart.shade(0.0, "warm-up")).contains("class=\"warmup\""));
    }
}
