//! Blocks that are lent: a vSSD has a logical block on idle dies of another one, its *lender* (a ghost superblock of
//! FleetIO, ASPLOS'25). It is for data that may vanish, such as clean data of a cache.
//!
//! ```text
//!           alloc_lent              freed, expired, called back            the die is idle, or its owner needs it
//!   (free) ────────────► lent block ───────────────────────────► returned ───────────────────────────────► (free)
//! ```
//!
//! The end of a loan takes the block out of the borrower's map. Nothing is copied. Its physical blocks are then
//! *returned*: they are erased before the lender has them, when it suits the die.
//!
//! Nothing of a loan is stored. The journal has the allocation and the freeing of its number, one after the other, so
//! the number is used. The tags on flash name a logical die that no vSSD has. So a loan ends with the power: opening
//! the array erases its blocks.
//!
//! Erases are counted where the blocks are, as all others: levelling sees the wear of the die. [`LoanTotals`] says how
//! many of them borrowers have caused.

use std::collections::{BTreeMap, BTreeSet};

use larder_ssd::nand::{BlockIndex, DieIndex};
use larder_ssd::timed::Nanoseconds;

use super::reserve::{LendingRules, RecentBlocks};
use crate::kind::{LogicalBlock, VssdId};

/// Loans in progress, and the physical blocks of those that have ended.
///
/// Invariant: a block of a table is lent if and only if it is in `open`.
#[derive(Debug, Default)]
pub(super) struct Loans {
    pub(super) rules: LendingRules,
    /// vSSDs whose dies may be lent.
    pub(super) lenders: BTreeSet<VssdId>,
    pub(super) open: BTreeMap<LogicalBlock, Loan>,
    pub(super) returned: Vec<Returned>,
    pub(super) ended: Vec<EndedLoan>,
    pub(super) totals: BTreeMap<VssdId, LoanTotals>,
    pub(super) erases: BTreeMap<(u32, DieIndex), u64>,
    pub(super) recent: RecentBlocks,
}

/// A loan in progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loan {
    pub(super) lender: VssdId,
    /// Loans are numbered in the order of their beginnings.
    pub(super) order: u64,
    pub(super) until_ns: Nanoseconds,
}

/// A physical block of a loan that has ended; it is not erased yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Returned {
    pub(super) drive: u32,
    pub(super) die: DieIndex,
    pub(super) block: BlockIndex,
    /// The block that it was a part of.
    pub(super) loan: LogicalBlock,
}

/// Why a loan has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoanEnd {
    /// The borrower has freed the block.
    Returned,
    /// Its time was over.
    Expired,
    /// The lender needs its blocks, its dies are exchanged, or it lends no more.
    CalledBack,
}

/// A loan that has ended without the borrower's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedLoan {
    /// The block, which is gone. Its vSSD is the borrower.
    pub block: LogicalBlock,
    /// The vSSD that its dies belong to.
    pub lender: VssdId,
    /// Why it has ended.
    pub end: LoanEnd,
    /// The words of its pages, if the drives keep words.
    pub words: Vec<u64>,
}

/// A loan in progress, as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoanInfo {
    /// The block. Its vSSD is the borrower.
    pub block: LogicalBlock,
    /// The vSSD that the dies belong to.
    pub lender: VssdId,
    /// The time at which it ends.
    pub until_ns: Nanoseconds,
    /// Drive and die of each part.
    pub dies: Vec<(u32, DieIndex)>,
    /// Readable pages.
    pub written_pages: u64,
}

/// Loans of a borrower since the array was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoanTotals {
    /// Loans that have begun.
    pub begun: u64,
    /// Loans that ended because the borrower freed the block.
    pub returned: u64,
    /// Loans that ended because their time was over.
    pub expired: u64,
    /// Loans that the lender has called back.
    pub called_back: u64,
    /// Pages that were programmed on blocks of loans.
    pub written_pages: u64,
    /// Blocks of lenders that were erased after a loan.
    pub erases: u64,
}

impl Loans {
    /// Whether `block` was lent and waits to be erased.
    pub(super) fn waits(&self, drive: u32, block: BlockIndex) -> bool {
        self.returned.iter().any(|back| (back.drive, back.block) == (drive, block))
    }

    /// Blocks of `die` that wait to be erased.
    pub(super) fn returned_on(&self, drive: u32, die: DieIndex) -> usize {
        self.returned.iter().filter(|back| (back.drive, back.die) == (drive, die)).count()
    }

    /// The number of a loan that begins.
    pub(super) fn begun(&self) -> u64 {
        self.totals.values().map(|totals| totals.begun).sum()
    }

    pub(super) fn totals_mut(&mut self, borrower: VssdId) -> &mut LoanTotals {
        self.totals.entry(borrower).or_default()
    }
}
