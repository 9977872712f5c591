//! Health and wear of a drive, and a forecast of its life.

use larder_ssd::nvme::Command;
use larder_ssd::nvme::smart::{SMART_BYTES, SmartLog};

use super::commands::{CommandError, Commands};
use larder_ssd::nvme::endurance_log::EnduranceLog;

/// Hours per year.
const YEAR_HOURS: f64 = 8766.0;

/// Reads the SMART log of a drive.
///
/// # Errors
/// If the command fails, or the answer makes no sense.
pub fn read_smart(drive: &dyn Commands) -> Result<SmartLog, CommandError> {
    let mut page = [0; SMART_BYTES];
    let bytes = u32::try_from(SMART_BYTES).expect("512");
    drive.admin(&Command::get_smart(bytes), &mut page)?;
    SmartLog::decode(&page).ok_or(CommandError::Malformed("SMART log"))
}

/// The basis of a forecast of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LifeBasis {
    /// The maker's endurance estimate in bytes, compared with the media bytes written.
    EnduranceEstimate,
    /// The percentage that the drive reports as used.
    PercentageUsed,
}

/// How long a drive lasts if its use continues at the past rate, measured in hours under power.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LifeForecast {
    /// Years under power until the rated life is used up; 0 if it is.
    pub years_left: f64,
    /// The basis of the forecast.
    pub basis: LifeBasis,
}

impl LifeForecast {
    /// A forecast from the endurance estimate, if the drive reports one and counts media bytes; otherwise from the
    /// percentage used. `None` if nothing is used up yet, or the drive has less than an hour under power.
    pub fn of(smart: &SmartLog, endurance: Option<&EnduranceLog>) -> Option<Self> {
        let hours = to_f64(smart.power_on_hours);
        if hours < 1.0 {
            return None;
        }
        let estimate = endurance
            .filter(|log| log.endurance_bytes > 0 && log.media_bytes > 0)
            .map(|log| to_f64(log.media_bytes) / to_f64(log.endurance_bytes));
        let (used, basis) = match estimate {
            Some(share) => (share, LifeBasis::EnduranceEstimate),
            None => (f64::from(smart.used_percent) / 100.0, LifeBasis::PercentageUsed),
        };
        if used <= 0.0 {
            return None;
        }
        let years_left = hours * (1.0 - used).max(0.0) / used / YEAR_HOURS;
        Some(Self { years_left, basis })
    }
}

#[allow(clippy::cast_precision_loss)] // shares of lifetimes, not single bytes
fn to_f64(number: u128) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn smart(used_percent: u8, power_on_hours: u128) -> SmartLog {
        SmartLog { used_percent, power_on_hours, ..SmartLog::default() }
    }

    fn endurance(endurance_bytes: u128, media_bytes: u128) -> EnduranceLog {
        EnduranceLog {
            available_spare_percent: 100,
            used_percent: 0,
            endurance_bytes,
            host_bytes: 0,
            media_bytes,
            capacity_bytes: 0,
            unallocated_bytes: 0,
        }
    }

    #[test]
    fn a_quarter_used_in_a_year_leaves_three() {
        let forecast = LifeForecast::of(&smart(25, 8766), None).unwrap();
        assert_eq!(forecast.basis, LifeBasis::PercentageUsed);
        assert!((forecast.years_left - 3.0).abs() < 1e-9);
        let forecast = LifeForecast::of(&smart(25, 8766), Some(&endurance(0, 5))).unwrap();
        assert_eq!(forecast.basis, LifeBasis::PercentageUsed, "no estimate is reported");
    }

    #[test]
    fn the_makers_estimate_is_finer_than_a_percentage() {
        let log = endurance(10_000_000_000_000, 1_000_000_000_000);
        let forecast = LifeForecast::of(&smart(11, 8766), Some(&log)).unwrap();
        assert_eq!(forecast.basis, LifeBasis::EnduranceEstimate);
        assert!((forecast.years_left - 9.0).abs() < 1e-9);
        let worn = endurance(1, 2);
        let forecast = LifeForecast::of(&smart(255, 8766), Some(&worn)).unwrap();
        assert!(forecast.years_left.abs() < 1e-9);
    }

    #[test]
    fn a_new_drive_has_no_forecast() {
        assert_eq!(LifeForecast::of(&smart(0, 100), None), None);
        assert_eq!(LifeForecast::of(&smart(1, 0), None), None);
        assert_eq!(LifeForecast::of(&smart(1, 0), Some(&endurance(10, 1))), None);
    }
}
