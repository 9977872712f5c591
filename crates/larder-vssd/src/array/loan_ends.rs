//! Looks at loans, ends them, and erases what they had. [`Loans`](super::loans::Loans) explains their life.

use std::collections::BTreeSet;

use larder_ssd::nand::{BlockIndex, DieIndex, Health};
use larder_ssd::{Error, ErrorKind};

use super::loans::{EndedLoan, Loan, LoanEnd, LoanInfo, LoanTotals, Returned};
use super::moves::Part;
use super::{Vssds, erase};
use crate::images::Images;
use crate::kind::{LogicalBlock, VssdId};
use crate::state::{Seat, SwapState};

/// Ended loans whose blocks are erased when their owner needs one. Requests that are in flight then wait for the
/// erases. Two erases at once hold up half as many requests as one after the other do, each for one erase more.
const ERASED_TOGETHER: usize = 2;

impl<I: Images> Vssds<I> {
    /// Whether `block` is lent by another vSSD.
    pub fn is_lent(&self, block: LogicalBlock) -> bool {
        self.loans.open.contains_key(&block)
    }

    /// Whether no block is lent now.
    pub fn loans_are_none(&self) -> bool {
        self.loans.open.is_empty()
    }

    /// The loans in progress, by block.
    pub fn loans(&self) -> Vec<LoanInfo> {
        self.loans.open.keys().filter_map(|&block| self.loan(block)).collect()
    }

    /// The loan of `block`; `None` if it is not lent.
    pub fn loan(&self, block: LogicalBlock) -> Option<LoanInfo> {
        let loan = self.loans.open.get(&block)?;
        let entry = self.ledger.state().vssd(block.vssd())?;
        let slot = entry.table.find(block.block())?;
        let dies = (0..entry.table.width()).filter_map(|at| entry.table.lent_place(slot, at));
        Some(LoanInfo {
            block,
            lender: loan.lender,
            until_ns: loan.until_ns,
            dies: dies.collect(),
            written_pages: self.written_of(entry, slot),
        })
    }

    /// Loans of `borrower` since the array was opened, with those in progress.
    pub fn loan_totals(&self, borrower: VssdId) -> LoanTotals {
        let mut totals = self.loans.totals.get(&borrower).copied().unwrap_or_default();
        let open = self.loans.open.keys().filter(|block| block.vssd() == borrower);
        let written = open.filter_map(|&block| Some(self.loan(block)?.written_pages));
        totals.written_pages += written.sum::<u64>();
        totals
    }

    /// By die of `drive`: blocks that were erased after loans since the array was opened. They are part of the erases
    /// of the die.
    pub fn lent_erases(&self, drive: u32) -> Vec<u64> {
        let dies = (0..self.ledger.state().shape.dies()).map(DieIndex);
        dies.map(|die| self.loans.erases.get(&(drive, die)).copied().unwrap_or(0)).collect()
    }

    /// Takes the loans that have ended since the last call without a request of their borrowers.
    pub fn take_ended_loans(&mut self) -> Vec<EndedLoan> {
        std::mem::take(&mut self.loans.ended)
    }

    /// Ends the loan of `block`: the borrower has it no more. Its physical blocks wait to be erased.
    ///
    /// # Errors
    /// [`ErrorKind::NotOwned`] if `block` is not lent (any more).
    pub fn end_loan(&mut self, block: LogicalBlock, end: LoanEnd) -> Result<(), Error> {
        let found = self.loans.open.get(&block).copied();
        let entry = self.ledger.state().vssd(block.vssd());
        let slot = entry.and_then(|entry| entry.table.find(block.block()));
        let (Some(loan), Some(entry), Some(slot)) = (found, entry, slot) else {
            let message = format!("block {} of vSSD {} is not lent", block.block(), block.vssd().0);
            return Err(Error::new(ErrorKind::NotOwned, message));
        };
        let written = self.written_of(entry, slot);
        let parts = 0..entry.table.width();
        let back: Vec<_> = parts
            .filter_map(|part| Some((entry.seat(slot, part), entry.table.member(slot, part)?)))
            .collect();
        let words = match end {
            LoanEnd::Returned => Vec::new(),
            _ => (0..written)
                .filter_map(|page| self.word(block.vssd(), block, page).ok().flatten())
                .collect(),
        };
        for (seat, physical) in back {
            let raw = &self.drives[seat.drive as usize];
            // A block that cannot be erased is out of use.
            let health = raw.block(physical).map(|view| view.health);
            if matches!(health, Some(Health::Good | Health::Torn)) {
                let (drive, die) = (seat.drive, seat.die);
                self.loans.returned.push(Returned { drive, die, block: physical, loan: block });
            }
        }
        if let Some(entry) = self.ledger.state_mut().vssds.get_mut(&block.vssd().0) {
            entry.table.release(slot);
        }
        self.loans.open.remove(&block);
        let totals = self.loans.totals_mut(block.vssd());
        totals.written_pages += written;
        match end {
            LoanEnd::Returned => totals.returned += 1,
            LoanEnd::Expired => totals.expired += 1,
            LoanEnd::CalledBack => totals.called_back += 1,
        }
        if end != LoanEnd::Returned {
            self.loans.ended.push(EndedLoan { block, lender: loan.lender, end, words });
        }
        Ok(())
    }

    /// Dies with blocks of loans that have ended: the drive, the die, and the borrower of the block that
    /// [`Self::erase_returned`] erases next. Each die once, in the order of their return.
    pub fn returned_blocks(&self) -> Vec<(u32, DieIndex, VssdId)> {
        let mut seen = BTreeSet::new();
        let first = self.loans.returned.iter().filter(|back| seen.insert((back.drive, back.die)));
        first.map(|back| (back.drive, back.die, back.loan.vssd())).collect()
    }

    /// Erases one block of `die` whose loan has ended. Returns whether there was one.
    ///
    /// # Errors
    /// [`ErrorKind::PowerLoss`].
    pub fn erase_returned(&mut self, drive: u32, die: DieIndex) -> Result<bool, Error> {
        let here = |back: &Returned| (back.drive, back.die) == (drive, die);
        let Some(at) = self.loans.returned.iter().position(here) else { return Ok(false) };
        self.erase_back(at)?;
        Ok(true)
    }

    fn erase_back(&mut self, at: usize) -> Result<(), Error> {
        let back = self.loans.returned.remove(at);
        let Returned { drive, die, .. } = back;
        let before = self.erases_of(drive, die);
        erase(&mut self.drives[drive as usize], back.block)?;
        let erased = self.erases_of(drive, die) - before;
        self.loans.totals_mut(back.loan.vssd()).erases += erased;
        *self.loans.erases.entry((drive, die)).or_default() += erased;
        Ok(())
    }

    /// Erases all blocks of `die` whose loans have ended.
    pub(super) fn erase_returned_on(&mut self, drive: u32, die: DieIndex) -> Result<(), Error> {
        while self.erase_returned(drive, die)? {}
        Ok(())
    }

    /// Makes room on the dies of `seat` for a block of its own tenant: it does not wait for what moves or borrowers
    /// keep from it.
    pub(super) fn make_room(&mut self, seat: &Seat) -> Result<(), Error> {
        let (home, other) = self.dies_of(seat);
        self.loans.recent.count(seat.drive, home);
        let full = |array: &Self| {
            let drive = &array.drives[seat.drive as usize];
            drive.free_blocks(home) == 0 && drive.free_blocks(other) == 0
        };
        for die in [home, other] {
            if full(self) {
                self.erase_old_copy(seat.drive, die)?;
            }
            if full(self) {
                self.call_back_one(seat.drive, die)?;
            }
        }
        Ok(())
    }

    /// Frees a block of `die` that is lent, or was. All blocks of that loan are erased together, as those of a block
    /// that a tenant frees: dies that work in step stay so. Those of another loan that has ended follow at once.
    fn call_back_one(&mut self, drive: u32, die: DieIndex) -> Result<(), Error> {
        if self.loans.returned_on(drive, die) == 0 {
            let open = self.loans.open.iter();
            let here = open.filter(|(block, _)| self.has_part_on(**block, drive, die));
            let oldest = here.min_by_key(|(_, loan)| loan.order).map(|(&block, _)| block);
            if let Some(oldest) = oldest {
                self.end_loan(oldest, LoanEnd::CalledBack)?;
            }
        }
        let here = |back: &&Returned| (back.drive, back.die) == (drive, die);
        for _ in 0..ERASED_TOGETHER {
            let loan = self.loans.returned.iter().find(here).map(|back| back.loan);
            while let Some(at) = self.loans.returned.iter().position(|back| Some(back.loan) == loan)
            {
                self.erase_back(at)?;
            }
        }
        Ok(())
    }

    /// Whether the lent `block` has a physical block on `die`.
    fn has_part_on(&self, block: LogicalBlock, drive: u32, die: DieIndex) -> bool {
        self.parts_of(block).any(|(at, physical)| at == (drive, die) && physical.is_some())
    }

    /// Place and physical block of each part of the lent `block`.
    pub(super) fn parts_of(
        &self,
        block: LogicalBlock,
    ) -> impl Iterator<Item = ((u32, DieIndex), Option<BlockIndex>)> + '_ {
        let entry = self.ledger.state().vssd(block.vssd());
        let found = entry.and_then(|entry| Some((entry, entry.table.find(block.block())?)));
        found.into_iter().flat_map(|(entry, slot)| {
            (0..entry.table.width()).filter_map(move |part| {
                Some((entry.table.lent_place(slot, part)?, entry.table.member(slot, part)))
            })
        })
    }

    /// Refuses another physical block for the lent `block` if its lender has none to spare: then the loan ends.
    pub(super) fn check_lent_room(
        &mut self,
        block: LogicalBlock,
        seat: &Seat,
    ) -> Result<(), Error> {
        let free = |array: &Self| array.drives[seat.drive as usize].free_blocks(seat.die);
        if free(self) == 0 {
            self.erase_returned(seat.drive, seat.die)?;
        }
        if free(self) > 0 {
            return Ok(());
        }
        self.end_loan(block, LoanEnd::CalledBack)?;
        let message = format!(
            "block {} of vSSD {} was lent and is called back: die {} of drive {} is full",
            block.block(),
            block.vssd().0,
            seat.die.0,
            seat.drive
        );
        Err(Error::new(ErrorKind::NotOwned, message))
    }

    /// The part of a lent block that is in physical block `block`.
    pub(super) fn lent_part_at(&self, drive: u32, block: BlockIndex) -> Option<Part> {
        self.loans.open.keys().find_map(|&lent| {
            let is_it =
                |&((on, _), physical): &((u32, _), _)| (on, physical) == (drive, Some(block));
            let member = self.parts_of(lent).position(|part| is_it(&part))?;
            let slot = self.ledger.state().vssd(lent.vssd())?.table.find(lent.block())?;
            Some(Part { vssd: lent.vssd().0, slot, member })
        })
    }

    /// Ends all loans that `vssd` has given or taken, and erases their blocks.
    pub(super) fn end_loans_of(&mut self, vssd: VssdId) -> Result<(), Error> {
        self.loans.lenders.remove(&vssd);
        self.end_loans_where(|block, loan| block.vssd() == vssd || loan.lender == vssd)?;
        self.returned_blocks()
            .into_iter()
            .try_for_each(|(drive, die, _)| self.erase_returned_on(drive, die))
    }

    /// Ends all loans on the dies of `swap`, and erases their blocks.
    pub(super) fn end_loans_for_swap(&mut self, swap: &SwapState) -> Result<(), Error> {
        let involved: BTreeSet<LogicalBlock> = self
            .loans
            .open
            .keys()
            .filter(|block| {
                self.parts_of(**block)
                    .any(|((drive, die), _)| drive == swap.drive && swap.partner(die).is_some())
            })
            .copied()
            .collect();
        self.end_loans_where(|block, _| involved.contains(&block))?;
        for (drive, die, _) in self.returned_blocks() {
            if drive == swap.drive && swap.partner(die).is_some() {
                self.erase_returned_on(drive, die)?;
            }
        }
        Ok(())
    }

    /// Calls back all loans for which `ends` holds.
    pub(super) fn end_loans_where(
        &mut self,
        ends: impl Fn(LogicalBlock, &Loan) -> bool,
    ) -> Result<(), Error> {
        let open = self.loans.open.iter();
        let ending: Vec<_> = open.filter(|(block, loan)| ends(**block, loan)).collect();
        let ending: Vec<_> = ending.into_iter().map(|(&block, _)| block).collect();
        ending.into_iter().try_for_each(|block| self.end_loan(block, LoanEnd::CalledBack))
    }

    /// Checks that tables and loans name the same blocks, and that their parts are on dies of their lenders.
    pub(super) fn check_loans(&self) -> Result<(), String> {
        let geometry = &self.ledger.state().shape.geometry;
        let tables = self.ledger.state().vssds.values();
        let lent = tables.flat_map(|vssd| {
            vssd.table.live_slots().filter(|slot| vssd.table.is_lent(*slot)).map(|_| ())
        });
        let (lent, open) = (lent.count(), self.loans.open.len());
        if lent != open {
            return Err(format!("{lent} blocks are lent, and there are {open} loans"));
        }
        for (&block, loan) in &self.loans.open {
            let lender = self.info(loan.lender).map_err(|error| error.to_string())?;
            for (place, physical) in self.parts_of(block) {
                if !lender.dies.contains(&place) {
                    return Err(format!("{block:?} is lent by {:?}, on {place:?}", loan.lender));
                }
                if physical.is_some_and(|physical| geometry.die_of(physical) != place.1) {
                    return Err(format!("{block:?} is lent on {place:?}, and is elsewhere"));
                }
            }
        }
        Ok(())
    }
}
