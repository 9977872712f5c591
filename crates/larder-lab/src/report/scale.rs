//! Maps values to pixels, and chooses round numbers for the axes.

/// A linear map from values to pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    lo: f64,
    hi: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// Maps `lo` to pixel `from` and `hi` to pixel `to`. An empty range is widened to 1.
    pub(super) fn new((lo, hi): (f64, f64), (from, to): (f64, f64)) -> Self {
        let hi = if hi > lo { hi } else { lo + 1.0 };
        Self { lo, hi, from, to }
    }

    /// The pixel of `value`; values outside the range are drawn at its edge.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = ((value - self.lo) / (self.hi - self.lo)).clamp(0.0, 1.0);
        self.from + share * (self.to - self.from)
    }
}

/// Ticks of an axis: multiples of a round step.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ticks {
    /// Distance between ticks.
    pub(super) step: f64,
    /// The ticks, in ascending order.
    pub(super) values: Vec<f64>,
}

/// Largest number of ticks of an axis. Bounds the loop for any numbers.
const TICKS_MAX: u32 = 64;

/// The smallest of 1, 2, 2.5 and 5 times a power of ten that divides `span` into at most `count`
/// parts.
pub(super) fn round_step(span: f64, count: u32) -> f64 {
    let wanted = span / f64::from(count.max(1));
    if !wanted.is_normal() || wanted < 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(wanted.log10().floor());
    let factor = [1.0, 2.0, 2.5, 5.0]
        .into_iter()
        .find(|factor| factor * power >= wanted * (1.0 - 1e-9))
        .unwrap_or(10.0);
    factor * power
}

/// Ticks from `lo` to `hi`, about `count` of them and none closer than `step_min`.
pub(super) fn ticks(lo: f64, hi: f64, count: u32, step_min: f64) -> Ticks {
    let step = round_step(hi - lo, count).max(step_min);
    let first = (lo / step - 1e-9).ceil();
    let values = (0..TICKS_MAX)
        .map(|k| (first + f64::from(k)) * step)
        .take_while(|value| *value <= hi + step * 1e-6)
        .collect();
    Ticks { step, values }
}

/// Ends an axis that begins at `lo` on the first tick at or above `hi`.
pub(super) fn round_up(lo: f64, hi: f64, count: u32) -> f64 {
    let step = round_step(hi - lo, count);
    (hi / step - 1e-9).ceil() * step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round() {
        assert_eq!(round_step(10.0, 5), 2.0);
        assert_eq!(round_step(1.2, 5), 0.25);
        assert_eq!(round_step(0.9, 5), 0.2);
        assert_eq!(round_step(7_000_000.0, 5), 2_000_000.0);
        assert_eq!(round_step(100.0, 2), 50.0);
    }

    #[test]
    fn odd_spans_still_have_a_step() {
        for span in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(round_step(span, 5), 1.0);
        }
        assert_eq!(round_step(1.0, 0), 1.0);
    }

    #[test]
    fn ticks_begin_and_end_within_the_axis() {
        assert_eq!(ticks(1.0, 3.5, 5, 0.0).values, [1.0, 1.5, 2.0, 2.5, 3.0, 3.5]);
        assert_eq!(ticks(0.0, 1.0, 4, 0.0).values, [0.0, 0.25, 0.5, 0.75, 1.0]);
        assert_eq!(ticks(0.0, 3.0, 6, 1.0).values, [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(ticks(0.3, 0.9, 3, 0.0).values.len(), 3);
    }

    #[test]
    fn ticks_are_bounded_whatever_the_numbers() {
        assert!(ticks(0.0, f64::INFINITY, 5, 0.0).values.len() <= 64);
        assert!(ticks(f64::NAN, 1.0, 5, 0.0).values.is_empty());
    }

    #[test]
    fn axes_end_on_a_tick() {
        assert_eq!(round_up(1.0, 3.4, 5), 3.5);
        assert_eq!(round_up(0.0, 1.0, 5), 1.0);
        assert!((round_up(0.0, 0.81, 5) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn scales_clamp_and_never_divide_by_zero() {
        let scale = Scale::new((0.0, 10.0), (100.0, 0.0));
        assert_eq!(scale.at(5.0), 50.0);
        assert_eq!(scale.at(20.0), 0.0);
        assert_eq!(Scale::new((3.0, 3.0), (0.0, 10.0)).at(3.0), 0.0);
    }
}
