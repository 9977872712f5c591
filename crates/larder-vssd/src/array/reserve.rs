//! What lenders keep for themselves: the rules, and the blocks that owners have allocated lately.

use std::collections::BTreeMap;

use larder_ssd::nand::DieIndex;
use larder_ssd::timed::Nanoseconds;
use larder_ssd::{Error, ErrorKind};

/// Limits of what vSSDs lend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LendingRules {
    /// A vSSD lends when none of its dies was used for this time.
    pub idle_ns: Nanoseconds,
    /// Blocks of each die that stay free for its owner, in percent of its capacity; 0 to 100. The blocks that the owner
    /// has allocated in the last second are added.
    pub reserve_percent: u32,
    /// Blocks of a die that may be lent, in percent of those that its owner has free; 1 to 100.
    pub lent_percent: u32,
    /// A loan ends after this time; at least 1 ns.
    pub expiry_ns: Nanoseconds,
}

impl Default for LendingRules {
    /// Idle for 100 ms, a reserve of 10 %, a quarter of what is free, for ten minutes.
    fn default() -> Self {
        Self {
            idle_ns: 100_000_000,
            reserve_percent: 10,
            lent_percent: 25,
            expiry_ns: 600_000_000_000,
        }
    }
}

impl LendingRules {
    pub(super) fn check(&self) -> Result<(), Error> {
        let Self { reserve_percent, lent_percent, expiry_ns, .. } = *self;
        if reserve_percent > 100 || !(1..=100).contains(&lent_percent) || expiry_ns == 0 {
            let message = format!(
                "a reserve of {reserve_percent} %, {lent_percent} % lent for {expiry_ns} ns: at most 100 % in \
                 reserve, 1 to 100 % lent, for at least 1 ns"
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        Ok(())
    }
}

/// Blocks that owners have allocated lately, by die.
#[derive(Debug, Default)]
pub(super) struct RecentBlocks {
    second: u64,
    now: BTreeMap<(u32, DieIndex), usize>,
    before: BTreeMap<(u32, DieIndex), usize>,
    /// Whether a block was allocated since loans were checked.
    pub(super) unchecked: bool,
}

impl RecentBlocks {
    pub(super) fn count(&mut self, drive: u32, die: DieIndex) {
        *self.now.entry((drive, die)).or_default() += 1;
        self.unchecked = true;
    }

    /// Those of this second and the one before.
    pub(super) fn of(&self, place: (u32, DieIndex)) -> usize {
        [&self.now, &self.before].into_iter().filter_map(|second| second.get(&place)).sum()
    }

    pub(super) fn advance(&mut self, now_ns: Nanoseconds) {
        let second = now_ns / 1_000_000_000;
        if second > self.second {
            let ended = std::mem::take(&mut self.now);
            self.before = if second == self.second + 1 { ended } else { BTreeMap::new() };
            self.second = second;
        }
    }
}
