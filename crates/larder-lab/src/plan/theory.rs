//! DLWA by formula, to compare with the simulation.
//!
//! With placement this is Theorem 1 of the FDP paper for the small-object engine, weighted by its share of the host's
//! bytes. Its spare space is all flash that the cache leaves free.
//!
//! Without placement there is no formula for the mix of a small hot engine and a large log. We use uniform random
//! writes over all flash that the cache uses, with the oldest (or, as units grow, the emptiest) unit collected first.
//! This treats the log as random, which makes it too high on a full drive. It also treats all pages as equally hot,
//! which makes it too low on one that is half empty. So it is an estimate, not a bound.

use larder_ssd::analytic::{SpareRatio, dlwa};

use super::options::PlanOptions;
use crate::Error;

/// DLWA at a utilisation in percent, if the small-object engine writes the share `soc_share` of the bytes.
pub(super) fn dlwa(
    options: &PlanOptions,
    placement: bool,
    utilization: f64,
    soc_share: f64,
) -> Result<f64, Error> {
    let spare = options.op_percent + 100.0 - utilization;
    let live = if placement { options.soc_percent / 100.0 * utilization } else { utilization };
    let result = SpareRatio::new(spare / live).map(dlwa::fifo).and_then(|dlwa_of_live| {
        if placement { dlwa::device_wide(dlwa_of_live, soc_share) } else { Ok(dlwa_of_live) }
    });
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
