//! The question of a plan.

use larder::{SocConfig, SocLayout};
use larder_ssd::analytic::energy::{ASSUMED_IDLE_WATTS, WORLD_2023_KG_PER_KWH};
use serde_json::{Map, Value, json};

use crate::replay::{ReplayOptions, Workload};

/// The smallest drive that has enough reclaim units of a useful size.
pub(super) const FLASH_MIN: u64 = 8 << 20;
/// If the model has less DRAM than this, no object fits.
pub(super) const DRAM_MIN: u64 = 16 << 10;
const PAGE_BYTES: u64 = 4096;
/// Utilisations that are always simulated, in percent.
const SWEEP: [f64; 6] = [50.0, 60.0, 70.0, 80.0, 90.0, 100.0];

/// The endurance rating of a drive. Both forms count host bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rating {
    /// Drive writes per day over the warranty.
    Dwpd(f64),
    /// Terabytes (10¹² bytes) written in total.
    Tbw(f64),
}

/// A workload, a drive and a budget. Sizes are in bytes, shares in percent, and a GB is 10⁹ bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanOptions {
    /// Source of the requests, taken as a sample of the workload at the scale of the model.
    pub workload: Workload,
    /// Requests of each simulated run; `None` means enough for a steady drive.
    pub requests: Option<u64>,
    /// DRAM of the cache. Above 0.
    pub dram_bytes: u64,
    /// Advertised capacity of the drive.
    pub flash_bytes: u64,
    /// Share of the drive that the cache is to use, 10 to 100.
    pub utilization_percent: f64,
    /// Share of the cache's flash that the small-object engine gets, 1 to 99.
    pub soc_percent: f64,
    /// How small objects are stored; `None` for what the cache chooses by the sizes of flash and DRAM.
    pub soc_layout: Option<SocLayout>,
    /// Objects of at most this size are small.
    pub soc_max_object_bytes: u32,
    /// Over-provisioning: flash beyond the advertised capacity, in percent of it, 4 to 100.
    pub op_percent: f64,
    /// Endurance rating.
    pub rating: Rating,
    /// Warranty in years, over which drive writes per day are counted.
    pub warranty_years: f64,
    /// DLWA that the rating assumes, at least 1.
    pub rated_dlwa: f64,
    /// Requests per second that the cache will get.
    pub rate: f64,
    /// DLWA limit, above 1.
    pub dlwa_limit: f64,
    /// Years that the cache is to serve.
    pub years: f64,
    /// Rates at which the drives of a set wear, in proportion to each other, at least two; `None` for a single drive.
    pub drive_rates: Option<Vec<f64>>,
    /// Price of a GB of flash, in any currency.
    pub price_flash: f64,
    /// Price of a GB of DRAM, in the same currency.
    pub price_dram: f64,
    /// Embodied carbon of a GB of flash in kg: `C_SSD` of Theorem 2.
    pub carbon_flash: f64,
    /// Embodied carbon of a GB of DRAM in kg.
    pub carbon_dram: f64,
    /// Carbon intensity of the electricity, in kg per kWh.
    pub carbon_grid: f64,
    /// Power of the drive when it does nothing, in watts.
    pub idle_watts: f64,
    /// Size of the simulated drive.
    pub simulated_bytes: u64,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl PlanOptions {
    /// A built-in workload with the defaults of `larder plan`.
    pub fn of_preset(name: &str, seed: u64) -> Self {
        Self {
            workload: Workload::Preset(name.to_owned()),
            requests: None,
            dram_bytes: 16_000_000_000,
            flash_bytes: 1_880_000_000_000,
            utilization_percent: 100.0,
            soc_percent: 4.0,
            soc_layout: None,
            soc_max_object_bytes: 640,
            op_percent: 17.0,
            rating: Rating::Dwpd(1.0),
            warranty_years: 5.0,
            rated_dlwa: 1.0,
            rate: 50_000.0,
            dlwa_limit: 1.5,
            years: 5.0,
            drive_rates: None,
            price_flash: 0.1,
            price_dram: 4.0,
            carbon_flash: 0.16,
            carbon_dram: 1.6,
            carbon_grid: WORLD_2023_KG_PER_KWH,
            idle_watts: ASSUMED_IDLE_WATTS,
            simulated_bytes: 128 << 20,
            seed,
        }
    }

    /// How the cache stores small objects: as asked, or as it chooses.
    pub(super) fn layout(&self) -> SocLayout {
        let soc = SocConfig { layout: self.soc_layout, ..SocConfig::default() };
        soc.layout_for(self.soc_bytes(), self.dram_bytes)
    }

    /// Bytes of the drive for small objects.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
    #[allow(clippy::cast_sign_loss)] // a part of a drive
    pub(super) fn soc_bytes(&self) -> u64 {
        let share = self.utilization_percent / 100.0 * self.soc_percent / 100.0;
        (self.flash_bytes as f64 * share) as u64
    }

    /// The utilisations to simulate, in ascending order: the usual ones and the requested one.
    pub(super) fn sweep(&self) -> Vec<f64> {
        let mut sweep = SWEEP.to_vec();
        sweep.push(self.utilization_percent);
        sweep.sort_by(f64::total_cmp);
        sweep.dedup();
        sweep
    }

    /// Bytes of the simulated drive: at most those of the real drive.
    pub(super) fn model_flash_bytes(&self) -> u64 {
        self.simulated_bytes.min(self.flash_bytes) / PAGE_BYTES * PAGE_BYTES
    }

    /// The least utilisation that is simulated.
    pub(super) fn least_utilization(&self) -> f64 {
        self.utilization_percent.min(SWEEP[0])
    }

    /// The replay options of the model. DRAM is scaled like flash.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
    #[allow(clippy::cast_sign_loss)] // sizes of drives, far below 2^53
    pub(super) fn scaled(&self) -> ReplayOptions {
        let flash = self.model_flash_bytes();
        let scale = flash as f64 / self.flash_bytes as f64;
        self.replay(flash, (self.dram_bytes as f64 * scale).round() as u64, 1)
    }

    /// The replay options of the model with the given flash and DRAM sizes, and all of the drive in use.
    pub(super) fn replay(&self, flash: u64, dram: u64, requests: u64) -> ReplayOptions {
        let options = ReplayOptions {
            workload: self.workload.clone(),
            requests: Some(requests),
            span_requests: self.span_requests(flash),
            dram_bytes: dram,
            flash_bytes: flash,
            soc_percent: self.soc_percent,
            // What the cache chooses follows from the real sizes: see `Model`.
            soc_layout: self.soc_layout.unwrap_or(SocLayout::Buckets),
            soc_max_object_bytes: self.soc_max_object_bytes,
            op_percent: self.op_percent,
            ..ReplayOptions::of_preset("", self.seed)
        };
        ReplayOptions { unit_bytes: Some(options.resolved_unit_bytes()), ..options }
    }

    /// Requests of the workload as a whole, which determine the number of keys of a preset: the same number for each
    /// byte of flash as in a default replay, however many requests are made. A trace has its own keys.
    #[allow(clippy::cast_possible_truncation)] // far below 2^64 after the division
    fn span_requests(&self, flash: u64) -> Option<u64> {
        let Workload::Preset(name) = &self.workload else { return None };
        let usual = ReplayOptions::of_preset(name, self.seed);
        let requests = u128::from(usual.total_requests()?);
        let span = requests * u128::from(flash) / u128::from(usual.flash_bytes);
        Some((span as u64).max(1))
    }

    /// The parameters under the names of the command line's options, including defaults.
    pub(super) fn to_json(&self) -> Map<String, Value> {
        let (kind, name) = match &self.workload {
            Workload::Preset(name) => ("workload", name.clone()),
            Workload::Trace(path, _) => ("trace", path.display().to_string()),
            Workload::Requests(_) => ("workload", self.workload.to_string()),
        };
        let (format, object_size) = match &self.workload {
            Workload::Preset(_) | Workload::Requests(_) => (None, None),
            Workload::Trace(_, options) => {
                (options.format.map(|format| format.to_string()), Some(options.object_bytes))
            }
        };
        let (endurance, tbw) = match self.rating {
            Rating::Dwpd(rating) => (Some(rating), None),
            Rating::Tbw(rating) => (None, Some(rating)),
        };
        let parameters = json!({
            kind: name,
            "format": format,
            "object_size": object_size,
            "requests": self.requests,
            "dram": self.dram_bytes,
            "flash": self.flash_bytes,
            "utilization": self.utilization_percent,
            "soc": self.soc_percent,
            "soc_layout": self.layout().to_string(),
            "soc_max_object": self.soc_max_object_bytes,
            "op": self.op_percent,
            "endurance": endurance,
            "tbw": tbw,
            "warranty_years": self.warranty_years,
            "rated_dlwa": self.rated_dlwa,
            "rate": self.rate,
            "dlwa_limit": self.dlwa_limit,
            "years": self.years,
            "drive_rates": self.drive_rates,
            "price_flash": self.price_flash,
            "price_dram": self.price_dram,
            "carbon_flash": self.carbon_flash,
            "carbon_dram": self.carbon_dram,
            "carbon_grid": self.carbon_grid,
            "idle_watts": self.idle_watts,
            "simulate": self.simulated_bytes,
        });
        match parameters {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    fn complaint(change: impl FnOnce(&mut PlanOptions)) -> String {
        let mut options = PlanOptions::of_preset("meta-kv", 1);
        change(&mut options);
        let error = options.check().unwrap_err();
        assert!(matches!(error, Error::Usage(_)));
        error.to_string()
    }

    #[test]
    fn the_defaults_are_fine() {
        PlanOptions::of_preset("meta-kv", 1).check().unwrap();
    }

    #[test]
    fn refusals_name_the_option_the_value_and_the_range() {
        assert!(complaint(|o| o.dram_bytes = 0).starts_with("--dram 0: must be above 0"));
        assert!(complaint(|o| o.flash_bytes = 4096).starts_with("--flash 4096: must be at least"));
        assert_eq!(complaint(|o| o.op_percent = 300.0), "--op 300: must be 4 to 100");
        assert_eq!(complaint(|o| o.soc_percent = 0.0), "--soc 0: must be 1 to 99");
        let complaints = [
            complaint(|o| o.utilization_percent = f64::NAN),
            complaint(|o| o.rating = Rating::Tbw(-1.0)),
            complaint(|o| o.price_flash = -0.1),
            complaint(|o| o.dlwa_limit = 1.0),
            complaint(|o| o.rate = 0.0),
            complaint(|o| o.rate = 1e12),
            complaint(|o| o.years = 0.01),
            complaint(|o| o.rating = Rating::Tbw(0.000_001)),
            complaint(|o| o.drive_rates = Some(vec![1.0])),
            complaint(|o| o.drive_rates = Some(vec![1.0, -2.0])),
            complaint(|o| o.dram_bytes = o.flash_bytes + 1),
            complaint(|o| o.simulated_bytes = 1),
            complaint(|o| o.requests = Some(0)),
            complaint(|o| o.soc_max_object_bytes = 5000),
            complaint(|o| o.workload = Workload::Preset("nope".to_owned())),
        ];
        let names = [
            "--utilization NaN:",
            "--tbw -1:",
            "--price-flash -0.1:",
            "--dlwa-limit 1:",
            "--rate 0:",
            "--rate 1000000000000:",
            "--years 0.01:",
            "--tbw 0.000001:",
            "--drive-rates 1:",
            "--drive-rates 1,-2:",
            "--dram 1880000000001:",
            "--simulate 1:",
            "--requests 0:",
            "--soc-max-object 5000:",
            "--workload nope:",
        ];
        for (complaint, name) in complaints.iter().zip(names) {
            assert!(complaint.starts_with(name), "{complaint}");
        }
    }

    #[test]
    fn the_utilisation_asked_for_is_simulated_once() {
        let mut options = PlanOptions::of_preset("meta-kv", 1);
        assert_eq!(options.sweep(), SWEEP);
        options.utilization_percent = 75.0;
        assert_eq!(options.sweep(), [50.0, 60.0, 70.0, 75.0, 80.0, 90.0, 100.0]);
    }
}
