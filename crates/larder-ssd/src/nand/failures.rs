//! Which erases and programs fail.

use std::collections::{BTreeMap, BTreeSet};

use super::index::BlockIndex;
use crate::error::{Error, ErrorKind};
use crate::rng::Rng;

/// When erases fail.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Endurance {
    /// Never.
    #[default]
    Unlimited,
    /// At random: never up to `rated` erases of a block, always from `certain` on, with a probability that rises
    /// linearly in between. The seed is that of the configuration.
    Rated {
        /// Erases that each block withstands (P/E cycles).
        rated: u32,
        /// The erase that fails with certainty.
        certain: u32,
    },
    /// By plan: pairs of a block (on a managed drive: a reclaim unit) and the number of its erase that fails, counted
    /// from 1.
    Planned(Vec<(u32, u32)>),
}

impl Endurance {
    /// Refuses an endurance that is impossible for a drive with this number of blocks. `name` is the firmware's word
    /// for a block.
    pub(crate) fn check(&self, blocks: u32, name: &str) -> Result<(), Error> {
        let fail = |message: String| Err(Error::new(ErrorKind::Config, message));
        match self {
            Self::Rated { rated, certain } if certain <= rated => fail(format!(
                "endurance rated for {rated} erases and over at {certain}: the second must be \
                 larger"
            )),
            Self::Planned(plan) => {
                let beyond = plan.iter().find(|(block, _)| *block >= blocks);
                beyond.map_or(Ok(()), |(block, _)| {
                    fail(format!("endurance plan names {name} {block}: the drive has {blocks}"))
                })
            }
            Self::Rated { .. } | Self::Unlimited => Ok(()),
        }
    }
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
            // The victim policy's random stream starts from the seed itself; use another one here.
            Endurance::Rated { rated, certain } => {
                Self::Rated { rated: *rated, certain: *certain, rng: Rng::new(!seed) }
            }
            Endurance::Planned(plan) => Self::Planned(plan.iter().copied().collect()),
        }
    }

    /// Whether the `erase`th erase of `block`, counted from 1, fails. Call it once per erase: it draws a random number.
    pub(crate) fn strikes(&mut self, block: BlockIndex, erase: u32) -> bool {
        debug_assert!(erase > 0, "erases are counted from 1");
        match self {
            Self::Never => false,
            Self::Rated { rated, certain, rng } => {
                erase > *rated && rng.below(*certain - *rated) < erase - *rated
            }
            Self::Planned(plan) => plan.get(&block.0) == Some(&erase),
        }
    }
}

/// Decides which programs fail: those in a plan, once each.
#[derive(Debug, Default)]
pub(crate) struct ProgramFailures {
    planned: BTreeSet<(BlockIndex, u32)>,
}

impl ProgramFailures {
    /// `plan`: pairs of a block and the page whose next program fails.
    pub(crate) fn new(plan: &[(BlockIndex, u32)]) -> Self {
        Self { planned: plan.iter().copied().collect() }
    }

    /// Whether the program of `count` pages of `block` from its page `at` on fails.
    pub(crate) fn strikes(&mut self, block: BlockIndex, at: u32, count: u32) -> bool {
        debug_assert!(count > 0, "a program has pages");
        let hit = self.planned.range((block, at)..(block, at + count)).next().copied();
        hit.is_some_and(|hit| self.planned.remove(&hit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planned_program_fails_once() {
        let block = BlockIndex(3);
        let mut failures = ProgramFailures::new(&[(block, 10)]);
        assert!(!failures.strikes(block, 4, 6) && !failures.strikes(BlockIndex(2), 8, 4));
        assert!(failures.strikes(block, 8, 4));
        assert!(!failures.strikes(block, 8, 4));
    }

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
