//! The marks in a chart: lines, areas, bars, points, spreads, labels.

use super::chart::{BOTTOM, Chart, LEFT, NAME_LINE, RIGHT, TOP, WIDTH, letters_in, path, wrapped};
use super::format::Px;

/// Least distance between two labels at the right edge.
const LABEL_GAP: f64 = 16.0;
/// Distance between two entries of a legend.
const LEGEND_GAP: f64 = 20.0;
/// Half of the width of a spread's end caps.
const CAP: f64 = 4.0;
/// Share of its place that a group of bars takes, and the largest width of a bar.
const BARS_SHARE: f64 = 0.8;
const BAR_MAX: f64 = 34.0;
/// Half of the diagonal of a published value's diamond.
const DIAMOND: f64 = 6.5;

/// A label at the right edge, next to the mark that it names.
pub(super) struct EndLabel {
    /// Its preferred position, as a value of the vertical axis.
    pub(super) y: f64,
    /// Its text.
    pub(super) text: String,
    /// Class of its text and of its swatch.
    pub(super) class: &'static str,
}

/// The symbol in front of a legend entry.
#[derive(Clone, Copy)]
pub(super) enum Swatch {
    /// A line with the points on it.
    Line,
    /// A line without points.
    PlainLine,
    /// A bar.
    Bar,
    /// The diamond of published values.
    Diamond,
}

impl Chart<'_> {
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

    /// A line through the known values. Gaps stay open, and a value between two gaps is a dot.
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

    /// A bar from the axis to `value`: number `slot` of `slots` bars side by side in their place, which extends from
    /// the whole number below `place` to the one above. Returns the position of its middle.
    #[allow(clippy::cast_precision_loss)] // a few bars
    pub(super) fn bar(
        &mut self,
        class: &str,
        (place, slot, slots): (f64, usize, usize),
        value: f64,
    ) -> f64 {
        let room = self.x.at(place.floor() + 1.0) - self.x.at(place.floor());
        let width = (room * BARS_SHARE / slots.max(1) as f64).min(BAR_MAX);
        let first = self.x.at(place.floor()) + (room - width * slots as f64) / 2.0;
        let left = first + width * slot as f64;
        let top = self.y.at(value);
        self.rect(&format!("bar {class}"), left + 1.0, top, width - 2.0, BOTTOM - top);
        left + width / 2.0
    }

    /// A point of a line, with the shape of its class.
    pub(super) fn point(&mut self, class: &str, x: f64, value: f64) {
        let y = self.y.at(value);
        self.point_at(class, x, y);
    }

    /// The range from the minimum to the maximum of the seeds; nothing where they are equal. `x` is in pixels.
    pub(super) fn spread(&mut self, class: &str, x: f64, least: f64, most: f64) {
        let (top, bottom) = (self.y.at(most), self.y.at(least));
        if bottom - top < 1.5 {
            return;
        }
        let cap = |y: f64| path([(x - CAP, y), (x + CAP, y)].into_iter());
        let path = path([(x, top), (x, bottom)].into_iter()) + &cap(top) + &cap(bottom);
        self.out.empty("path", &[("class", &format!("spread {class}")), ("d", &path)]);
    }

    /// A published value, as a diamond. `x` in pixels.
    pub(super) fn published(&mut self, class: &str, x: f64, value: f64) {
        let y = self.y.at(value);
        self.diamond(class, x, y);
    }

    /// A level across the whole chart, with its name above the right end.
    pub(super) fn level(&mut self, value: f64, name: &str) {
        let y = self.y.at(value);
        self.rule("level", (LEFT, y), (RIGHT, y));
        self.text("note", LEFT + 5.0, y - 5.0, "start", name);
    }

    /// Labels at the right edge, moved apart so that none covers another.
    pub(super) fn end_labels(&mut self, mut labels: Vec<EndLabel>) {
        labels.sort_by(|a, b| self.y.at(a.y).total_cmp(&self.y.at(b.y)));
        let wanted: Vec<f64> = labels.iter().map(|label| self.y.at(label.y)).collect();
        for (label, y) in labels.iter().zip(spread(&wanted, TOP + 4.0, BOTTOM)) {
            let class = format!("swatch {}", label.class);
            self.rule(&class, (RIGHT + 6.0, y), (RIGHT + 16.0, y));
            self.text("label", RIGHT + 20.0, y + 4.0, "start", &label.text);
        }
    }

    /// A legend at the right edge, from the top down. Long names take several lines.
    pub(super) fn legend(&mut self, entries: &[(Swatch, &str, &str)]) {
        let (left, right) = (RIGHT + 8.0, RIGHT + 28.0);
        let middle = f64::midpoint(left, right);
        let mut y = TOP + 6.0;
        for (swatch, class, text) in entries {
            match swatch {
                Swatch::Line | Swatch::PlainLine => {
                    self.rule(&format!("line {class}"), (left, y), (right, y));
                    if matches!(swatch, Swatch::Line) {
                        self.point_at(class, middle, y);
                    }
                }
                Swatch::Bar => {
                    self.rect(&format!("bar {class}"), middle - 6.0, y - 6.0, 12.0, 12.0)
                }
                Swatch::Diamond => self.diamond(class, middle, y),
            }
            let x = right + 5.0;
            let mut line_y = y + 4.0;
            for line in wrapped(text, letters_in(WIDTH - x)) {
                self.text("label", x, line_y, "start", &line);
                line_y += NAME_LINE;
            }
            // The next entry starts below the last line of this one.
            y = line_y - 4.0 - NAME_LINE + LEGEND_GAP;
        }
    }

    /// A tooltip while the pointer is between `from` and `to`.
    pub(super) fn tip(&mut self, from: f64, to: f64, text: &str) {
        let (x, end) = (self.x.at(from), self.x.at(to));
        let (x, width, height) = (Px(x), Px(end - x), Px(BOTTOM - TOP));
        let attributes: [(&str, &dyn std::fmt::Display); 5] =
            [("class", &"tip"), ("x", &x), ("y", &TOP), ("width", &width), ("height", &height)];
        self.out.tag("rect", &attributes, |m| m.leaf("title", &[], text));
    }

    /// A circle for "on", a square for "off", triangles for others, so that colour is never the only difference.
    fn point_at(&mut self, class: &str, x: f64, y: f64) {
        let class = format!("point {class}");
        if class.contains(" on") {
            let circle: [(&str, &dyn std::fmt::Display); 4] =
                [("class", &class), ("cx", &Px(x)), ("cy", &Px(y)), ("r", &4)];
            return self.out.empty("circle", &circle);
        }
        if class.contains(" off") {
            return self.rect(&class, x - 4.0, y - 4.0, 8.0, 8.0);
        }
        let up = if class.contains(" third") { -1.0 } else { 1.0 };
        let corners = [(x - 5.0, y - 4.0 * up), (x + 5.0, y - 4.0 * up), (x, y + 5.0 * up)];
        let path = path(corners.into_iter()) + "z";
        self.out.empty("path", &[("class", &class), ("d", &path)]);
    }

    fn diamond(&mut self, class: &str, x: f64, y: f64) {
        let class = format!("published {class}");
        let corners = [(x - DIAMOND, y), (x, y - DIAMOND), (x + DIAMOND, y), (x, y + DIAMOND)];
        let path = path(corners.into_iter()) + "z";
        self.out.empty("path", &[("class", &class), ("d", &path)]);
    }
}

/// Moves ascending positions apart to [`LABEL_GAP`], with a single sweep down and one up.
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
    use crate::report::chart::{XAxis, YAxis};
    use crate::report::markup::Markup;

    fn drawn(marks: impl FnOnce(&mut Chart<'_>)) -> String {
        let mut out = Markup::default();
        let axis = YAxis { title: "DLWA", lo: 0.0, hi: 10.0, share: false };
        Chart::draw(&mut out, "sample", XAxis::Requests(100.0), axis, marks);
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
    fn a_short_warm_up_is_shaded_without_a_name() {
        assert!(drawn(|chart| chart.shade(50.0, "warm-up")).contains(">warm-up<"));
        assert!(!drawn(|chart| chart.shade(2.0, "warm-up")).contains(">warm-up<"));
        assert!(!drawn(|chart| chart.shade(0.0, "warm-up")).contains("class=\"warmup\""));
    }

    #[test]
    fn shapes_differ_and_not_only_colours() {
        let svg = drawn(|chart| {
            chart.point("on", 100.0, 1.0);
            chart.point("off", 100.0, 2.0);
            chart.point("third", 100.0, 3.0);
            chart.published("on", 100.0, 4.0);
        });
        assert!(svg.contains("<circle class=\"point on\""));
        assert!(svg.contains("<rect class=\"point off\""));
        assert!(svg.contains("<path class=\"point third\""));
        assert!(svg.contains("<path class=\"published on\""));
    }

    #[test]
    fn a_spread_of_nothing_is_not_drawn() {
        assert!(drawn(|chart| chart.spread("on", 100.0, 1.0, 2.0)).contains("class=\"spread on\""));
        assert!(
            !drawn(|chart| chart.spread("on", 100.0, 1.0, 1.0)).contains("class=\"spread on\"")
        );
    }

    #[test]
    fn bars_share_their_place() {
        let mut middles = Vec::new();
        drawn(|chart| {
            middles = (0..2).map(|slot| chart.bar("on", (0.5, slot, 2), 5.0)).collect();
        });
        assert!(middles[0] < middles[1]);
    }
}
