//! Life, carbon and cost, calculated from the measurements.

use larder_ssd::analytic::carbon::{CacheSystem, CarbonFactors};
use larder_ssd::analytic::energy::{EnergyCosts, FlashShape};
use larder_ssd::analytic::life::{DAYS_PER_YEAR, DriveBudget, Endurance, media_bytes_per_day};
use serde::Serialize;

use super::measured::{Measured, SETTLED};
use super::options::{PlanOptions, Rating};
use crate::Error;

const SECONDS_PER_DAY: f64 = 86_400.0;
const GB: f64 = 1e9;

/// The bill for a drive at a utilisation over the life of the system.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Bill {
    /// Years until the drive is worn out according to its rating; wear only.
    pub life_years: f64,
    /// Lower end of the range in which a larger or longer simulation would find the life: see
    /// [`life_years_high`](Self::life_years_high).
    pub life_years_low: f64,
    /// Upper end of that range. Load and DLWA may be off by 5 %, or by their drift during the measurement, and the load
    /// by twice its standard error in addition. Where DLWA had not settled, the range extends down to the life at the
    /// theoretical DLWA. The same holds without placement if large objects are large relative to the model's reclaim
    /// units.
    pub life_years_high: f64,
    /// Drives bought over the life of the system: at least one; above that, the average of a fleet.
    pub drives: f64,
    /// Rating, in drive writes per day over the warranty, at which one drive would be enough.
    pub endurance_needed: f64,
    /// Embodied carbon of all drives, in kg of CO2-equivalent.
    pub flash_kg: f64,
    /// Embodied carbon of the DRAM, in the same unit.
    pub dram_kg: f64,
    /// Embodied carbon of drives and DRAM.
    pub embodied_kg: f64,
    /// Embodied carbon of drives and DRAM, per useful GB.
    pub embodied_kg_per_useful_gb: f64,
    /// Operational carbon of the drive over the life of the system: it is powered all the time, and its media are
    /// programmed, erased and, by garbage collection, read. Reads of the host are left out.
    pub operational_kg: f64,
    /// Embodied and operational carbon in one sum.
    pub carbon_kg: f64,
    /// The sum, per useful GB.
    pub carbon_kg_per_useful_gb: f64,
    /// Price of all drives and the DRAM.
    pub cost: f64,
    /// The cost per useful GB.
    pub cost_per_useful_gb: f64,
}

/// Calculates the bill with Theorems 2 and 3 of the FDP paper and the endurance rating. `dlwa_theory` bounds the DLWA
/// of a drive that had not settled.
pub(super) fn bill(
    options: &PlanOptions,
    measured: &Measured,
    dlwa_theory: f64,
) -> Result<Bill, Error> {
    reckon(options, measured, dlwa_theory).map_err(|error| Error::usage(format!("plan: {error}")))
}

#[allow(clippy::cast_precision_loss)] // sizes of drives, far below 2^53
fn reckon(
    options: &PlanOptions,
    measured: &Measured,
    dlwa_theory: f64,
) -> Result<Bill, larder_ssd::Error> {
    let dlwa = measured.dlwa;
    let endurance = match options.rating {
        Rating::Tbw(terabytes) => Endurance::from_tbw(terabytes, options.rated_dlwa)?,
        Rating::Dwpd(rating) => Endurance::from_dwpd(
            rating,
            options.flash_bytes,
            options.warranty_years,
            options.rated_dlwa,
        )?,
    };
    let host_bytes_per_day = host_bytes_per_day(options, measured);
    let life = |host_bytes: f64, dlwa: f64| {
        endurance.life_years(media_bytes_per_day(host_bytes, dlwa.max(1.0))?)
    };
    let life_years = life(host_bytes_per_day, dlwa)?;
    let [(least_load, least_dlwa), (most_load, most_dlwa)] = margins(measured, dlwa_theory);
    let useful_gb = useful_gb(options, measured.utilization);
    let dram_gb = options.dram_bytes as f64 / GB;
    let sold_gb = options.flash_bytes as f64 / GB;
    let budget = DriveBudget {
        price: options.price_flash * sold_gb,
        useful_gb,
        drive_life_years: life_years,
        system_life_years: options.years,
    };
    let factors = CarbonFactors {
        ssd_kg_per_gb: options.carbon_flash,
        dram_kg_per_gb: options.carbon_dram,
        system_life_years: options.years,
        // Theorem 2 counts a drive with few writes as a fraction of one. A buyer pays for a whole drive, so we limit
        // its life at DLWA 1 to the value that makes it one.
        device_life_years: (life_years * dlwa).min(options.years * dlwa),
    };
    let device_gb = sold_gb * (1.0 + options.op_percent / 100.0);
    let carbon = factors.embodied(&CacheSystem { device_gb, useful_gb, dram_gb, dlwa })?;
    let operational_kg = operational_kg(options, host_bytes_per_day, dlwa)?;
    let carbon_kg = carbon.total_kg() + operational_kg;
    let dram_price = options.price_dram * dram_gb;
    let cost_per_useful_gb = budget.cost_per_useful_gb()? + dram_price / useful_gb;
    let rated_per_drive_write =
        options.flash_bytes as f64 * options.warranty_years * options.rated_dlwa;
    Ok(Bill {
        life_years,
        life_years_low: life(host_bytes_per_day * most_load, most_dlwa)?,
        life_years_high: life(host_bytes_per_day * least_load, least_dlwa)?,
        drives: budget.drives()?,
        endurance_needed: host_bytes_per_day * dlwa * options.years / rated_per_drive_write,
        flash_kg: carbon.ssd_kg,
        dram_kg: carbon.dram_kg,
        embodied_kg: carbon.total_kg(),
        embodied_kg_per_useful_gb: carbon.total_kg_per_useful_gb(),
        operational_kg,
        carbon_kg,
        carbon_kg_per_useful_gb: carbon_kg / useful_gb,
        cost: cost_per_useful_gb * useful_gb,
        cost_per_useful_gb,
    })
}

/// Theorem 3 over the life of the system, at an electricity of the planned carbon intensity.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // bytes of years, far below 2^64
fn operational_kg(
    options: &PlanOptions,
    host_bytes_per_day: f64,
    dlwa: f64,
) -> Result<f64, larder_ssd::Error> {
    let days = options.years * DAYS_PER_YEAR;
    let host_bytes = host_bytes_per_day * days;
    let copied_bytes = host_bytes * (dlwa - 1.0).max(0.0);
    let programmed = (host_bytes + copied_bytes) as u64;
    let operations = FlashShape::ASSUMED_TLC.operations(
        copied_bytes as u64,
        programmed,
        programmed,
        days * SECONDS_PER_DAY,
    )?;
    let costs = EnergyCosts { idle_watts: options.idle_watts, ..EnergyCosts::ASSUMED_TLC };
    costs.energy(&operations)?.carbon_kg(options.carbon_grid)
}

/// Factors between our values and those of a larger or longer simulation: ranges of the load, and of load times DLWA.
fn margins(measured: &Measured, dlwa_theory: f64) -> [(f64, f64); 2] {
    let load = (measured.load_drift.max(SETTLED) + measured.load_error).min(0.5);
    let drift = measured.dlwa_drift.max(SETTLED);
    let mut most = measured.dlwa * (1.0 + drift);
    if !measured.is_drive_settled() || !measured.is_mixed() {
        most = most.max(dlwa_theory);
    }
    if !measured.is_mixed() {
        // On a drive with free room each page of a large object is moved at most once, and dies where it was moved to.
        most = most.max(2.0 - measured.soc_share);
    }
    [(1.0 - load, measured.dlwa / (1.0 + drift)), (1.0 + load, most)]
}

/// Bytes that the cache writes to the drive in a day at the planned rate.
pub(super) fn host_bytes_per_day(options: &PlanOptions, measured: &Measured) -> f64 {
    options.rate * SECONDS_PER_DAY * measured.host_bytes_per_request
}

/// Flash in which the cache keeps objects, in GB: capacity times utilisation.
#[allow(clippy::cast_precision_loss)]
pub(super) fn useful_gb(options: &PlanOptions, utilization: f64) -> f64 {
    options.flash_bytes as f64 / GB * utilization / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A drive that is written at its rated load: 1.88 TB a day.
    fn measured(dlwa: f64) -> Measured {
        Measured {
            utilization: 100.0,
            with_placement: true,
            dlwa,
            hit_ratio: 0.9,
            alwa: 10.0,
            layout: larder::SocLayout::Buckets,
            host_bytes_per_request: 1.88e12 / 50_000.0 / SECONDS_PER_DAY,
            soc_share: 0.9,
            drive_writes_before: 12.0,
            dlwa_drift: 0.01,
            load_drift: 0.02,
            load_error: 0.0,
            object_per_unit: 0.0,
        }
    }

    fn close(found: f64, expected: f64) {
        close_to(found, expected, 1e-9);
    }

    fn close_to(found: f64, expected: f64, share: f64) {
        assert!((found / expected - 1.0).abs() < share, "{found}, expected {expected}");
    }

    #[test]
    fn where_objects_fill_units_the_range_reaches_to_theory() {
        let large = |with_placement, dlwa| {
            let run = Measured { object_per_unit: 0.5, with_placement, ..measured(dlwa) };
            margins(&run, 3.6)[1].1
        };
        assert!((large(false, 1.7) - 3.6).abs() < 1e-9);
        assert!((large(true, 1.7) - 1.7 * 1.05).abs() < 1e-9);
        assert!((margins(&measured(1.7), 3.6)[1].1 - 1.7 * 1.05).abs() < 1e-9);
        // There is room on the drive, so theory predicts no copies; each page of a large object may be moved once.
        let room = Measured { object_per_unit: 0.5, with_placement: false, ..measured(1.0) };
        assert!((margins(&room, 1.0)[1].1 - 1.1).abs() < 1e-9);
    }

    #[test]
    fn a_drive_written_as_rated_lasts_for_its_warranty() {
        let options = PlanOptions::of_preset("meta-kv", 1);
        let bill = bill(&options, &measured(1.0), 4.0).unwrap();
        close(bill.life_years, 5.0);
        close(bill.drives, 1.0);
        close(bill.endurance_needed, 1.0);
        close(bill.flash_kg, 1880.0 * 1.17 * 0.16);
        close(bill.dram_kg, 16.0 * 1.6);
        close(bill.cost, 188.0 + 64.0);
        close(bill.cost_per_useful_gb, 252.0 / 1880.0);
    }

    #[test]
    fn amplification_shortens_life_and_buys_drives() {
        let options = PlanOptions::of_preset("meta-kv", 1);
        let bill = bill(&options, &measured(3.5), 4.0).unwrap();
        close(bill.life_years, 5.0 / 3.5);
        close(bill.drives, 3.5);
        close(bill.endurance_needed, 3.5);
        close(bill.flash_kg, 3.5 * 1880.0 * 1.17 * 0.16);
        close(bill.cost, 3.5 * 188.0 + 64.0);
    }

    #[test]
    fn embodied_and_operational_carbon_are_one_sum() {
        let options = PlanOptions::of_preset("meta-kv", 1);
        let of = |options: &PlanOptions, dlwa| bill(options, &measured(dlwa), 4.0).unwrap();
        let whole = of(&options, 1.0);
        close(whole.carbon_kg, whole.embodied_kg + whole.operational_kg);
        close(whole.carbon_kg_per_useful_gb * 1880.0, whole.carbon_kg);
        // A drive that is powered and writes nothing to speak of: 5 W for five years at 0.48 kg a kWh.
        let idle = PlanOptions { rate: 1e-3, ..options.clone() };
        close_to(of(&idle, 1.0).operational_kg, 5.0 * 5.0 * 365.0 * 24.0 / 1000.0 * 0.48, 1e-6);
        // What is written costs as many programs as DLWA says.
        let unpowered = PlanOptions { idle_watts: 0.0, ..options.clone() };
        let [once, thrice] = [1.0, 3.0].map(|dlwa| of(&unpowered, dlwa).operational_kg);
        assert!((2.9..3.4).contains(&(thrice / once)), "{once} {thrice}");
        let green = PlanOptions { carbon_grid: 0.0, ..options };
        assert_eq!(of(&green, 3.0).operational_kg, 0.0);
    }

    #[test]
    fn at_least_one_drive_is_bought_and_made() {
        let options = PlanOptions { rate: 5.0, ..PlanOptions::of_preset("meta-kv", 1) };
        let bill = bill(&options, &measured(2.0), 4.0).unwrap();
        close(bill.life_years, 25_000.0);
        close(bill.drives, 1.0);
        close(bill.flash_kg, 1880.0 * 1.17 * 0.16);
    }

    #[test]
    fn two_ratings_of_one_drive_come_to_the_same() {
        let dwpd = PlanOptions::of_preset("meta-kv", 1);
        let tbw = PlanOptions { rating: Rating::Tbw(3431.0), ..dwpd.clone() };
        let years = |options: &PlanOptions| bill(options, &measured(2.0), 4.0).unwrap().life_years;
        close(years(&dwpd), years(&tbw));
        let rated = PlanOptions { rated_dlwa: 2.0, ..dwpd.clone() };
        close(years(&rated), 5.0);
    }

    #[test]
    fn the_table_of_the_paper_follows() {
        // 2048 GB of flash, 43 GB of DRAM, five years of a drive that lives five at DLWA 1.
        let options = PlanOptions {
            op_percent: (2048.0 / 1880.0 - 1.0) * 100.0,
            dram_bytes: 43_000_000_000,
            ..PlanOptions::of_preset("meta-kv", 1)
        };
        let kg = |dlwa| bill(&options, &measured(dlwa), 4.0).unwrap().embodied_kg;
        assert!((kg(1.04) - 409.6).abs() < 0.1 && (kg(3.28) - 1143.6).abs() < 0.1);
    }

    #[test]
    fn the_life_of_a_drive_that_had_not_settled_reaches_down_to_theory() {
        let options = PlanOptions::of_preset("meta-kv", 1);
        let years = |measured: Measured| {
            let bill = bill(&options, &measured, 4.0).unwrap();
            [bill.life_years_low, bill.life_years, bill.life_years_high]
        };
        let [low, life, high] = years(measured(2.0));
        close(low, life / 1.05 / 1.05);
        close(high, life * 1.05 / 0.95);
        for unsettled in [
            Measured { dlwa_drift: 0.1, ..measured(2.0) },
            Measured { dlwa_drift: f64::NAN, ..measured(2.0) },
            Measured { drive_writes_before: 10.0, ..measured(2.0) },
        ] {
            let [low, life, _] = years(unsettled);
            close(low, life / 2.0 / 1.05);
        }
        let [low, life, _] = years(Measured { load_drift: 0.2, ..measured(2.0) });
        close(low, life / 1.2 / 1.05);
    }
}
