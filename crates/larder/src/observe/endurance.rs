//! Drive endurance: what the drive is rated for, what was written, and how fast.
//!
//! With W bytes written to the flash in the last S seconds, and T bytes written over the drive's life:
//!
//! - bytes per day = W · 86,400 / S
//! - days left = (rated bytes - T) / bytes per day, or 0 if T exceeds the rating.
//!
//! S is a day, or the time since the cache was opened if that is less.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use larder_device::Device;

use crate::base::error::Error;

const DAY_S: u64 = 86_400;
/// Interval of the kept samples: a day has 24.
const SAMPLE_S: u64 = 3_600;
/// A shorter window gives no forecast.
const WINDOW_S_MIN: u64 = 60;

/// The endurance rating of a drive.
///
/// A data sheet says how much a host may write (TBW, terabytes written) under a workload of its own. The drive writes
/// more to its flash than the host does. Where the device reports that number, it is compared with the rating. That
/// is cautious: the rating allows for some write amplification, but does not say how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endurance {
    /// Bytes that may be written in the drive's life.
    pub rated_bytes: u64,
    /// Bytes written before this cache was opened, from the drive's health log ("Data Units Written", in units of
    /// 512,000 bytes); 0 for a new drive.
    pub written_bytes: u64,
}

impl Endurance {
    /// A new drive rated in terabytes written (TBW), of 10^12 bytes. Saturates at 64 bits.
    ///
    /// ```
    /// use larder::Endurance;
    ///
    /// assert_eq!(Endurance::of_tbw(600).rated_bytes, 600_000_000_000_000);
    /// ```
    pub fn of_tbw(terabytes: u64) -> Self {
        Self { rated_bytes: terabytes.saturating_mul(1_000_000_000_000), written_bytes: 0 }
    }

    /// A new drive of `capacity_bytes`, rated in drive writes per day (DWPD) over a warranty of `years` years of 365
    /// days.
    ///
    /// ```
    /// use larder::Endurance;
    ///
    /// let drive = Endurance::of_dwpd(1.0, 1_000_000_000_000, 5.0);
    /// assert_eq!(drive.rated_bytes, 1_825_000_000_000_000);
    /// ```
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
    #[allow(clippy::cast_sign_loss)] // the conversion saturates
    pub fn of_dwpd(drive_writes_per_day: f64, capacity_bytes: u64, years: f64) -> Self {
        let rated = drive_writes_per_day * capacity_bytes as f64 * years * 365.0;
        Self { rated_bytes: rated as u64, written_bytes: 0 }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.rated_bytes == 0 {
            return Err(Error::config(
                "endurance.rated_bytes = 0: must be at least 1; use None if it is not known",
            ));
        }
        Ok(())
    }

    /// The forecast for a drive to which `written_bytes` were written since the cache was opened, `window_bytes` of
    /// them in the last `window_s` seconds.
    ///
    /// ```
    /// use larder::Endurance;
    ///
    /// let life = Endurance::of_tbw(1).forecast(0, 1_000_000_000, 3600);
    /// assert_eq!(life.bytes_per_day, Some(24_000_000_000));
    /// ```
    pub fn forecast(&self, written_bytes: u64, window_bytes: u64, window_s: u64) -> DriveLife {
        let written = self.written_bytes.saturating_add(written_bytes);
        let left = self.rated_bytes.saturating_sub(written);
        let by_time = |bytes: u64, factor: u64, divisor: u64| {
            let exact = u128::from(bytes) * u128::from(factor) / u128::from(divisor);
            u64::try_from(exact).unwrap_or(u64::MAX)
        };
        let known = window_s >= WINDOW_S_MIN;
        DriveLife {
            written_bytes: written,
            left_bytes: left,
            bytes_per_day: known.then(|| by_time(window_bytes, DAY_S, window_s)),
            days_left: match (left, window_bytes) {
                (0, _) => Some(0),
                (_, 0) => None,
                _ if !known => None,
                // Do not compute from the rounded bytes per day, which may be 0 for a slow writer.
                _ => Some(days(left, window_bytes, window_s)),
            },
        }
    }
}

/// left / (window_bytes · DAY_S / window_s), rounded down.
fn days(left: u64, window_bytes: u64, window_s: u64) -> u64 {
    let days =
        u128::from(left) * u128::from(window_s) / (u128::from(window_bytes) * u128::from(DAY_S));
    u64::try_from(days).unwrap_or(u64::MAX)
}

/// How much of the drive's life is used up, and how long the rest lasts. Counts media bytes where the device reports
/// them, else the bytes written to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DriveLife {
    /// Bytes written over the drive's life: before the cache was opened, and since.
    pub written_bytes: u64,
    /// Bytes that the rating leaves.
    pub left_bytes: u64,
    /// Bytes written per day, at the rate of the last day. `None` in the first minute.
    pub bytes_per_day: Option<u64>,
    /// Whole days until the rating is used up at that rate. `None` if nothing was written, and in the first minute.
    pub days_left: Option<u64>,
}

/// Bytes that reached the flash since the device was opened: what the drive wrote to its media, or, if it does not
/// report that, what was written to the drive. The drive's own counters are up to a minute old; bytes written since
/// the last reading count once.
pub(crate) fn written_bytes(device: &dyn Device) -> u64 {
    device.stats().flash_written_bytes()
}

/// Wear of the drive under a cache.
pub(crate) struct Wear {
    endurance: Endurance,
    /// Bytes written when the cache was opened; the device may have been open before.
    first_bytes: u64,
    /// Time in seconds and bytes written, oldest first: the newest sample that is at least a day old, then newer ones
    /// at least [`SAMPLE_S`] apart.
    samples: Mutex<VecDeque<(u64, u64)>>,
}

impl Wear {
    pub(crate) fn new(endurance: Endurance, device: &dyn Device, now: Duration) -> Self {
        let first_bytes = written_bytes(device);
        let samples = Mutex::new(VecDeque::from([(now.as_secs(), first_bytes)]));
        Self { endurance, first_bytes, samples }
    }

    /// Also takes a sample, so the window is only as precise as the calls are frequent.
    pub(crate) fn forecast(&self, device: &dyn Device, now: Duration) -> DriveLife {
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let (now_s, written) = (now.as_secs(), written_bytes(device));
        let age_s = |&(at_s, _): &(u64, u64)| now_s.saturating_sub(at_s);
        while samples.get(1).is_some_and(|second| age_s(second) >= DAY_S) {
            samples.pop_front();
        }
        let (window_s, window_bytes) = samples
            .front()
            .map_or((0, 0), |oldest| (age_s(oldest), written.saturating_sub(oldest.1)));
        if samples.back().is_none_or(|newest| age_s(newest) >= SAMPLE_S) {
            samples.push_back((now_s, written));
        }
        let since_opened = written.saturating_sub(self.first_bytes);
        self.endurance.forecast(since_opened, window_bytes, window_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRIVE: Endurance = Endurance { rated_bytes: 1_000_000, written_bytes: 100_000 };

    #[test]
    fn the_rest_lasts_as_long_as_it_is_written_at_this_rate() {
        let life = DRIVE.forecast(400_000, 500, DAY_S / 2);
        assert_eq!((life.written_bytes, life.left_bytes), (500_000, 500_000));
        assert_eq!((life.bytes_per_day, life.days_left), (Some(1000), Some(500)));
        let faster = DRIVE.forecast(400_000, 5000, DAY_S / 2);
        assert_eq!((faster.bytes_per_day, faster.days_left), (Some(10_000), Some(50)));
    }

    #[test]
    fn nothing_written_is_no_forecast_and_nothing_left_is_none() {
        let idle = DRIVE.forecast(0, 0, DAY_S);
        assert_eq!((idle.bytes_per_day, idle.days_left), (Some(0), None));
        let early = DRIVE.forecast(10, 10, WINDOW_S_MIN - 1);
        assert_eq!((early.bytes_per_day, early.days_left), (None, None));
        let worn = DRIVE.forecast(900_001, 10, DAY_S);
        assert_eq!((worn.left_bytes, worn.days_left), (0, Some(0)));
        let slow = Endurance { rated_bytes: u64::MAX, written_bytes: 0 };
        assert_eq!(slow.forecast(0, 1, u64::MAX).days_left, Some(u64::MAX));
        assert_eq!(slow.forecast(0, 1, 10 * DAY_S).bytes_per_day, Some(0));
    }

    #[test]
    fn ratings_of_data_sheets() {
        assert_eq!(Endurance::of_tbw(3500).rated_bytes, 3_500_000_000_000_000);
        let rated = Endurance::of_dwpd(1.0, 1_920_000_000_000, 5.0).rated_bytes;
        assert_eq!(rated, 3_504_000_000_000_000);
        let error = Endurance::of_tbw(0).check().unwrap_err().to_string();
        assert!(error.contains("endurance.rated_bytes = 0: must be at least 1"), "{error}");
    }
}
