//! The pair with the largest gain: `max (s_i - s_j) (rate_i - rate_j)`, if it is worth a migration.
//!
//! The product is half of the amount by which the sum of the squared wear grows more slowly after the swap. It is
//! positive if the busier tenant is on the more worn unit. Evenly loaded units have no pair that is worth its cost, and
//! are never swapped.
//!
//! *Hysteresis.* The gain of a swap until the next one is the erases that the worn unit is spared: the extra erases of
//! its tenant over the other's until it has erased `horizon` blocks, but at most the lead of the worn unit. The gain
//! must exceed the erases of the migration on both units.

use super::{SwapRule, UnitWear};

/// Largest gain, with hysteresis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairRule {
    /// Blocks that a migration erases on each of the two units.
    pub migration_erases: u64,
}

impl PairRule {
    #[allow(clippy::cast_precision_loss)] // erases of a drive's life are below 2^52
    fn gain(&self, worn: &UnitWear, other: &UnitWear, horizon: u64) -> Option<f64> {
        let ahead = worn.erases.checked_sub(other.erases)? as f64;
        let (busy, idle) = (worn.rate?, other.rate?);
        if busy <= idle {
            return None;
        }
        let spared = ahead.min(horizon as f64 * (1.0 - idle / busy));
        let cost = 2.0 * self.migration_erases as f64;
        (spared > cost).then_some(ahead * (busy - idle)).filter(|gain| *gain > 0.0)
    }
}

impl SwapRule for PairRule {
    fn choose(&self, units: &[UnitWear], horizon: u64) -> Option<(usize, usize)> {
        let mut best = None;
        for (i, worn) in units.iter().enumerate() {
            for (j, other) in units.iter().enumerate() {
                let Some(gain) = self.gain(worn, other, horizon) else { continue };
                // Take the first of equal pairs, so that the same units always give the same choice.
                if best.is_none_or(|(most, _)| gain > most) {
                    best = Some((gain, (i, j)));
                }
            }
        }
        let (_, (i, j)) = best?;
        debug_assert!(units[i].erases > units[j].erases && units[i].rate > units[j].rate);
        Some((i, j))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: PairRule = PairRule { migration_erases: 10 };

    fn unit(erases: u64, rate: f64) -> UnitWear {
        UnitWear { erases, since_turn: 0, rate: Some(rate) }
    }

    #[test]
    fn the_busiest_leaves_the_most_worn_for_the_least_worn() {
        let units = [unit(500, 0.6), unit(100, 0.1), unit(300, 0.3), unit(200, 0.0)];
        // 400 * 0.5 = 200 is more than 300 * 0.6 = 180.
        assert_eq!(RULE.choose(&units, 1000), Some((0, 1)));
    }

    #[test]
    fn the_most_worn_with_an_idle_tenant_stays() {
        let units = [unit(900, 0.0), unit(400, 1.0), unit(0, 0.0)];
        assert_eq!(RULE.choose(&units, 1000), Some((1, 2)));
        assert_eq!(RULE.choose(&[unit(900, 0.1), unit(0, 0.9)], 1000), None);
        assert_eq!(RULE.choose(&[unit(900, 0.5), unit(0, 0.5)], 1000), None, "alike");
    }

    /// Swaps that cost more than they spare are refused, by each of the three bounds.
    #[test]
    fn what_costs_more_than_it_gains_is_left() {
        let pair = |ahead: u64, idle| [unit(1000 + ahead, 0.5), unit(1000, idle)];
        assert_eq!(RULE.choose(&pair(21, 0.0), 1000), Some((0, 1)));
        assert_eq!(RULE.choose(&pair(20, 0.0), 1000), None, "hardly ahead");
        assert_eq!(RULE.choose(&pair(500, 0.0), 20), None, "the next turn is near");
        assert_eq!(RULE.choose(&pair(500, 0.495), 1000), None, "nearly as busy");
        assert_eq!(RULE.choose(&pair(500, 0.48), 1000), Some((0, 1)));
    }

    #[test]
    fn a_unit_with_unknown_rate_stays() {
        let unknown = UnitWear { erases: 900, since_turn: 900, rate: None };
        assert_eq!(RULE.choose(&[unknown, unit(0, 0.0)], 1000), None);
        assert_eq!(RULE.choose(&[], 1000), None);
    }
}
