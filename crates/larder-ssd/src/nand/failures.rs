//! Which erases fail.

use std::collections::BTreeMap;

use super::index::BlockIndex;
use crate::rng::Rng;

/// When erases fail.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Endurance {
    /// Never.
    #[default]
    Unlimited,
    /// By chance: never up to `rated` erases of a block, always from `certain` on, with a
    /// probability that rises linearly between. Seeded by the configuration.
    Rated {
        /// Erases that each block is good for (P/E cycles).
        rated: u32,
        /// The erase that fails for sure.
        certain: u32,
    },
    /// By plan: pairs of a block (of a managed drive: a reclaim unit) and the number of its erase that fails, counted from 1.
    Planned(Vec<(u32, u32)>),
}

/// Decides which erases fail.
#[derive(Debug)]
pub(crate) enum Failures {
    Never,
    Rated { rated: u32, certain: u32, rng: Rng },
    Planned(BTreeMap<u32, u32>),
}

impl Failures {
    pub(crate) fn new(endurance: &Endurance, seed: u64) -> Self {
        match endurance {
            Endurance::Unlimited => Self::Never,
            // Another stream than the victim policy's, which starts from the seed itself.
            Endurance::Rated { rated, certain } => {
                Self::Rated { rated: *rated, certain: *certain, rng: Rng::new(!seed) }
            }
            Endurance::Planned(plan) => Self::Planned(plan.iter().copied().collect()),
        }
    }

    /// Whether the `erase`th erase of `block`, counted from 1, fails. Ask once for each: it draws.
    pub(crate) fn strikes(&mut self, block: BlockIndex, erase: u32) -> bool {
        match self {
            Self::Never => false,
            Self::Rated { rated, certain, rng } => {
                erase > *rated && rng.below(*certain - *rated) < erase - *rated
            }
            Self::Planned(plan) => plan.get(&block.0) == Some(&erase),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rated_erases_hold_and_certain_ones_fail() {
        let endurance = Endurance::Rated { rated: 10, certain: 20 };
        let mut failures = Failures::new(&endurance, 1);
        assert!((1..=10).all(|erase| !failures.strikes(BlockIndex(0), erase)));
        assert!((0..100).all(|block| failures.strikes(BlockIndex(block), 20)));
        let halfway = (0..1000).filter(|&block| failures.strikes(BlockIndex(block), 15)).count();
        assert!((400..600).contains(&halfway), "{halfway}");
    }
}
