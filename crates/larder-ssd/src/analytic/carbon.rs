//! Embodied carbon: the emissions from making the drives and the DRAM of a cache. Theorem 2 of the FDP paper.
//!
//! `C = DLWA × Device_cap × (T/L_dev) × C_SSD`: a drive that would live `L_dev` years without garbage collection lives
//! `L_dev/DLWA`, so a system of age `T` uses up `DLWA·T/L_dev` drives. Fractions of drives count: this is the average
//! of a fleet in which a drive is replaced when it is worn out and not before.
//!
//! The whole CO2e column of the paper's table follows, to 0.1 kg, from 2048 GB of flash, DLWA 1.04 with FDP and 3.28
//! without, and 1.6 kg per GB of DRAM. By the theorem, flash with FDP costs 3.15 times less. With the DRAM it is 3.29
//! times less if the system without FDP has 42 GB of DRAM and the one with FDP 4 GB, and 2.8 to 3.1 times at equal
//! DRAM. The "4×" of the paper's summary follows from none of these.

use super::{at_least, positive, refused};
use crate::error::Error;

/// Kilograms of CO2-equivalent to make a GB of flash or DRAM, and the lives of the system and of a drive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CarbonFactors {
    /// `C_SSD`: kilograms for a GB of flash. 0.16 in the FDP paper, which takes it from Tannu and Nair, "The Dirty
    /// Secret of SSDs: Embodied Carbon" (2023).
    pub ssd_kg_per_gb: f64,
    /// Kilograms for a GB of DRAM. 1.6: decoded from Table 2 of the FDP paper, whose text does not state it.
    pub dram_kg_per_gb: f64,
    /// `T`: years that the cache is to serve. 5 in the FDP paper.
    pub system_life_years: f64,
    /// `L_dev`: years that a drive with a DLWA of 1 lives. 5 in the FDP paper. For a life derived from the bytes
    /// written, see [`life`](super::life).
    pub device_life_years: f64,
}

impl Default for CarbonFactors {
    fn default() -> Self {
        Self {
            ssd_kg_per_gb: 0.16,
            dram_kg_per_gb: 1.6,
            system_life_years: 5.0,
            device_life_years: 5.0,
        }
    }
}

/// A cache: its drive, its DRAM, and the write amplification that it causes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CacheSystem {
    /// `Device_cap`: all flash in the drive, including over-provisioning. Above 0.
    pub device_gb: f64,
    /// Flash that holds cached data: `Host_cap` at full use, less if part of the drive is left free. Above 0, at most
    /// `device_gb`.
    pub useful_gb: f64,
    /// DRAM of the cache. 0 if only the drive is of interest.
    pub dram_gb: f64,
    /// Device-wide write amplification, at least 1.
    pub dlwa: f64,
}

/// Emissions of a [`CacheSystem`] before it is switched on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EmbodiedCarbon {
    /// All drives that the system uses up over its life.
    pub ssd_kg: f64,
    /// Its DRAM, bought once.
    pub dram_kg: f64,
    /// Drives used up over the life of the system.
    pub drives: f64,
    /// Drive replacements per year.
    pub swaps_per_year: f64,
    /// The cache's useful flash, for the figures per GB.
    pub useful_gb: f64,
}

impl EmbodiedCarbon {
    /// Flash and DRAM.
    pub fn total_kg(&self) -> f64 {
        self.ssd_kg + self.dram_kg
    }

    /// Flash, per GB that holds cached data. Higher utilisation lowers this figure.
    pub fn ssd_kg_per_useful_gb(&self) -> f64 {
        self.ssd_kg / self.useful_gb
    }

    /// Flash and DRAM, per GB of flash that holds cached data.
    pub fn total_kg_per_useful_gb(&self) -> f64 {
        self.total_kg() / self.useful_gb
    }
}

impl CarbonFactors {
    /// Theorem 2, with DRAM.
    ///
    /// ```
    /// use larder_ssd::analytic::carbon::{CacheSystem, CarbonFactors};
    ///
    /// # fn main() -> Result<(), larder_ssd::Error> {
    /// let fdp = CacheSystem { device_gb: 2048.0, useful_gb: 1880.0, dram_gb: 4.0, dlwa: 1.04 };
    /// let carbon = CarbonFactors::default().embodied(&fdp)?;
    /// assert!((carbon.ssd_kg - 340.8).abs() < 0.1);
    /// assert!((carbon.total_kg() - 347.2).abs() < 0.1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If a factor, a capacity or the write amplification is out of range.
    pub fn embodied(&self, system: &CacheSystem) -> Result<EmbodiedCarbon, Error> {
        self.check()?;
        system.check()?;
        let swaps_per_year = system.dlwa / self.device_life_years;
        let drives = swaps_per_year * self.system_life_years;
        Ok(EmbodiedCarbon {
            ssd_kg: drives * system.device_gb * self.ssd_kg_per_gb,
            dram_kg: system.dram_gb * self.dram_kg_per_gb,
            drives,
            swaps_per_year,
            useful_gb: system.useful_gb,
        })
    }

    fn check(&self) -> Result<(), Error> {
        at_least("embodied carbon of flash in kg per GB", 0.0, self.ssd_kg_per_gb)?;
        at_least("embodied carbon of DRAM in kg per GB", 0.0, self.dram_kg_per_gb)?;
        positive("system life in years", self.system_life_years)?;
        positive("device life in years", self.device_life_years)?;
        Ok(())
    }
}

impl CacheSystem {
    fn check(&self) -> Result<(), Error> {
        positive("device capacity in GB", self.device_gb)?;
        positive("useful capacity in GB", self.useful_gb)?;
        if self.useful_gb > self.device_gb {
            let range = format_args!("at most the device capacity of {} GB", self.device_gb);
            return Err(refused("useful capacity in GB", self.useful_gb, range));
        }
        at_least("DRAM in GB", 0.0, self.dram_gb)?;
        at_least("DLWA", 1.0, self.dlwa)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FDP: f64 = 1.04;
    const NON_FDP: f64 = 3.28;

    fn embodied(device_gb: f64, useful_gb: f64, dram_gb: f64, dlwa: f64) -> EmbodiedCarbon {
        let system = CacheSystem { device_gb, useful_gb, dram_gb, dlwa };
        CarbonFactors::default().embodied(&system).unwrap()
    }

    fn table_2(dram_gb: f64, dlwa: f64) -> f64 {
        embodied(2048.0, 1880.0, dram_gb, dlwa).total_kg()
    }

    #[test]
    fn table_2_of_the_paper() {
        // The paper says 42 GB; its figures follow from 43.
        let cells = [
            (4.0, FDP, 347.2),
            (4.0, NON_FDP, 1081.1),
            (20.0, FDP, 372.8),
            (20.0, NON_FDP, 1106.8),
            (43.0, FDP, 409.6),
            (43.0, NON_FDP, 1143.6),
        ];
        for (dram_gb, dlwa, expected_kg) in cells {
            let got_kg = table_2(dram_gb, dlwa);
            assert!((got_kg - expected_kg).abs() < 0.1, "{dram_gb} GB, {dlwa}: {got_kg}");
        }
    }

    #[test]
    fn fdp_saves_three_times_and_not_four() {
        let flash =
            |dlwa| embodied(2048.0, 1880.0, 0.0, dlwa).ssd_kg / embodied(1.0, 1.0, 0.0, 1.0).ssd_kg;
        assert!((flash(NON_FDP) / flash(FDP) - 3.154).abs() < 1e-3);
        let unequal_dram = table_2(43.0, NON_FDP) / table_2(4.0, FDP);
        assert!((unequal_dram - 3.294).abs() < 1e-3);
        for (dram_gb, expected) in [(4.0, 3.114), (20.0, 2.969), (43.0, 2.792)] {
            let ratio = table_2(dram_gb, NON_FDP) / table_2(dram_gb, FDP);
            assert!((ratio - expected).abs() < 1e-3, "{dram_gb} GB: {ratio}");
        }
    }

    #[test]
    fn flash_by_capacity_and_write_amplification() {
        let table = [
            (1.00, 300.8, 327.7),
            (1.03, 309.8, 337.5),
            (1.04, 312.8, 340.8),
            (1.22, 367.0, 399.8),
            (1.30, 391.0, 426.0),
            (2.50, 752.0, 819.2),
            (3.22, 968.6, 1055.1),
            (3.28, 986.6, 1074.8),
            (3.50, 1052.8, 1146.9),
        ];
        for (dlwa, sold_kg, physical_kg) in table {
            assert!((embodied(1880.0, 1880.0, 0.0, dlwa).ssd_kg - sold_kg).abs() < 0.051);
            assert!((embodied(2048.0, 1880.0, 0.0, dlwa).ssd_kg - physical_kg).abs() < 0.051);
        }
    }

    #[test]
    fn utilisation_counts_per_useful_gb() {
        let half = embodied(2048.0, 940.0, 0.0, 1.3).ssd_kg_per_useful_gb();
        let full_fdp = embodied(2048.0, 1880.0, 0.0, 1.03).ssd_kg_per_useful_gb();
        let full = embodied(2048.0, 1880.0, 0.0, 3.5).ssd_kg_per_useful_gb();
        assert!((half - 0.453).abs() < 5e-4);
        assert!((full_fdp - 0.180).abs() < 5e-4);
        assert!((full - 0.610).abs() < 5e-4);
        let with_dram = embodied(2048.0, 1880.0, 10.0, 1.03);
        let dram = with_dram.total_kg_per_useful_gb() - with_dram.ssd_kg_per_useful_gb();
        assert!((dram - 16.0 / 1880.0).abs() < 1e-12);
    }

    #[test]
    fn swaps_follow_wear() {
        let factors = CarbonFactors { system_life_years: 8.0, ..CarbonFactors::default() };
        let system = CacheSystem { device_gb: 100.0, useful_gb: 80.0, dram_gb: 0.0, dlwa: 2.5 };
        let carbon = factors.embodied(&system).unwrap();
        assert_eq!(carbon.swaps_per_year, 0.5);
        assert_eq!(carbon.drives, 4.0);
        assert_eq!(carbon.ssd_kg, 64.0);
    }

    #[test]
    fn values_out_of_range_are_named() {
        let good = CacheSystem { device_gb: 100.0, useful_gb: 80.0, dram_gb: 1.0, dlwa: 1.5 };
        let systems = [
            (CacheSystem { device_gb: 0.0, ..good }, "device capacity in GB of 0:"),
            (CacheSystem { useful_gb: 0.0, ..good }, "useful capacity in GB of 0:"),
            (CacheSystem { useful_gb: 101.0, ..good }, "useful capacity in GB of 101:"),
            (CacheSystem { dram_gb: -1.0, ..good }, "DRAM in GB of -1:"),
            (CacheSystem { dlwa: 0.9, ..good }, "DLWA of 0.9:"),
        ];
        for (system, message) in systems {
            let error = CarbonFactors::default().embodied(&system).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
        let usual = CarbonFactors::default();
        let factors = [
            CarbonFactors { ssd_kg_per_gb: -0.1, ..usual },
            CarbonFactors { dram_kg_per_gb: f64::NAN, ..usual },
            CarbonFactors { system_life_years: 0.0, ..usual },
            CarbonFactors { device_life_years: f64::INFINITY, ..usual },
        ];
        assert!(factors.iter().all(|factors| factors.embodied(&good).is_err()));
    }
}
