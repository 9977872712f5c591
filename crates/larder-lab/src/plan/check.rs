//! Refuses invalid questions, and says what would be valid.

use super::options::{FLASH_MIN, PlanOptions, Rating};
use super::{fit, model};
use crate::Error;

/// The largest object that fits into a bucket of the small-object engine, with its headers.
const SMALL_OBJECT_MAX: u32 = 4050;
/// Most drives of a set.
const DRIVES_MAX: usize = 128;
/// No cache serves more requests per second than this.
const RATE_MAX: f64 = 1e9;

impl PlanOptions {
    /// Refuses options that cannot be planned. The error names the option, its value and what is allowed.
    ///
    /// # Errors
    /// [`Error::Usage`].
    pub fn check(&self) -> Result<(), Error> {
        if self.dram_bytes == 0 {
            return Err(Error::usage("--dram 0: must be above 0; a cache needs DRAM, such as 16G"));
        }
        if self.flash_bytes < FLASH_MIN {
            let least = fit::least_flash(self).unwrap_or("--flash 8MiB".to_owned());
            let what = format!("at least 8 MiB, such as 1.88TB; {least} would do");
            return Err(refused("--flash", self.flash_bytes, &what));
        }
        let simulated = FLASH_MIN..=(1 << 36);
        if !simulated.contains(&self.simulated_bytes) {
            return Err(refused("--simulate", self.simulated_bytes, "8 MiB to 64 GiB"));
        }
        if !(1..=SMALL_OBJECT_MAX).contains(&self.soc_max_object_bytes) {
            let range = format!("1 to {SMALL_OBJECT_MAX}");
            return Err(refused("--soc-max-object", self.soc_max_object_bytes, &range));
        }
        if self.requests == Some(0) {
            return Err(refused("--requests", 0, "at least 1"));
        }
        let within = [
            ("--utilization", self.utilization_percent, 10.0, 100.0),
            ("--soc", self.soc_percent, 1.0, 99.0),
            ("--op", self.op_percent, 4.0, 100.0),
            ("--rated-dlwa", self.rated_dlwa, 1.0, 100.0),
        ];
        for (name, value, least, most) in within {
            if !(least..=most).contains(&value) {
                return Err(refused(name, value, &format!("{least} to {most}")));
            }
        }
        self.check_amounts()?;
        self.check_drive_rates()?;
        self.check_proportions()?;
        model::scaled(self).map(|_| ())
    }

    fn check_amounts(&self) -> Result<(), Error> {
        let (endurance, rating) = match self.rating {
            Rating::Dwpd(rating) => ("--endurance", rating),
            Rating::Tbw(rating) => ("--tbw", rating),
        };
        let above_zero = [
            (endurance, rating),
            ("--warranty-years", self.warranty_years),
            ("--rate", self.rate),
            ("--years", self.years),
        ];
        for (name, value) in above_zero {
            if !(value.is_finite() && value > 0.0) {
                return Err(refused(name, value, "above 0 and finite"));
            }
        }
        let sensible = [
            ("--rate", self.rate, 1e-3, RATE_MAX),
            ("--years", self.years, 0.1, 100.0),
            ("--warranty-years", self.warranty_years, 0.1, 100.0),
        ];
        for (name, value, least, most) in sensible {
            if !(least..=most).contains(&value) {
                return Err(refused(name, value, &format!("{least} to {most}")));
            }
        }
        if !(self.dlwa_limit.is_finite() && self.dlwa_limit > 1.0) {
            let what = "above 1, which is a drive that copies nothing";
            return Err(refused("--dlwa-limit", self.dlwa_limit, what));
        }
        let at_least_zero = [
            ("--price-flash", self.price_flash),
            ("--price-dram", self.price_dram),
            ("--carbon-flash", self.carbon_flash),
            ("--carbon-dram", self.carbon_dram),
            ("--carbon-grid", self.carbon_grid),
            ("--idle-watts", self.idle_watts),
        ];
        for (name, value) in at_least_zero {
            if !(value.is_finite() && value >= 0.0) {
                return Err(refused(name, value, "at least 0 and finite"));
            }
        }
        Ok(())
    }

    fn check_drive_rates(&self) -> Result<(), Error> {
        let Some(rates) = &self.drive_rates else { return Ok(()) };
        let are_valid = rates.iter().all(|rate| (1e-3..=1e6).contains(rate));
        if are_valid && (2..=DRIVES_MAX).contains(&rates.len()) {
            return Ok(());
        }
        let given: Vec<String> = rates.iter().map(f64::to_string).collect();
        let what = format!("2 to {DRIVES_MAX} numbers of 0.001 to 1000000, such as 3,1,1,1");
        Err(refused("--drive-rates", given.join(","), &what))
    }

    /// Refuses options that are valid alone but not in combination.
    #[allow(clippy::cast_precision_loss)] // sizes of drives
    pub(super) fn check_proportions(&self) -> Result<(), Error> {
        if self.dram_bytes > self.flash_bytes {
            return Err(Error::usage(format!(
                "--dram {}: is more than --flash {}, and hardly anything would be written; use \
                 less DRAM{}",
                self.dram_bytes,
                self.flash_bytes,
                fit::least_flash(self).map_or(String::new(), |least| format!(", or {least}"))
            )));
        }
        let flash_tb = self.flash_bytes as f64 / 1e12;
        match self.rating {
            Rating::Tbw(tbw) if tbw < flash_tb => Err(refused(
                "--tbw",
                tbw,
                &format!("at least {flash_tb}, which is --flash written once; makers rate in TB"),
            )),
            _ => Ok(()),
        }
    }
}

fn refused(name: &str, value: impl std::fmt::Display, range: &str) -> Error {
    Error::usage(format!("{name} {value}: must be {range}"))
}
