//! What levelling across the drives of a set would gain: the rule of the server (`larder::DriveLevelling`), day by day,
//! on drives whose mean wear is that of the bill.

use larder::{DriveLevelling, DriveWear, LevellingPause};
use serde::Serialize;

/// Parts that a step moves, of all parts of a drive's keys.
const STEP: f64 = larder::LEVELLING_STEP_PARTS as f64 / 10_000.0;
const DAYS_PER_YEAR: f64 = 365.0;

/// The life of a set of drives that wear at different rates, with levelling across drives and without.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LevellingGain {
    /// Forecast of the drive that wears fastest by that of the one that wears slowest. Keys move from 1.3 on, if the
    /// fastest drive does not last for the planned years.
    pub ratio: f64,
    /// Years until the first drive is worn out, if all keys stay where they are.
    pub life_years_off: f64,
    /// The same if keys move; the planned years if no drive is worn out by then.
    pub life_years_on: f64,
    /// Years until the first drive would be worn out if all wore alike.
    pub life_years_even: f64,
    /// Share of the keys of the drive that wears fastest that have moved in the end.
    pub moved: f64,
    /// Steps until then, one a day at most.
    pub steps: u64,
    /// Why no keys move at the beginning; `null` if they do.
    pub pause: Option<String>,
}

/// The gain for drives that wear at rates in these proportions, whose mean drive lasts `life_years`, over `years`.
pub(super) fn gain(rates: &[f64], life_years: f64, years: f64) -> LevellingGain {
    let mean = rates.iter().sum::<f64>() / count(rates.len());
    let per_day: Vec<f64> =
        rates.iter().map(|rate| rate / mean / (life_years * DAYS_PER_YEAR)).collect();
    let rule = DriveLevelling { planned_days: years * DAYS_PER_YEAR };
    let fastest = per_day.iter().copied().fold(0.0, f64::max);
    let slowest = per_day.iter().copied().fold(f64::INFINITY, f64::min);
    let first = rule.choose(&wear(&per_day, &vec![0.0; rates.len()], 0.0), None);
    let (life_days, moved, steps) = with_levelling(&rule, &per_day);
    let at = per_day.iter().position(|rate| *rate == fastest).unwrap_or(0);
    LevellingGain {
        ratio: if slowest > 0.0 { fastest / slowest } else { f64::MAX },
        life_years_off: 1.0 / fastest / DAYS_PER_YEAR,
        life_years_on: match steps {
            0 => 1.0 / fastest / DAYS_PER_YEAR,
            _ => life_days / DAYS_PER_YEAR,
        },
        life_years_even: life_years,
        moved: moved[at],
        steps,
        pause: first.err().as_ref().map(LevellingPause::to_string),
    }
}

#[allow(clippy::cast_precision_loss)] // a number of drives
fn count(drives: usize) -> f64 {
    drives.max(1) as f64
}

fn wear(per_day: &[f64], used: &[f64], day: f64) -> Vec<Option<DriveWear>> {
    let of = |(per_day, used): (&f64, &f64)| {
        Some(DriveWear { used: *used, per_day: Some(*per_day), age_days: Some(day) })
    };
    per_day.iter().zip(used).map(of).collect()
}

/// Days until the first drive is worn out, at most the planned ones; the share of each drive's keys that has moved
/// away; and the number of steps.
fn with_levelling(rule: &DriveLevelling, at_first: &[f64]) -> (f64, Vec<f64>, u64) {
    let drives = at_first.len();
    let (mut per_day, mut used) = (at_first.to_vec(), vec![0.0; drives]);
    let (mut moved, mut last, mut steps, mut day) = (vec![0.0; drives], None, 0, 0.0);
    while day < rule.planned_days {
        if let Ok(choice) = rule.choose(&wear(&per_day, &used, day), last) {
            let (from, to) = (choice.from, choice.to);
            let share = STEP.min(1.0 - moved[from]);
            let rate = at_first[from] * share;
            (per_day[from], per_day[to]) = (per_day[from] - rate, per_day[to] + rate);
            moved[from] += share;
            last = Some((from, to));
            steps += 1;
        }
        let left = used.iter().zip(&per_day).map(|(used, rate)| (1.0 - used) / rate);
        let left = left.filter(|days| days.is_finite()).fold(f64::INFINITY, f64::min);
        if left <= 1.0 {
            return (day + left.max(0.0), moved, steps);
        }
        used.iter_mut().zip(&per_day).for_each(|(used, rate)| *used += rate);
        day += 1.0;
    }
    (rule.planned_days, moved, steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64, within: f64) {
        assert!((found - expected).abs() <= within, "{found}, expected {expected}");
    }

    /// Two like drives that last five years if they wear alike: the years of the reference without levelling.
    #[test]
    fn two_drives_last_as_the_arithmetic_says() {
        for (ratio, off) in [(3.0, 10.0 / 3.0), (2.0, 3.75), (1.5, 25.0 / 6.0)] {
            let gain = gain(&[ratio, 1.0], 5.0, 5.0);
            close(gain.life_years_off, off, 1e-9);
            assert!((0.95..=1.0).contains(&(gain.life_years_on / 5.0)), "{ratio}: {gain:?}");
            close(gain.ratio, ratio, 1e-9);
            assert_eq!((gain.pause, gain.life_years_even), (None, 5.0));
        }
        // A quarter of all writes has changed sides at 3 : 1, which is a third of the keys of the fast drive; a little
        // more, because it takes time, and less, because it ends at a ratio of 1.1.
        let three = gain(&[3.0, 1.0], 5.0, 5.0);
        close(three.moved, 0.33, 0.06);
    }

    #[test]
    fn nothing_is_gained_where_the_rule_does_not_move_keys() {
        let alike = gain(&[1.2, 1.0], 5.0, 5.0);
        assert_eq!((alike.steps, alike.life_years_on), (0, alike.life_years_off));
        assert!(alike.pause.unwrap().contains("below 1.3"));
        // The fastest drive lasts ten years, and five are planned.
        let lasting = gain(&[3.0, 1.0], 15.0, 5.0);
        assert_eq!(lasting.steps, 0);
        close(lasting.life_years_on, 10.0, 1e-9);
        assert!(lasting.pause.unwrap().contains("last as planned"));
    }

    #[test]
    fn four_drives_last_twice_as_long() {
        let gain = gain(&[3.0, 1.0, 1.0, 1.0], 5.0, 5.0);
        close(gain.life_years_off, 2.5, 1e-9);
        // It ends at a ratio of 1.1, not at equal wear.
        assert!((0.9..=1.0).contains(&(gain.life_years_on / 5.0)), "{gain:?}");
        assert!(gain.moved < 0.6 && gain.steps < 365, "{gain:?}");
    }
}
