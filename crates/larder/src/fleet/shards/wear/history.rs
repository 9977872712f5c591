//! How fast a drive wears: samples of what was written to its media.

use std::collections::VecDeque;

use larder_device::DeviceStats;

use super::rule::DriveWear;

const DAY_S: u64 = 86_400;
/// Interval of the kept samples.
const SAMPLE_S: u64 = 3_600;
/// The rate is that of the last week: bytes that keys have moved with count soon, and days of the week do not.
const WINDOW_S: u64 = 7 * DAY_S;
/// A shorter window gives no rate.
const WINDOW_S_MIN: u64 = DAY_S;
/// From this percentage used on, a drive's own numbers say what it is rated for: a step of 1 % is then a fifth at most.
const OWN_RATING_PERCENT_MIN: u8 = 5;

/// What a drive reports at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct WearSample {
    /// Seconds since 1970.
    pub(super) at_s: u64,
    /// Bytes written to media, over the drive's life where it reports them, else since it was opened.
    pub(super) media_bytes: u128,
    /// The bytes are those of the drive's life.
    pub(super) is_of_life: bool,
    pub(super) used_percent: Option<u8>,
    pub(super) age_days: Option<f64>,
}

impl WearSample {
    /// What a device says now. Several drives below it count as one; the most worn one gives the percentage.
    pub(super) fn of(stats: &DeviceStats, at_s: u64) -> Self {
        let counters = stats.drives.iter().map(|drive| drive.counters);
        let life: Option<u128> =
            counters.map(|it| it.map(|it| it.media_bytes)).sum::<Option<u128>>();
        let life = life.filter(|_| !stats.drives.is_empty());
        let hours = stats.drives.iter().filter_map(|drive| drive.power_on_hours).max();
        #[allow(clippy::cast_precision_loss)] // hours of a drive
        let age_days = hours.map(|hours| hours as f64 / 24.0);
        Self {
            at_s,
            media_bytes: life.unwrap_or_else(|| stats.flash_written_bytes().into()),
            is_of_life: life.is_some(),
            used_percent: stats.drives.iter().filter_map(|drive| drive.used_percent).max(),
            age_days,
        }
    }

    /// Bytes that the drive is rated for, by its own numbers.
    fn own_rating(&self) -> Option<f64> {
        let percent = self.used_percent.filter(|it| *it >= OWN_RATING_PERCENT_MIN)?;
        #[allow(clippy::cast_precision_loss)] // a ratio
        let bytes = self.media_bytes as f64;
        self.is_of_life.then(|| bytes * 100.0 / f64::from(percent)).filter(|bytes| *bytes > 0.0)
    }
}

/// The samples of a drive, oldest first: at most those of a week, an hour apart, and one before.
#[derive(Debug, Default)]
pub(super) struct WearHistory {
    /// The device whose samples these are.
    name: String,
    samples: VecDeque<WearSample>,
    /// The first and the last sample at which the percentage used has grown.
    steps: Option<(WearSample, WearSample)>,
}

impl WearHistory {
    /// Adds a sample of the device with this name. Another device, or counters that went back, begin anew.
    pub(super) fn add(&mut self, name: &str, sample: WearSample) {
        let went_back = self.samples.back().is_some_and(|last| {
            sample.media_bytes < last.media_bytes
                || sample.at_s < last.at_s
                || sample.is_of_life != last.is_of_life
                || sample.used_percent < last.used_percent
        });
        if self.name != name || went_back {
            *self = Self { name: name.to_owned(), ..Self::default() };
        }
        if let Some(last) = self.samples.back()
            && sample.used_percent > last.used_percent
        {
            let first = self.steps.map_or(sample, |(first, _)| first);
            self.steps = Some((first, sample));
        }
        let age_s = |it: &WearSample| sample.at_s.saturating_sub(it.at_s);
        while self.samples.get(1).is_some_and(|second| age_s(second) >= WINDOW_S) {
            self.samples.pop_front();
        }
        if self.samples.back().is_none_or(|last| age_s(last) >= SAMPLE_S) {
            self.samples.push_back(sample);
        }
    }

    /// Whether another sample is worth while.
    pub(super) fn is_due(&self, now_s: u64) -> bool {
        let next = |last: &WearSample| now_s < last.at_s || now_s - last.at_s >= SAMPLE_S;
        self.samples.back().is_none_or(next)
    }

    /// The wear of a drive that is rated for `rated_bytes`, unless its own numbers say otherwise. `None` without any.
    #[allow(clippy::cast_precision_loss)] // ratios
    pub(super) fn wear(&self, rated_bytes: Option<f64>) -> Option<DriveWear> {
        let (oldest, newest) = (self.samples.front()?, self.samples.back()?);
        let rated = newest.own_rating().or(rated_bytes).filter(|bytes| *bytes > 0.0);
        let used = newest.used_percent.map(|percent| f64::from(percent) / 100.0);
        let used = used.or_else(|| Some(newest.media_bytes as f64 / rated?))?;
        let span_s = newest.at_s - oldest.at_s;
        let by_bytes = rated.filter(|_| span_s >= WINDOW_S_MIN).map(|rated| {
            let bytes = newest.media_bytes - oldest.media_bytes;
            bytes as f64 / rated * DAY_S as f64 / span_s as f64
        });
        let per_day = by_bytes.or_else(|| self.by_steps());
        Some(DriveWear { used, per_day, age_days: newest.age_days })
    }

    /// The rate by the steps of the percentage used, for a drive whose rating is not known.
    #[allow(clippy::cast_precision_loss)] // a time
    fn by_steps(&self) -> Option<f64> {
        let (first, last) = self.steps?;
        let span_s = last.at_s.checked_sub(first.at_s).filter(|span| *span >= WINDOW_S_MIN)?;
        let percent = last.used_percent?.checked_sub(first.used_percent?)?;
        Some(f64::from(percent) / 100.0 * DAY_S as f64 / span_s as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = DAY_S;

    fn sample(at_s: u64, media_bytes: u128) -> WearSample {
        WearSample { at_s, media_bytes, ..WearSample::default() }
    }

    fn close(found: Option<f64>, expected: f64) {
        assert!(found.is_some_and(|it| (it - expected).abs() < 1e-9), "{found:?}, not {expected}");
    }

    #[test]
    fn a_day_is_needed_for_a_rate_and_a_week_is_looked_at() {
        let mut history = WearHistory::default();
        history.add("a", sample(0, 1_000));
        assert_eq!(history.wear(None), None, "no rating, no percentage");
        history.add("a", sample(DAY - 1, 1_500));
        let wear = history.wear(Some(10_000.0)).unwrap();
        assert_eq!((wear.used, wear.per_day), (0.15, None));
        for day in 1..=20 {
            // 100 bytes a day, and 300 in the last week.
            let bytes = 1_500 + 100 * u128::from(day) + 200 * u128::from(day.max(13) - 13);
            history.add("a", sample(day * DAY, bytes));
        }
        close(history.wear(Some(10_000.0)).unwrap().per_day, 0.03);
        assert!(history.samples.len() <= 9 && !history.is_due(20 * DAY + 3_599));
        assert!(history.is_due(20 * DAY + 3_600) && history.is_due(0), "a clock that was set back");
    }

    #[test]
    fn another_drive_or_counters_that_went_back_begin_anew() {
        for (name, next) in [("b", sample(2 * DAY, 9_000)), ("a", sample(2 * DAY, 10))] {
            let mut history = WearHistory::default();
            history.add("a", sample(0, 1_000));
            history.add("a", sample(DAY, 2_000));
            close(history.wear(Some(1e5)).unwrap().per_day, 0.01);
            history.add(name, next);
            assert_eq!(history.wear(Some(1e5)).unwrap().per_day, None);
        }
    }

    #[test]
    fn a_drive_that_reports_its_wear_is_believed() {
        let mut history = WearHistory::default();
        let of = |day, media_bytes, percent| WearSample {
            is_of_life: true,
            used_percent: Some(percent),
            age_days: Some(700.0),
            ..sample(day * DAY, media_bytes)
        };
        history.add("a", of(0, 390_000, 39));
        history.add("a", of(2, 400_000, 40));
        // It is rated for 1,000,000 bytes, whatever the setting says.
        let wear = history.wear(Some(5.0)).unwrap();
        assert_eq!((wear.used, wear.age_days), (0.4, Some(700.0)));
        close(wear.per_day, 0.005);
        // Too little is used to tell the rating: the setting counts.
        let mut young = WearHistory::default();
        young.add("a", of(0, 390_000, 2));
        young.add("a", of(2, 400_000, 2));
        close(young.wear(Some(100_000.0)).unwrap().per_day, 0.05);
        assert_eq!(young.wear(None).unwrap().per_day, None);
        // Without a rating, steps of the percentage are counted from the first one seen.
        for (day, percent) in [(10, 3), (20, 3), (30, 4), (50, 4)] {
            young.add("a", of(day, 400_000, percent));
        }
        close(young.wear(None).unwrap().per_day, 0.01 / 20.0);
    }
}
