//! Device-level write amplification (DLWA) under uniform random writes: media bytes per host byte.
//!
//! All of it describes a drive (or a stream with spare room of its own) in steady state: all logical pages are written
//! and equally likely to be written next. Skew, deallocation and order change the result. A garbage collection that
//! keeps units in reserve has less spare room than the drive's data sheet says.

use super::lambert::one_plus_w0;
use super::{SpareRatio, at_least, refused};
use crate::error::Error;

/// Below this spare ratio, differences are summed term by term as a series.
const SERIES_RATIO_MAX: f64 = 1.0;
/// Enough terms for full double precision at ratios up to 1.
const EXP_TERMS: u32 = 20;
/// Enough terms of `uᵏ/(k + 1)` for `u <= 0.1`.
const LOG_TERMS: i32 = 18;
/// Bisection ends when two doubles are neighbours; this limit is a backstop.
const BISECTIONS_MAX: usize = 200;

/// Theorem 1 of the FDP paper: the share δ of a unit's pages that are still live when it is
/// reclaimed, `δ = -W₀(-α·e^-α)/α` with `α = S_P/S_SOC`. From 1 (no spare room) to 0 (plenty).
///
/// Accurate to 1e-15 for all spare ratios; [`live_share_by_bisection`] is the check.
pub fn live_share(spare: SpareRatio) -> f64 {
    1.0 - dead_share(spare)
}

/// The same δ from the other form of Theorem 1, `S_SOC/S_P = (δ - 1)/ln δ`, by bisection. Slower
/// and independent of the Lambert W function.
pub fn live_share_by_bisection(spare: SpareRatio) -> f64 {
    1.0 - dead_share_by_bisection(spare)
}

/// DLWA when the oldest unit is reclaimed first: `1/(1 - δ)`.
///
/// This is Theorem 1 of the FDP paper for the stream of the small-object cache (SOC), with the
/// SOC's bytes as live data and the over-provisioning as spare room; and it is the formula for
/// FIFO (or "LRU") victims of Xiang and Kurkoski (arXiv 1110.4245) and of Desnoyers (SYSTOR 2012)
/// for a whole drive. Greedy victims come to the same as units grow: see [`greedy`].
///
/// For all bytes that go to the drive, not only those of the SOC, see [`device_wide`].
///
/// ```
/// use larder_ssd::analytic::{SpareRatio, dlwa};
///
/// # fn main() -> Result<(), larder_ssd::Error> {
/// // The spare room is half the size of the SOC.
/// let spare = SpareRatio::from_bytes(100_000_000_000, 50_000_000_000)?;
/// assert!((dlwa::fifo(spare) - 1.7158).abs() < 1e-4);
/// # Ok(())
/// # }
/// ```
pub fn fifo(spare: SpareRatio) -> f64 {
    1.0 / dead_share(spare)
}

/// DLWA of the whole drive from the DLWA of the SOC: `1 + share·(DLWA - 1)`, where `share` is the SOC's share of the
/// host's bytes. The other bytes are written in order, and the formula assumes that they cause no extra writes.
///
/// The FDP paper sets the share to 1 without saying so. A real drive lies between the two: when the SOC is large, units
/// of the other stream are reclaimed before all their pages are dead.
///
/// # Errors
/// If the DLWA of the SOC is below 1, or the share is not within 0 and 1.
pub fn device_wide(soc_dlwa: f64, soc_share: f64) -> Result<f64, Error> {
    at_least("DLWA of the SOC", 1.0, soc_dlwa)?;
    if !(0.0..=1.0).contains(&soc_share) {
        return Err(refused("SOC share of host bytes", soc_share, format_args!("0 to 1")));
    }
    Ok(1.0 + soc_share * (soc_dlwa - 1.0))
}

/// A cache on a drive. The sizes may have any unit, as long as it is the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CacheOnDrive {
    /// Logical pages that the cache uses.
    pub used: f64,
    /// Flash of the drive beyond those: over-provisioning, and what the cache leaves free.
    pub spare: f64,
    /// The part of `used` that the small-object engine (SOC) has.
    pub soc: f64,
    /// The SOC's share of the bytes that the cache writes, 0 to 1.
    pub soc_share: f64,
}

/// DLWA of a drive under a cache, to compare with a simulation or a measurement.
///
/// With placement (`placed`: the SOC has reclaim units of its own) this is Theorem 1 of the FDP paper for the SOC,
/// weighted by its share of the bytes. Its spare room is all flash that the cache leaves free.
///
/// Without placement there is no formula for the mix of a small hot engine and a large log. We use uniform random
/// writes over all flash that the cache uses, with the oldest (or, as units grow, the emptiest) unit collected first.
/// This treats the log as random, which makes it too high on a full drive. It also treats all pages as equally hot,
/// which makes it too low on one that is half empty. So it is an estimate, not a bound.
///
/// ```
/// use larder_ssd::analytic::dlwa::{CacheOnDrive, of_cache};
///
/// # fn main() -> Result<(), larder_ssd::Error> {
/// let cache = CacheOnDrive { used: 100.0, spare: 17.0, soc: 4.0, soc_share: 0.5 };
/// assert!(of_cache(&cache, true)? < 1.01 && of_cache(&cache, false)? > 3.0);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If there is no spare room, or the share is not within 0 and 1.
pub fn of_cache(cache: &CacheOnDrive, placed: bool) -> Result<f64, Error> {
    let CacheOnDrive { used, spare, soc, soc_share } = *cache;
    if !placed {
        return SpareRatio::new(spare / used).map(fifo);
    }
    let soc_dlwa = if soc > 0.0 { SpareRatio::new(spare / soc).map(fifo)? } else { 1.0 };
    device_wide(soc_dlwa, soc_share)
}

/// DLWA when the unit with the fewest live pages is reclaimed, with host data and moved data in
/// the same open unit: Desnoyers, "Analytic Modeling of SSD Write Performance" (SYSTOR 2012).
///
/// With `c = 1 + 1/(2·pages)` the formula is [`fifo`] at `c·α`, divided by `c`. It agrees with simulation to 0.3 % if a
/// victim holds a fair number of dead pages. If it holds two or three the formula is low, by 3 % for 64 pages and 1 %
/// of over-provisioning: [`d_choices`](super::d_choices) with very many choices is better there. For small units with
/// ample spare room the formula falls below 1; the result is then 1.
///
/// # Errors
/// If a unit has no pages.
pub fn greedy(spare: SpareRatio, pages_per_unit: u32) -> Result<f64, Error> {
    if pages_per_unit == 0 {
        return Err(refused("unit size in pages", 0, format_args!("at least 1")));
    }
    let excess = 0.5 / f64::from(pages_per_unit);
    let wider = SpareRatio::clamped(spare.ratio() + excess * spare.alpha());
    Ok((fifo(wider) / (1.0 + excess)).max(1.0))
}

/// DLWA when the victim is any unit at random: `α/(α - 1)`.
pub fn random(spare: SpareRatio) -> f64 {
    spare.alpha() / spare.ratio()
}

/// `1 - δ` by Lambert W. With `r = α - 1` and `v = 1 + W₀(-α·e^-α)` it is `(r + v)/α`, in which
/// nothing cancels.
fn dead_share(spare: SpareRatio) -> f64 {
    let v = one_plus_w0(branch_distance(spare.ratio()));
    ((spare.ratio() + v) / spare.alpha()).min(1.0)
}

/// `1 - (1 + r)·e⁻ʳ`: how far `-α·e^-α` lies above the branch point, in units of 1/e.
fn branch_distance(r: f64) -> f64 {
    if r >= SERIES_RATIO_MAX {
        return 1.0 - (1.0 + r) * (-r).exp();
    }
    // e⁻ʳ·(eʳ - 1 - r), with the parenthesis as a series.
    let (mut power, mut sum) = (r, 0.0);
    for k in 2..EXP_TERMS {
        power *= r / f64::from(k);
        sum += power;
    }
    sum * (-r).exp()
}

/// `1 - δ` by bisection of `-ln(1 - u)/u = α`, less 1 on both sides, over u in (0, 1).
fn dead_share_by_bisection(spare: SpareRatio) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..BISECTIONS_MAX {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if ratio_of_dead_share(middle) < spare.ratio() {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// `-ln(1 - u)/u - 1`: the spare ratio at which a share `u` of the victim is dead.
fn ratio_of_dead_share(u: f64) -> f64 {
    if u > 0.1 {
        return -(-u).ln_1p() / u - 1.0;
    }
    (1..=LOG_TERMS).rev().fold(0.0, |sum, k| (sum + 1.0 / f64::from(k + 1)) * u)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spare(ratio: f64) -> SpareRatio {
        SpareRatio::new(ratio).unwrap()
    }

    fn assert_close(got: f64, expected: f64, relative: f64, what: &str) {
        let error = (got / expected - 1.0).abs();
        assert!(error <= relative, "{what}: {got} instead of {expected}");
    }

    #[test]
    fn theorem_1_gives_the_published_values() {
        // S_P/S_SOC, δ, DLWA.
        let table = [
            (1.02, 0.96104, 25.669),
            (1.05, 0.90630, 10.672),
            (1.07, 0.87208, 7.8172),
            (1.10, 0.82387, 5.6775),
            (1.15, 0.75100, 4.0160),
            (1.20, 0.68630, 3.1878),
            (1.25, 0.62863, 2.6927),
            (1.277, 0.60007, 2.5004),
            (1.40, 0.48899, 1.9569),
            (1.50, 0.41719, 1.7158),
            (1.75, 0.28730, 1.4031),
            (2.00, 0.20319, 1.2550),
            (2.50, 0.10736, 1.1203),
            (3.00, 0.05952, 1.0633),
            (3.50, 0.03402, 1.0352),
            (4.00, 0.01983, 1.0202),
            (5.00, 0.00698, 1.0070),
            (6.00, 0.00252, 1.0025),
        ];
        for (alpha, delta, expected) in table {
            let spare = spare(alpha - 1.0);
            let what = format!("{alpha}");
            assert!((live_share(spare) - delta).abs() < 5.1e-6, "{alpha}: {}", live_share(spare));
            assert_close(fifo(spare), expected, 5.1e-5, &what);
        }
    }

    #[test]
    fn lambert_and_bisection_agree_over_the_whole_range() {
        let mut ratio = SpareRatio::MIN;
        while ratio <= SpareRatio::MAX {
            let spare = spare(ratio);
            let difference = live_share(spare) - live_share_by_bisection(spare);
            assert!(difference.abs() < 1e-14, "{ratio}: {difference}");
            // Not only δ must agree, but also `1 - δ`.
            let by_bisection = 1.0 / dead_share_by_bisection(spare);
            assert_close(fifo(spare), by_bisection, 1e-14, &format!("{ratio}"));
            ratio *= 1.01;
        }
    }

    #[test]
    fn small_and_large_ratios_keep_their_digits() {
        // Computed with 80 digits.
        let table = [
            (1e-12, 500_000_000_000.666_7),
            (1e-9, 500_000_000.666_666_7),
            (1e-6, 500_000.666_666_777_8),
            (1e-3, 500.666_777_748_158),
            (0.5, 1.715_820_214_858_719_5),
            (1.0, 1.255_000_974_915_975_3),
            (5.0, 1.002_522_810_824_478_9),
            (40.0, 1.0),
            (1e12, 1.0),
        ];
        for (ratio, expected) in table {
            assert_close(fifo(spare(ratio)), expected, 2e-15, &format!("{ratio}"));
        }
    }

    #[test]
    fn dlwa_by_soc_share_at_full_utilisation() {
        let soc_percents = [4.0, 8.0, 16.0, 32.0, 64.0, 90.0, 96.0];
        let table = [
            (7.0, [1.086, 1.317, 1.853, 2.975, 5.250, 7.104, 7.532]),
            (10.0, [1.035, 1.172, 1.526, 2.299, 3.883, 5.179, 5.478]),
            (14.0, [1.012, 1.086, 1.317, 1.853, 2.975, 3.898, 4.111]),
            (17.0, [1.005, 1.054, 1.230, 1.660, 2.577, 3.334, 3.509]),
            (20.0, [1.003, 1.035, 1.172, 1.526, 2.299, 2.940, 3.089]),
        ];
        for (op_percent, row) in table {
            for (soc_percent, expected) in soc_percents.into_iter().zip(row) {
                let got = fifo(SpareRatio::of_soc_percent(op_percent, soc_percent).unwrap());
                assert!((got - expected).abs() < 5.1e-4, "{op_percent} {soc_percent}: {got}");
            }
        }
    }

    #[test]
    fn the_whole_drive_weighs_the_soc_by_its_bytes() {
        assert_eq!(device_wide(3.0, 0.0), Ok(1.0));
        assert_eq!(device_wide(3.0, 1.0), Ok(3.0));
        assert_eq!(device_wide(3.0, 0.5), Ok(2.0));
        let soc = fifo(SpareRatio::of_soc_percent(7.0, 20.0).unwrap());
        assert_close(device_wide(soc, 0.5).unwrap(), 1.565, 5e-4, "soc 20 %, OP 7 %");
        for (dlwa, share) in [(0.99, 0.5), (f64::NAN, 0.5), (2.0, 1.01), (2.0, f64::NAN)] {
            assert!(device_wide(dlwa, share).is_err());
        }
    }

    #[test]
    fn victims_in_order_of_age_or_of_live_pages() {
        // Over-provisioning; FIFO; greedy with 64, 128, 256 and 1024 pages per unit.
        let table = [
            (0.07, 7.817, [7.001, 7.386, 7.595, 7.761]),
            (0.10, 5.677, [5.242, 5.451, 5.562, 5.648]),
            (0.11, 5.224, [4.855, 5.032, 5.126, 5.199]),
            (0.20, 3.188, [3.053, 3.119, 3.153, 3.179]),
            (0.28, 2.481, [2.402, 2.441, 2.461, 2.476]),
        ];
        for (ratio, oldest, row) in table {
            let what = format!("{ratio}");
            assert_close(fifo(spare(ratio)), oldest, 2e-4, &what);
            for (pages, expected) in [64, 128, 256, 1024].into_iter().zip(row) {
                assert_close(greedy(spare(ratio), pages).unwrap(), expected, 2e-4, &what);
            }
        }
        assert_close(greedy(spare(0.5), 64).unwrap(), 1.681, 3e-4, "50 %");
        assert_close(greedy(spare(1.0), 64).unwrap(), 1.239, 4e-4, "100 %");
        assert_close(fifo(spare(0.3)), 2.364, 2e-4, "Xiang and Kurkoski's example");
    }

    #[test]
    fn greedy_keeps_to_its_bounds() {
        for ratio in [1e-12, 0.01, 0.07, 0.5, 3.0, 1e12] {
            let mut last = 1.0;
            for pages in [1, 2, 16, 256, 65_536, u32::MAX] {
                let dlwa = greedy(spare(ratio), pages).unwrap();
                assert!(last <= dlwa && dlwa <= fifo(spare(ratio)), "{ratio} {pages}: {dlwa}");
                last = dlwa;
            }
        }
        assert!(greedy(spare(0.1), 0).is_err());
    }

    #[test]
    fn victims_by_lot() {
        assert_close(random(spare(0.07)), 15.286, 5e-5, "7 %");
        assert_close(random(spare(0.28)), 4.571, 1e-4, "28 %");
    }
}
