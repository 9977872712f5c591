//! When a drive is worn out, and what a useful gigabyte costs.
//!
//! Manufacturers rate endurance in two ways. Program/erase cycles count bytes that reach the media. TBW and DWPD count
//! bytes that the host writes, under a workload of the manufacturer's choice. That workload has a write amplification
//! of its own, which must be known or assumed for a comparison. Here all ratings are converted to media bytes.

use super::{at_least, positive, refused};
use crate::error::Error;

/// Days per year, as warranties count them.
pub const DAYS_PER_YEAR: f64 = 365.0;

/// Bytes that can be written to the media of a drive before it is worn out. Assumes that the drive spreads its wear
/// evenly.
///
/// ```
/// use larder_ssd::analytic::life::{Endurance, media_bytes_per_day};
///
/// # fn main() -> Result<(), larder_ssd::Error> {
/// // 2 TiB of flash, 3000 cycles; 2 TB a day from the host, amplified 3.5 or 1.03 times.
/// let drive = Endurance::from_program_erase_cycles(2 << 40, 3000)?;
/// let mixed = drive.life_years(media_bytes_per_day(2e12, 3.5)?)?;
/// let separated = drive.life_years(media_bytes_per_day(2e12, 1.03)?)?;
/// assert!((2.5..2.6).contains(&mixed));
/// assert!((separated / mixed - 3.5 / 1.03).abs() < 1e-9);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Endurance {
    media_bytes: f64,
}

impl Endurance {
    /// From rated program/erase cycles and all flash of the drive, including over-provisioning.
    ///
    /// # Errors
    /// If either is 0.
    pub fn from_program_erase_cycles(flash_bytes: u64, rated_cycles: u32) -> Result<Self, Error> {
        if flash_bytes == 0 {
            return Err(refused("flash capacity in bytes", 0, format_args!("above 0")));
        }
        if rated_cycles == 0 {
            return Err(refused("rated program/erase cycles", 0, format_args!("above 0")));
        }
        Ok(Self { media_bytes: flash_bytes as f64 * f64::from(rated_cycles) })
    }

    /// From "terabytes written": host bytes, in units of 10¹² bytes, at the DLWA that the rating assumes. If the rating
    /// does not state one, 1 is the cautious assumption.
    ///
    /// # Errors
    /// If the rating is not above 0, or the DLWA is below 1.
    pub fn from_tbw(rated_tb: f64, rated_dlwa: f64) -> Result<Self, Error> {
        positive("rated endurance in TB written", rated_tb)?;
        at_least("DLWA of the rating", 1.0, rated_dlwa)?;
        Ok(Self { media_bytes: rated_tb * 1e12 * rated_dlwa })
    }

    /// From "drive writes per day": how many times a day the host may write the sold capacity, for the time of the
    /// warranty, at the DLWA that the rating assumes.
    ///
    /// # Errors
    /// If the rating, the capacity or the warranty is not above 0, or the DLWA is below 1.
    pub fn from_dwpd(
        drive_writes_per_day: f64,
        sold_bytes: u64,
        warranty_years: f64,
        rated_dlwa: f64,
    ) -> Result<Self, Error> {
        positive("rated drive writes per day", drive_writes_per_day)?;
        positive("capacity in bytes", sold_bytes as f64)?;
        positive("warranty in years", warranty_years)?;
        let host_bytes = drive_writes_per_day * sold_bytes as f64 * warranty_years * DAYS_PER_YEAR;
        Self::from_tbw(host_bytes / 1e12, rated_dlwa)
    }

    /// Bytes that the media can absorb before it is worn out.
    pub fn media_bytes(&self) -> f64 {
        self.media_bytes
    }

    /// Years until the drive is worn out. Considers wear only: a drive with few writes fails for other reasons long
    /// before that.
    ///
    /// # Errors
    /// If nothing is written per day, or the value is infinite or not a number.
    pub fn life_years(&self, media_bytes_per_day: f64) -> Result<f64, Error> {
        positive("media bytes per day", media_bytes_per_day)?;
        Ok(self.media_bytes / media_bytes_per_day / DAYS_PER_YEAR)
    }

    /// Media bytes per day that wear the drive out in `life_days`.
    ///
    /// # Errors
    /// If the days are not above 0.
    pub fn media_bytes_per_day(&self, life_days: f64) -> Result<f64, Error> {
        Ok(self.media_bytes / positive("life in days", life_days)?)
    }
}

/// Bytes per day that reach the media: the host's bytes times the device-wide DLWA.
///
/// # Errors
/// If the bytes are negative, infinite or not a number, or the DLWA is below 1.
pub fn media_bytes_per_day(host_bytes_per_day: f64, dlwa: f64) -> Result<f64, Error> {
    at_least("host bytes per day", 0.0, host_bytes_per_day)?;
    at_least("DLWA", 1.0, dlwa)?;
    Ok(host_bytes_per_day * dlwa)
}

/// A drive that is replaced whenever it is worn out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DriveBudget {
    /// Price of one drive, in any currency. At least 0.
    pub price: f64,
    /// Flash that holds cached data. Above 0.
    pub useful_gb: f64,
    /// Years that one drive lives: the lesser of [`Endurance::life_years`] and the warranty. Above 0.
    pub drive_life_years: f64,
    /// Years that the cache is to serve. Above 0.
    pub system_life_years: f64,
}

impl DriveBudget {
    /// Drives bought over the life of the system. At least one; above that it is the average of a fleet, in which a
    /// drive moves on to another system when its own retires.
    ///
    /// # Errors
    /// If a life is not above 0.
    pub fn drives(&self) -> Result<f64, Error> {
        positive("drive life in years", self.drive_life_years)?;
        positive("system life in years", self.system_life_years)?;
        Ok((self.system_life_years / self.drive_life_years).max(1.0))
    }

    /// Price of all drives bought, per GB that holds cached data.
    ///
    /// ```
    /// use larder_ssd::analytic::life::DriveBudget;
    ///
    /// # fn main() -> Result<(), larder_ssd::Error> {
    /// let half_full = DriveBudget {
    ///     price: 200.0,
    ///     useful_gb: 940.0,
    ///     drive_life_years: 5.0,
    ///     system_life_years: 5.0,
    /// };
    /// let full = DriveBudget { useful_gb: 1880.0, ..half_full };
    /// assert_eq!(half_full.cost_per_useful_gb()? / full.cost_per_useful_gb()?, 2.0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If a value is outside its range.
    pub fn cost_per_useful_gb(&self) -> Result<f64, Error> {
        at_least("price of a drive", 0.0, self.price)?;
        positive("useful capacity in GB", self.useful_gb)?;
        Ok(self.price * self.drives()? / self.useful_gb)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_ratings_of_one_drive() {
        // 1.92 TB sold, one drive write per day for five years: 3504 TBW.
        let dwpd = Endurance::from_dwpd(1.0, 1_920_000_000_000, 5.0, 2.0).unwrap();
        let tbw = Endurance::from_tbw(3504.0, 2.0).unwrap();
        assert!((dwpd.media_bytes() / tbw.media_bytes() - 1.0).abs() < 1e-12);
        assert!((tbw.media_bytes() / 7.008e15 - 1.0).abs() < 1e-12);
        let cycles = Endurance::from_program_erase_cycles(2_000_000_000_000, 3504).unwrap();
        assert!((cycles.media_bytes() / tbw.media_bytes() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn used_as_rated_a_drive_lasts_for_its_warranty() {
        let sold_bytes = 1_880_000_000_000_u64;
        for rated_dlwa in [1.0, 2.5] {
            let drive = Endurance::from_dwpd(0.8, sold_bytes, 5.0, rated_dlwa).unwrap();
            let media = media_bytes_per_day(0.8 * sold_bytes as f64, rated_dlwa).unwrap();
            assert!((drive.life_years(media).unwrap() - 5.0).abs() < 1e-9);
            assert!((drive.life_years(2.0 * media).unwrap() - 2.5).abs() < 1e-9);
        }
    }

    #[test]
    fn drives_that_wear_out_are_bought_again() {
        let budget = DriveBudget {
            price: 300.0,
            useful_gb: 1000.0,
            drive_life_years: 2.0,
            system_life_years: 5.0,
        };
        assert_eq!(budget.drives(), Ok(2.5));
        assert_eq!(budget.cost_per_useful_gb(), Ok(0.75));
        let lasting = DriveBudget { drive_life_years: 50.0, ..budget };
        assert_eq!(lasting.drives(), Ok(1.0));
        assert_eq!(lasting.cost_per_useful_gb(), Ok(0.3));
    }

    #[test]
    fn values_out_of_range_are_refused() {
        assert!(Endurance::from_program_erase_cycles(0, 3000).is_err());
        assert!(Endurance::from_program_erase_cycles(1 << 40, 0).is_err());
        assert!(Endurance::from_tbw(0.0, 1.0).is_err());
        assert!(Endurance::from_tbw(100.0, 0.5).is_err());
        assert!(Endurance::from_dwpd(0.0, 1, 5.0, 1.0).is_err());
        assert!(Endurance::from_dwpd(1.0, 0, 5.0, 1.0).is_err());
        assert!(Endurance::from_dwpd(1.0, 1, f64::NAN, 1.0).is_err());
        let drive = Endurance::from_tbw(100.0, 1.0).unwrap();
        let error = drive.life_years(0.0).unwrap_err().to_string();
        assert_eq!(error, "media bytes per day of 0: must be above 0 and finite");
        assert!(media_bytes_per_day(-1.0, 1.0).is_err());
        assert!(media_bytes_per_day(1.0, 0.9).is_err());
        let budget = DriveBudget {
            price: 1.0,
            useful_gb: 1.0,
            drive_life_years: 1.0,
            system_life_years: 1.0,
        };
        for budget in [
            DriveBudget { price: -1.0, ..budget },
            DriveBudget { useful_gb: 0.0, ..budget },
            DriveBudget { drive_life_years: 0.0, ..budget },
            DriveBudget { system_life_years: f64::INFINITY, ..budget },
        ] {
            assert!(budget.cost_per_useful_gb().is_err());
        }
    }
}
