//! A cache's part of a memory budget that it shares with others.

use std::sync::OnceLock;

use super::Larder;
use super::lending::{Borrower, Membership};

/// A cache's part of a memory budget, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allotment {
    /// For DRAM; flash takes its memory on top.
    Dram(u64),
    /// For everything.
    All(u64),
}

impl Borrower for Larder {
    fn flash_bytes(&self) -> u64 {
        self.core.flash_bytes()
    }

    fn used_bytes(&self) -> u64 {
        self.core.dram.used_bytes()
    }

    fn budget_bytes(&self) -> u64 {
        self.core.dram.budget_bytes()
    }

    fn set_budget(&self, bytes: u64) {
        self.core.dram.set_budget(bytes, self.core.now_s());
        self.demoter.wake();
    }

    fn is_above_budget(&self) -> bool {
        self.core.dram.is_shrinking()
    }

    fn membership(&self) -> &OnceLock<Membership<Self>> {
        self.demoter.membership()
    }
}
