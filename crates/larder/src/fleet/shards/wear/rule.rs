//! The rule of levelling across drives: which drive gives keys to which. It knows neither shards nor clocks.
//!
//! Each drive has used a part u of its rated life, uses r of it a day, and was put into service a days ago. Its
//! **forecast** is the part that it will have used at the end of its planned service of p days: u + r · (p - a). 1 is
//! a drive that lasts exactly as long as planned. The drive with the largest forecast gives keys to the one with the
//! smallest, if there is something to win:
//!
//! - the larger forecast is above 1: otherwise all drives outlive their planned service;
//! - the forecasts differ by a factor of at least [`LEVELLING_RATIO_MIN`]: less is not worth the moves. Once the drive
//!   has begun to give keys, it goes on down to [`LEVELLING_RATIO_END`];
//! - the giving drive has at most [`USED_MAX`] of its life behind it: later there is nothing to save;
//! - the last step was a day ago. A step moves [`LEVELLING_STEP_PARTS`] of 10,000 parts of the keys, so less than 2 % a
//!   week.
//!
//! Keys return by the same rule, if the forecasts differ as much in the other direction. So a drive whose rate changes
//! a little does not send keys to and fro.

use std::fmt;

/// A drive begins to give keys if forecasts differ by this factor.
pub const LEVELLING_RATIO_MIN: f64 = 1.3;
/// The drive that gave keys last goes on while forecasts differ by this factor.
pub const LEVELLING_RATIO_END: f64 = 1.1;
/// A drive that has used more of its life gives no keys, and gets none.
pub(super) const USED_MAX: f64 = 0.9;
/// Parts, of 10,000, of a drive's keys that a step moves.
pub const LEVELLING_STEP_PARTS: u16 = 28;
/// Time between two steps, in seconds.
pub(super) const STEP_S: u64 = 86_400;
/// The previous target gets keys again if its forecast exceeds the smallest one at most by this factor: otherwise
/// targets that wear alike would take turns, and each turn needs an entry in the record of moved keys.
const SAME_TARGET: f64 = 1.05;

/// Wear of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DriveWear {
    /// The used part of its rated life; may exceed 1.
    pub used: f64,
    /// The part of its rated life that it uses per day; `None` if it is not known yet.
    pub per_day: Option<f64>,
    /// Days in service. If it is not known, the drive counts as written at its present rate from the beginning.
    pub age_days: Option<f64>,
}

impl DriveWear {
    /// The part of its rated life that it will have used after `planned_days` days in service; `None` if its rate is
    /// not known.
    ///
    /// ```
    /// use larder::DriveWear;
    ///
    /// let drive = DriveWear { used: 0.3, per_day: Some(0.001), age_days: Some(300.0) };
    /// assert_eq!(drive.forecast(1000.0), Some(1.0));
    /// ```
    pub fn forecast(&self, planned_days: f64) -> Option<f64> {
        let per_day = self.per_day?;
        let age_days = self.age_days.or_else(|| (per_day > 0.0).then(|| self.used / per_day));
        let left = (planned_days - age_days.unwrap_or(0.0)).max(0.0);
        Some(self.used + per_day * left)
    }
}

/// Levelling of the wear of several drives, by moves of keys.
///
/// ```
/// use larder::{DriveLevelling, DriveWear};
///
/// let rule = DriveLevelling { planned_days: 1825.0 };
/// let drive = |rate: f64| DriveWear { per_day: Some(rate / 1825.0), ..DriveWear::default() };
/// let choice = rule.choose(&[Some(drive(1.5)), Some(drive(0.5))], None).unwrap();
/// assert_eq!((choice.from, choice.to), (0, 1));
/// assert!((choice.ratio - 3.0).abs() < 1e-9);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DriveLevelling {
    /// Days that a drive is to be in service.
    pub planned_days: f64,
}

/// Which drive is to give keys to which.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct LevellingChoice {
    /// Index of the drive that gives.
    pub from: usize,
    /// Index of the drive that gets.
    pub to: usize,
    /// The forecast of the one by that of the other.
    pub ratio: f64,
}

/// Why no keys move.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum LevellingPause {
    /// It is switched off.
    Off,
    /// Fewer than two drives have a known rate.
    Unknown,
    /// Every drive lasts for its planned service: the largest forecast.
    Lasting(f64),
    /// The drives wear nearly alike.
    Alike {
        /// The ratio of the forecasts.
        ratio: f64,
        /// What it must be at least.
        least: f64,
    },
    /// The giving drive is nearly worn out: the used part of its life.
    Worn(f64),
    /// No other drive can take keys: all others have used too much of their life.
    NoTarget,
    /// The last step was less than a day ago: seconds until the next one.
    Waiting(u64),
    /// A shard has failed, or is being refilled.
    NotHealthy,
    /// All keys of the giving drive are elsewhere, or the record of moved keys is full.
    Full,
}

impl fmt::Display for LevellingPause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Unknown => f.write_str("the wear of fewer than two drives is known"),
            Self::Lasting(forecast) => {
                write!(f, "all drives last as planned: at most {:.0} % used then", 100.0 * forecast)
            }
            Self::Alike { ratio, least } => write!(f, "ratio {ratio:.2} below {least}"),
            Self::Worn(used) => {
                let most = 100.0 * USED_MAX;
                write!(
                    f,
                    "{:.0} % of the life of the drive is used, above {most:.0} %",
                    100.0 * used
                )
            }
            Self::NoTarget => f.write_str("no other drive has life left to take keys"),
            Self::Waiting(seconds) => write!(f, "the next step is due in {seconds} s"),
            Self::NotHealthy => f.write_str("a shard is not healthy"),
            Self::Full => f.write_str("no more keys can move"),
        }
    }
}

impl DriveLevelling {
    /// The drives between which keys are to move. `None` stands for a drive that takes no part. `last` has the indexes
    /// of the drives between which keys have moved last, first that of the drive that gave them.
    ///
    /// # Errors
    /// Why no keys are to move.
    pub fn choose(
        &self,
        drives: &[Option<DriveWear>],
        last: Option<(usize, usize)>,
    ) -> Result<LevellingChoice, LevellingPause> {
        let forecast = |(at, drive): (usize, &Option<DriveWear>)| {
            let drive = (*drive)?;
            Some((at, drive.used, drive.forecast(self.planned_days).filter(|it| it.is_finite())?))
        };
        let known: Vec<_> = drives.iter().enumerate().filter_map(forecast).collect();
        let by_forecast = |a: &&(usize, f64, f64), b: &&(usize, f64, f64)| a.2.total_cmp(&b.2);
        let fast = *known.iter().max_by(by_forecast).ok_or(LevellingPause::Unknown)?;
        if known.len() < 2 {
            return Err(LevellingPause::Unknown);
        }
        let (from, used, most) = fast;
        if most <= 1.0 {
            return Err(LevellingPause::Lasting(most));
        }
        let fit = || known.iter().filter(|it| it.0 != from && it.1 <= USED_MAX);
        let slow = *fit().min_by(by_forecast).ok_or(LevellingPause::NoTarget)?;
        let again =
            fit().find(|it| last.is_some_and(|(_, to)| it.0 == to) && it.2 <= slow.2 * SAME_TARGET);
        let (to, _, least) = *again.unwrap_or(&slow);
        // A drive that wears not at all is slower by any factor.
        let ratio = if least > 0.0 { (most / least).min(1e6) } else { 1e6 };
        let has_begun = last.is_some_and(|(giver, _)| giver == from);
        let least = if has_begun { LEVELLING_RATIO_END } else { LEVELLING_RATIO_MIN };
        if ratio < least {
            return Err(LevellingPause::Alike { ratio, least });
        }
        if used > USED_MAX {
            return Err(LevellingPause::Worn(used));
        }
        Ok(LevellingChoice { from, to, ratio })
    }

    /// Whether a step may be taken now, if the last one was at `last_s`; both in seconds since 1970.
    ///
    /// # Errors
    /// [`LevellingPause::Waiting`].
    pub fn check_time(&self, last_s: u64, now_s: u64) -> Result<(), LevellingPause> {
        match last_s.saturating_add(STEP_S).saturating_sub(now_s) {
            0 => Ok(()),
            left => Err(LevellingPause::Waiting(left)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: f64 = 365.0;
    const RULE: DriveLevelling = DriveLevelling { planned_days: 5.0 * YEAR };

    /// A drive that has been written at `rate` times what it bears in five years, for `years`.
    fn drive(rate: f64, years: f64) -> DriveWear {
        let per_day = rate / RULE.planned_days;
        let age_days = years * YEAR;
        DriveWear { used: per_day * age_days, per_day: Some(per_day), age_days: Some(age_days) }
    }

    fn choose(drives: &[DriveWear]) -> Result<LevellingChoice, LevellingPause> {
        let drives: Vec<_> = drives.iter().copied().map(Some).collect();
        RULE.choose(&drives, None)
    }

    /// Two like drives whose mean rate is what they bear: the ratios of the reference, and how long the fast one lasts.
    #[test]
    fn the_forecast_is_that_of_the_arithmetic() {
        for (ratio, years) in [(3.0, 10.0 / 3.0), (2.0, 3.75), (1.5, 25.0 / 6.0)] {
            let (fast, slow) = (2.0 * ratio / (1.0 + ratio), 2.0 / (1.0 + ratio));
            let forecast = drive(fast, 1.0).forecast(RULE.planned_days).unwrap();
            assert!((5.0 / forecast - years).abs() < 1e-9, "{ratio}: {forecast}");
            let choice = choose(&[drive(slow, 1.0), drive(fast, 1.0)]).unwrap();
            assert_eq!((choice.from, choice.to), (1, 0));
            assert!((choice.ratio - ratio).abs() < 1e-9);
        }
        // At 3 : 1, the fast drive must run at 0.88 of the mean after one year, at 0.67 after two, 0.25 after three.
        for (years, rate) in [(1.0, 0.875), (2.0, 2.0 / 3.0), (3.0, 0.25)] {
            let slowed = DriveWear { per_day: Some(rate / RULE.planned_days), ..drive(1.5, years) };
            assert!((slowed.forecast(RULE.planned_days).unwrap() - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn nothing_moves_without_something_to_win() {
        let pause = |drives: &[DriveWear]| choose(drives).unwrap_err();
        let alike = [drive(1.2, 1.0), drive(1.0, 1.0)];
        assert!(matches!(pause(&alike), LevellingPause::Alike { least: LEVELLING_RATIO_MIN, .. }));
        // It goes on, once it has begun.
        let again = |drives: [DriveWear; 2], last| RULE.choose(&drives.map(Some), Some(last));
        assert_eq!(again(alike, (0, 1)).map(|it| it.to), Ok(1));
        assert!(again(alike, (1, 0)).is_err());
        assert!(again([drive(1.09, 1.0), drive(1.0, 1.0)], (0, 1)).is_err());
        assert!(choose(&[drive(1.31, 1.0), drive(1.0, 1.0)]).is_ok());
        // Three times as fast, and good for ten years.
        assert!(matches!(pause(&[drive(0.9, 1.0), drive(0.3, 1.0)]), LevellingPause::Lasting(_)));
        // 3.3 years at 1.5: nothing is left.
        assert!(matches!(pause(&[drive(1.5, 3.3), drive(0.5, 3.3)]), LevellingPause::Worn(_)));
        let worn = DriveWear { used: 0.95, ..drive(0.5, 3.0) };
        assert_eq!(pause(&[drive(2.0, 1.0), worn]), LevellingPause::NoTarget);
        assert_eq!(pause(&[]), LevellingPause::Unknown);
        let silent = DriveWear { per_day: None, ..drive(0.5, 1.0) };
        assert_eq!(pause(&[drive(2.0, 1.0), silent]), LevellingPause::Unknown);
        let broken = DriveWear { per_day: Some(f64::NAN), ..drive(0.5, 1.0) };
        assert_eq!(pause(&[drive(2.0, 1.0), broken]), LevellingPause::Unknown);
        assert_eq!(
            LevellingPause::Alike { ratio: 1.104, least: LEVELLING_RATIO_MIN }.to_string(),
            "ratio 1.10 below 1.3"
        );
    }

    #[test]
    fn a_drive_that_wears_more_but_has_life_left_need_not_give() {
        // The fast one is new: it will have used as much as the slow one, which is old.
        let old = DriveWear { used: 0.8, per_day: Some(0.4 / 1825.0), age_days: Some(3.0 * YEAR) };
        let new = drive(1.0, 0.0);
        assert!(matches!(choose(&[new, old]), Err(LevellingPause::Lasting(_))));
        let fast = drive(1.2, 0.0);
        assert!(matches!(choose(&[fast, old]), Err(LevellingPause::Alike { .. })));
    }

    #[test]
    fn the_slowest_of_several_gets_them_and_the_last_one_goes_on() {
        let drives = [drive(1.0, 0.0), drive(3.0, 0.0), drive(0.98, 0.0), drive(1.1, 0.0)];
        assert_eq!(choose(&drives).map(|it| (it.from, it.to)), Ok((1, 2)));
        let some = drives.map(Some);
        let again = |last| RULE.choose(&some, Some((1, last))).map(|it| it.to);
        assert_eq!((again(0), again(3)), (Ok(0), Ok(2)));
        assert_eq!(RULE.choose(&[some[0], some[1], None, None], None).map(|it| it.to), Ok(0));
        // A drive that is not written at all.
        assert_eq!(choose(&[drive(0.0, 1.0), drive(3.0, 0.0)]).map(|it| it.to), Ok(0));
    }

    #[test]
    fn a_week_of_steps_is_less_than_two_percent() {
        let steps_a_week = 7 * 86_400 / STEP_S;
        assert!(u64::from(LEVELLING_STEP_PARTS) * steps_a_week <= 200);
        assert_eq!(RULE.check_time(1000, 1000 + STEP_S - 1), Err(LevellingPause::Waiting(1)));
        assert_eq!(RULE.check_time(1000, 1000 + STEP_S), Ok(()));
        assert!(RULE.check_time(u64::MAX, 0).is_err(), "a clock that was set back");
    }
}
