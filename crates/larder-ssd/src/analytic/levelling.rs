//! How often tenants with channels of their own must swap places so that all channels wear out at the same time.
//!
//! Huang et al., "FlashBlox: Achieving Both Performance Isolation and Uniform Lifetime for Virtualized SSDs" (FAST
//! 2017), section 4. One tenant issues all writes, to one of `N` units; at each swap it moves on to the next. With `M`
//! erases per turn, each unit has `M·K` erases after `K` rounds over all units. After one more turn the most worn unit
//! has `M·K + M`, and the mean is `M·K + M/N`:
//!
//! ```text
//! (K + 1) / (K + 1/N) <= 1 + δ    <=>    K >= (N - 1 - δ) / (N·δ)
//! exchanges in all:  N·K  <  N/δ         each time  γ = α·(erases of all units in their life) / N·K
//! ```
//!
//! `δ` is how far the most worn unit may be ahead of the mean when the share `α` of life is over.

use super::{at_least, positive, refused};
use crate::error::Error;

/// The number of swaps that a given number of units needs.
///
/// ```
/// use larder_ssd::analytic::levelling::Rotation;
///
/// # fn main() -> Result<(), larder_ssd::Error> {
/// // Sixteen channels, at most 10 % ahead of the mean, five years: once in twelve days.
/// let rotation = Rotation::new(16, 0.1)?;
/// assert!((rotation.swaps() - 149.0).abs() < 1e-9);
/// assert!((rotation.period(1.0, 5.0 * 365.25)? - 12.26).abs() < 0.01);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rotation {
    units: f64,
    delta: f64,
}

impl Rotation {
    /// For `units` units, the most worn of which may be ahead of their mean by the share `delta`.
    ///
    /// # Errors
    /// For fewer than two units, or a `delta` that is not above 0 and below `units - 1` (from there on no swap is
    /// needed).
    pub fn new(units: u32, delta: f64) -> Result<Self, Error> {
        if units < 2 {
            return Err(refused("number of units", units, format_args!("at least 2")));
        }
        let units = f64::from(units);
        if !(delta > 0.0 && delta < units - 1.0) {
            let most = units - 1.0;
            return Err(refused("imbalance", delta, format_args!("above 0 and below {most}")));
        }
        Ok(Self { units, delta })
    }

    /// `K`: rounds over all units.
    pub fn rounds(&self) -> f64 {
        (self.units - 1.0 - self.delta) / (self.units * self.delta)
    }

    /// `N·K`: swaps in total.
    pub fn swaps(&self) -> f64 {
        self.units * self.rounds()
    }

    /// `N/δ`: the paper's simpler upper bound of [`Self::swaps`].
    pub fn swaps_bound(&self) -> f64 {
        self.units / self.delta
    }

    /// Time between two swaps, in the unit of `life`; `alpha` is the share of life within which the swaps are made.
    ///
    /// # Errors
    /// If `alpha` is outside (0, 1], or `life` is not above 0.
    pub fn period(&self, alpha: f64, life: f64) -> Result<f64, Error> {
        Ok(in_life(alpha, life)? / self.swaps())
    }

    /// The same, with [`Self::swaps_bound`] in place of [`Self::swaps`].
    ///
    /// # Errors
    /// As [`Self::period`].
    pub fn period_bound(&self, alpha: f64, life: f64) -> Result<f64, Error> {
        Ok(in_life(alpha, life)? / self.swaps_bound())
    }

    /// `γ`: blocks to erase between two swaps, rounded down, if each unit endures `rated_erases`. This is `M / f` of
    /// the paper: the data written, divided by how often it is swapped.
    ///
    /// # Errors
    /// If `alpha` is outside (0, 1], or `rated_erases` is 0.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // below 2^52, above 0
    pub fn trigger_erases(&self, alpha: f64, rated_erases: u64) -> Result<u64, Error> {
        if rated_erases == 0 {
            return Err(refused("rated erases of a unit", 0, format_args!("above 0")));
        }
        Ok(self.period(alpha, self.units * rated_erases as f64)? as u64)
    }

    /// Erases of the most worn unit relative to the mean (1 is even), after `rounds` rounds and one more turn of the
    /// tenant that issues all writes.
    ///
    /// # Errors
    /// If `rounds` is negative, infinite or not a number.
    pub fn imbalance_after(&self, rounds: f64) -> Result<f64, Error> {
        at_least("rounds", 0.0, rounds)?;
        Ok((rounds + 1.0) / (rounds + 1.0 / self.units))
    }
}

fn in_life(alpha: f64, life: f64) -> Result<f64, Error> {
    if !(alpha > 0.0 && alpha <= 1.0) {
        return Err(refused("share of life", alpha, format_args!("above 0 and at most 1")));
    }
    Ok(alpha * positive("life", life)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAYS: f64 = 5.0 * 365.25;

    /// Units, imbalance, rounds, swaps, their bound, and the days between two swaps: with `α` = 0.9 by swaps and by the
    /// bound, then with `α` = 1 by both.
    #[allow(clippy::type_complexity)]
    const TABLE: [(u32, f64, f64, f64, f64, [f64; 4]); 7] = [
        (4, 0.1, 7.25, 29.0, 40.0, [56.7, 41.1, 63.0, 45.7]),
        (8, 0.1, 8.63, 69.0, 80.0, [23.8, 20.5, 26.5, 22.8]),
        (16, 0.05, 18.7, 299.0, 320.0, [5.5, 5.1, 6.1, 5.7]),
        (16, 0.1, 9.31, 149.0, 160.0, [11.0, 10.3, 12.3, 11.4]),
        (16, 0.2, 4.63, 74.0, 80.0, [22.2, 20.5, 24.7, 22.8]),
        (32, 0.1, 9.66, 309.0, 320.0, [5.3, 5.1, 5.9, 5.7]),
        (64, 0.1, 9.83, 629.0, 640.0, [2.6, 2.6, 2.9, 2.9]),
    ];

    #[test]
    fn the_worked_table() {
        for (units, delta, rounds, swaps, bound, days) in TABLE {
            let rotation = Rotation::new(units, delta).unwrap();
            let near = |ours: f64, table: f64, by: f64| {
                assert!((ours - table).abs() <= by, "{units} {delta}: {ours}, not {table}");
            };
            near(rotation.rounds(), rounds, 0.051);
            near(rotation.swaps(), swaps, 1e-6);
            near(rotation.swaps_bound(), bound, 1e-6);
            near(rotation.period(0.9, DAYS).unwrap(), days[0], 0.06);
            near(rotation.period_bound(0.9, DAYS).unwrap(), days[1], 0.06);
            near(rotation.period(1.0, DAYS).unwrap(), days[2], 0.06);
            near(rotation.period_bound(1.0, DAYS).unwrap(), days[3], 0.06);
        }
    }

    #[test]
    fn the_number_of_rounds_is_just_enough() {
        for units in [2, 4, 16, 1024] {
            for delta in [0.01, 0.1, 0.5] {
                let rotation = Rotation::new(units, delta).unwrap();
                let imbalance = |rounds: f64| rotation.imbalance_after(rounds).unwrap();
                assert!((imbalance(rotation.rounds()) - (1.0 + delta)).abs() < 1e-9);
                assert!(imbalance(rotation.rounds() * 0.99) > 1.0 + delta);
                assert!(rotation.swaps() < rotation.swaps_bound());
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(Rotation::new(1, 0.1).is_err());
        for delta in [0.0, -0.1, f64::NAN, 3.0] {
            assert!(Rotation::new(4, delta).is_err(), "{delta}");
        }
        let rotation = Rotation::new(4, 0.1).unwrap();
        for alpha in [0.0, 1.1, f64::NAN] {
            assert!(rotation.period(alpha, 1.0).is_err(), "{alpha}");
        }
        assert!(rotation.period(0.9, 0.0).is_err() && rotation.imbalance_after(-1.0).is_err());
        assert!(rotation.trigger_erases(0.9, 0).is_err());
    }
}
