//! The paper's rule unchanged: swap the most worn unit with the one with the lowest rate.
//!
//! The rate is the number of erases since the counters were last cleared, as in the paper, so use it with
//! [`Turns::Together`](super::Turns::Together). The paper does not define ties: here they go to the higher rate among
//! the most worn and to the least worn among the idle. This rule exists for comparison ([module documentation](super)).

use std::cmp::Reverse;

use super::{SwapRule, UnitWear};

/// Most erases with lowest rate, whether or not the swap gains anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LiteralRule;

impl SwapRule for LiteralRule {
    fn choose(&self, units: &[UnitWear], _horizon: u64) -> Option<(usize, usize)> {
        let worn = (0..units.len())
            .max_by_key(|&at| (units[at].erases, units[at].since_turn, Reverse(at)))?;
        let idle = (0..units.len())
            .filter(|&at| at != worn)
            .min_by_key(|&at| (units[at].since_turn, units[at].erases, at))?;
        Some((worn, idle))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(erases: u64, since_turn: u64) -> UnitWear {
        UnitWear { erases, since_turn, rate: None }
    }

    #[test]
    fn most_worn_with_lowest_rate() {
        let units = [unit(10, 10), unit(50, 20), unit(30, 5), unit(40, 30)];
        assert_eq!(LiteralRule.choose(&units, 0), Some((1, 2)));
        assert_eq!(LiteralRule.choose(&units[..1], 0), None);
        assert_eq!(LiteralRule.choose(&[], 0), None);
    }

    /// If migrations cost nothing, the channel just left and the one in use have equal wear: only the tie rule keeps
    /// the rule from swapping idle tenants. With one more erase on the channel just left, it swaps them.
    #[test]
    fn a_tie_is_all_that_makes_it_work() {
        let left = |more: u64| [unit(100 + more, 0), unit(100, 100), unit(0, 0)];
        assert_eq!(LiteralRule.choose(&left(0), 100), Some((1, 2)));
        assert_eq!(LiteralRule.choose(&left(1), 100), Some((0, 2)));
    }
}
