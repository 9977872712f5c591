//! Operational energy and carbon of a running drive. Theorem 3 of the FDP paper.
//!
//! The theorem says that energy grows with the operations of the host plus those of garbage collection. Here that is a
//! sum, `E = n_r·e_r + n_p·e_p + n_e·e_e + P_idle·t`, in which the counts are those of the media, including garbage
//! collection. The counts can be exact. The energies per operation are assumptions: compare two systems at equal host
//! bytes, but do not take an absolute figure in joules for a measurement.

use super::{at_least, refused};
use crate::error::Error;

/// Power of an active NAND array, in watts: 3.3 V × 25 mA, which the simulator SimpleSSD takes from the data sheet of
/// Micron's MT29F64G08, for reads, programs and erases alike. We assume that each plane draws as much.
const PLANE_WATTS: f64 = 3.3 * 0.025;

/// Seconds that a plane is busy for one page: a read, its part of a program of three pages at once, and the erase of a
/// block. TLC parts of 128 to 176 layers: 40 to 56 µs, 1.2 ms for three pages; published erase times run from 2 to 4
/// ms, 5 ms is a cautious guess.
const READ_SECONDS: f64 = 50e-6;
const PROGRAM_SECONDS: f64 = 1.2e-3 / 3.0;
const ERASE_SECONDS: f64 = 5e-3;

/// Power of an idle data-centre NVMe drive, in watts. An assumption, not a measurement.
pub const ASSUMED_IDLE_WATTS: f64 = 5.0;

/// CO2-equivalent of a kWh, world average of 2023 (Ember, Global Electricity Review 2024).
/// National averages run from 0.03 to above 0.7.
pub const WORLD_2023_KG_PER_KWH: f64 = 0.48;

const JOULES_PER_KWH: f64 = 3.6e6;

/// Energy per operation of the media.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EnergyCosts {
    /// `e_r`: reading one flash page.
    pub page_read_joules: f64,
    /// `e_p`: programming one flash page.
    pub page_program_joules: f64,
    /// `e_e`: erasing one block of one plane.
    pub block_erase_joules: f64,
    /// `P_idle`: controller, DRAM and link, drawn at all times.
    pub idle_watts: f64,
}

impl EnergyCosts {
    /// Assumption: a TLC plane of 16 KiB pages, with the power that one data sheet gives and the times of current
    /// parts. 4.1 µJ per read, 33 µJ per program, 0.41 mJ per erase. At the write rate of a fast drive (7 GB/s)
    /// programming comes to 14 W, which is the right order of magnitude and no more.
    pub const ASSUMED_TLC: Self = Self {
        page_read_joules: PLANE_WATTS * READ_SECONDS,
        page_program_joules: PLANE_WATTS * PROGRAM_SECONDS,
        block_erase_joules: PLANE_WATTS * ERASE_SECONDS,
        idle_watts: ASSUMED_IDLE_WATTS,
    };

    /// Theorem 3: the energy of `operations`.
    ///
    /// ```
    /// use larder_ssd::analytic::energy::{EnergyCosts, FlashShape, WORLD_2023_KG_PER_KWH};
    ///
    /// # fn main() -> Result<(), larder_ssd::Error> {
    /// // A day at 100 MB/s written and twice that read, with and without garbage collection.
    /// let host_bytes = 8_640_000_000_000;
    /// let (shape, costs) = (FlashShape::ASSUMED_TLC, EnergyCosts::ASSUMED_TLC);
    /// let calm = shape.operations(2 * host_bytes, host_bytes, host_bytes, 86_400.0)?;
    /// let busy = shape.operations(4 * host_bytes, 3 * host_bytes, 3 * host_bytes, 86_400.0)?;
    /// let (calm, busy) = (costs.energy(&calm)?, costs.energy(&busy)?);
    /// assert!((busy.program_joules / calm.program_joules - 3.0).abs() < 1e-6);
    /// assert!(busy.carbon_kg(WORLD_2023_KG_PER_KWH)? < 0.1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If an energy, the power or the time is negative, infinite or not a number.
    pub fn energy(&self, operations: &Operations) -> Result<OperationalEnergy, Error> {
        at_least("energy of a page read in joules", 0.0, self.page_read_joules)?;
        at_least("energy of a page program in joules", 0.0, self.page_program_joules)?;
        at_least("energy of a block erase in joules", 0.0, self.block_erase_joules)?;
        at_least("idle power in watts", 0.0, self.idle_watts)?;
        let seconds = at_least("time in seconds", 0.0, operations.seconds)?;
        Ok(OperationalEnergy {
            read_joules: operations.page_reads as f64 * self.page_read_joules,
            program_joules: operations.page_programs as f64 * self.page_program_joules,
            erase_joules: operations.block_erases as f64 * self.block_erase_joules,
            idle_joules: seconds * self.idle_watts,
        })
    }
}

/// Operations of the media, for the host and for garbage collection together.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Operations {
    /// `n_r`: flash pages read.
    pub page_reads: u64,
    /// `n_p`: flash pages programmed.
    pub page_programs: u64,
    /// `n_e`: blocks erased, counting each plane.
    pub block_erases: u64,
    /// `t`: seconds that the drive was powered.
    pub seconds: f64,
}

/// Units in which the media is read, written and erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlashShape {
    /// Bytes of one flash page. This is not the 4 KiB unit in which a drive maps host data.
    pub page_bytes: u64,
    /// Bytes of one block of one plane.
    pub block_bytes: u64,
}

impl FlashShape {
    /// Assumption: pages of 16 KiB, 1152 of them in a block (18 MiB).
    pub const ASSUMED_TLC: Self = Self { page_bytes: 16 << 10, block_bytes: 18 << 20 };

    /// Operations for the given bytes, as if every page were read and written whole. A random 4 KiB read costs a whole
    /// page read: count it as `page_bytes`.
    ///
    /// # Errors
    /// If a size in the shape is 0.
    pub fn operations(
        &self,
        read_bytes: u64,
        programmed_bytes: u64,
        erased_bytes: u64,
        seconds: f64,
    ) -> Result<Operations, Error> {
        for (what, bytes) in [("flash page", self.page_bytes), ("flash block", self.block_bytes)] {
            if bytes == 0 {
                return Err(refused(what, "0 bytes", format_args!("at least 1")));
            }
        }
        Ok(Operations {
            page_reads: read_bytes.div_ceil(self.page_bytes),
            page_programs: programmed_bytes.div_ceil(self.page_bytes),
            block_erases: erased_bytes.div_ceil(self.block_bytes),
            seconds,
        })
    }
}

/// Energy, by cause.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OperationalEnergy {
    /// Reading the media.
    pub read_joules: f64,
    /// Programming the media.
    pub program_joules: f64,
    /// Erasing the media.
    pub erase_joules: f64,
    /// Controller, DRAM and link, while the drive is powered.
    pub idle_joules: f64,
}

impl OperationalEnergy {
    /// Energy of the media's operations: the part that Theorem 3 describes.
    pub fn media_joules(&self) -> f64 {
        self.read_joules + self.program_joules + self.erase_joules
    }

    /// Total in joules, idle energy included.
    pub fn total_joules(&self) -> f64 {
        self.media_joules() + self.idle_joules
    }

    /// Total in kWh, as a power meter shows it.
    pub fn total_kwh(&self) -> f64 {
        self.total_joules() / JOULES_PER_KWH
    }

    /// Operational carbon, from the carbon intensity of the electricity.
    ///
    /// # Errors
    /// If the intensity is negative, infinite or not a number.
    pub fn carbon_kg(&self, grid_kg_per_kwh: f64) -> Result<f64, Error> {
        let intensity = at_least("carbon intensity in kg per kWh", 0.0, grid_kg_per_kwh)?;
        Ok(self.total_kwh() * intensity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: EnergyCosts = EnergyCosts {
        page_read_joules: 1.0,
        page_program_joules: 10.0,
        block_erase_joules: 100.0,
        idle_watts: 0.5,
    };
    const OPERATIONS: Operations =
        Operations { page_reads: 7, page_programs: 5, block_erases: 3, seconds: 8.0 };

    #[test]
    fn every_cause_is_counted_once() {
        let energy = COSTS.energy(&OPERATIONS).unwrap();
        assert_eq!(energy.media_joules(), 7.0 + 50.0 + 300.0);
        assert_eq!(energy.total_joules(), 361.0);
        assert_eq!(energy.carbon_kg(0.0), Ok(0.0));
    }

    #[test]
    fn a_kilowatt_hour_is_a_kilowatt_for_an_hour() {
        let costs = EnergyCosts { idle_watts: 1000.0, ..COSTS };
        let hour = Operations { seconds: 3600.0, ..Operations::default() };
        let energy = costs.energy(&hour).unwrap();
        assert_eq!(energy.total_kwh(), 1.0);
        assert_eq!(energy.carbon_kg(WORLD_2023_KG_PER_KWH), Ok(WORLD_2023_KG_PER_KWH));
    }

    #[test]
    fn bytes_become_whole_operations() {
        let shape = FlashShape { page_bytes: 16, block_bytes: 100 };
        let operations = shape.operations(17, 32, 301, 2.0).unwrap();
        let expected =
            Operations { page_reads: 2, page_programs: 2, block_erases: 4, seconds: 2.0 };
        assert_eq!(operations, expected);
        for shape in [
            FlashShape { page_bytes: 0, ..FlashShape::ASSUMED_TLC },
            FlashShape { block_bytes: 0, ..FlashShape::ASSUMED_TLC },
        ] {
            let error = shape.operations(1, 1, 1, 1.0).unwrap_err().to_string();
            assert!(error.contains("of 0 bytes: must be at least 1"), "{error}");
        }
    }

    #[test]
    fn the_assumed_costs_are_those_of_a_drive() {
        let EnergyCosts { page_read_joules, page_program_joules, block_erase_joules, .. } =
            EnergyCosts::ASSUMED_TLC;
        assert!((page_read_joules - 4.125e-6).abs() < 1e-12);
        assert!((page_program_joules - 33e-6).abs() < 1e-12);
        assert!((block_erase_joules - 412.5e-6).abs() < 1e-12);
        let programs_per_second = 7e9 / 16384.0;
        assert!((10.0..20.0).contains(&(programs_per_second * page_program_joules)));
    }

    #[test]
    fn energy_follows_write_amplification() {
        // Equal host bytes; copies are read once and written once.
        let media = |dlwa: f64| {
            let host = 1e12;
            let bytes = |x: f64| format!("{x:.0}").parse::<u64>().unwrap();
            let (read, written) = (bytes(host * (dlwa - 1.0)), bytes(host * dlwa));
            let operations = FlashShape::ASSUMED_TLC.operations(read, written, written, 1e4);
            EnergyCosts::ASSUMED_TLC.energy(&operations.unwrap()).unwrap().media_joules()
        };
        let ratio = media(3.5) / media(1.03);
        assert!((3.4..3.8).contains(&ratio), "{ratio}");
    }

    #[test]
    fn values_out_of_range_are_named() {
        for costs in [
            EnergyCosts { page_read_joules: -1.0, ..COSTS },
            EnergyCosts { page_program_joules: -1.0, ..COSTS },
            EnergyCosts { block_erase_joules: -1.0, ..COSTS },
            EnergyCosts { idle_watts: -1.0, ..COSTS },
        ] {
            let error = costs.energy(&OPERATIONS).unwrap_err().to_string();
            assert!(error.contains("of -1: must be at least 0"), "{error}");
        }
        assert!(COSTS.energy(&Operations { seconds: f64::NAN, ..OPERATIONS }).is_err());
        assert!(COSTS.energy(&OPERATIONS).unwrap().carbon_kg(-0.1).is_err());
    }
}
