//! DLWA by formula ([`dlwa::of_cache`]), to compare with the simulation.

use larder_ssd::analytic::dlwa::{self, CacheOnDrive};

use super::options::PlanOptions;
use crate::Error;

/// DLWA at a utilisation in percent, if the small-object engine writes the share `soc_share` of the bytes.
pub(super) fn dlwa(
    options: &PlanOptions,
    placement: bool,
    utilization: f64,
    soc_share: f64,
) -> Result<f64, Error> {
    let cache = CacheOnDrive {
        used: utilization,
        spare: options.op_percent + 100.0 - utilization,
        soc: options.soc_percent / 100.0 * utilization,
        soc_share,
    };
    let result = dlwa::of_cache(&cache, placement);
    result.map_err(|error| Error::usage(format!("plan: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> PlanOptions {
        PlanOptions { soc_percent: 64.0, ..PlanOptions::of_preset("meta-kv", 1) }
    }

    #[test]
    fn a_full_drive_with_placement_is_theorem_1() {
        let all_of_the_soc = dlwa(&options(), true, 100.0, 1.0).unwrap();
        assert!((all_of_the_soc - 2.577).abs() < 5e-4, "{all_of_the_soc}");
        let half = dlwa(&options(), true, 100.0, 0.5).unwrap();
        assert!((half - (1.0 + 1.577 / 2.0)).abs() < 5e-4, "{half}");
        assert_eq!(dlwa(&options(), true, 100.0, 0.0).unwrap(), 1.0);
    }

    #[test]
    fn without_placement_the_whole_cache_is_random() {
        let full = dlwa(&options(), false, 100.0, 0.5).unwrap();
        assert!((full - 3.63).abs() < 5e-3, "{full}");
    }

    #[test]
    fn free_flash_is_spare_room() {
        for placement in [true, false] {
            let curve: Vec<f64> = (5..=10)
                .map(|tenth| dlwa(&options(), placement, f64::from(tenth) * 10.0, 1.0).unwrap())
                .collect();
            assert!(curve.windows(2).all(|pair| pair[0] < pair[1]), "{curve:?}");
        }
    }
}
