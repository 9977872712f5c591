//! Which blocks may be lent, and which loans end.
//!
//! A vSSD lends while all of its dies are idle. Of each die its owner keeps a reserve of free blocks, and as many as it
//! has allocated lately; of the rest a part may be lent. If the owner comes to its reserve, loans are called back, the
//! oldest first.

use std::collections::BTreeMap;

use larder_ssd::nand::DieIndex;
use larder_ssd::timed::Nanoseconds;
use larder_ssd::{Error, ErrorKind};

use super::Vssds;
use super::loans::{Loan, LoanEnd};
use super::reserve::LendingRules;
use crate::idle::Idle;
use crate::images::Images;
use crate::kind::{Isolation, LogicalBlock, VssdId};
use crate::record::Change;

/// Blocks of a die that has loans.
#[derive(Debug, Clone, Copy, Default)]
struct LentDie {
    /// Parts of loans, with a physical block or without.
    parts: usize,
    /// Blocks that its owner has, or would have without loans.
    free: usize,
    /// Blocks whose loans have ended, and which are not erased yet.
    returned: usize,
    /// Blocks that stay with the owner.
    kept: usize,
}

impl LentDie {
    /// Blocks that may still be lent.
    fn room(&self, rules: &LendingRules) -> usize {
        let most = self.free * rules.lent_percent as usize / 100;
        let most = most.saturating_sub(self.parts + self.returned);
        most.min(self.free.saturating_sub(self.parts + self.kept))
    }

    /// Whether its owner has come to its reserve.
    fn is_needed(&self) -> bool {
        self.parts > 0 && self.free < self.parts + self.kept
    }
}

impl<I: Images> Vssds<I> {
    /// Sets the limits of what vSSDs lend. Loans in progress keep their expiry.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for limits that cannot be.
    pub fn set_lending_rules(&mut self, rules: LendingRules) -> Result<(), Error> {
        rules.check()?;
        self.loans.rules = rules;
        Ok(())
    }

    /// Says whether `vssd` lends blocks of its idle dies to other vSSDs. This is not stored: without it a vSSD lends
    /// nothing. If it stops, its loans are called back.
    ///
    /// # Errors
    /// [`ErrorKind::NotOwned`] if there is no such vSSD; [`ErrorKind::Config`] for one that shares its dies.
    pub fn set_lends(&mut self, vssd: VssdId, lends: bool) -> Result<(), Error> {
        let isolation = self.vssd(vssd)?.isolation;
        if !lends {
            self.loans.lenders.remove(&vssd);
            return self.end_loans_where(|_, loan| loan.lender == vssd);
        }
        if !matches!(isolation, Isolation::Channel | Isolation::Die) {
            let message = format!(
                "vSSD {} shares its dies: only one with channels or dies of its own can lend them",
                vssd.0
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        self.loans.lenders.insert(vssd);
        Ok(())
    }

    /// Whether `vssd` lends blocks of its idle dies.
    pub fn lends(&self, vssd: VssdId) -> bool {
        self.loans.lenders.contains(&vssd)
    }

    /// Allocates a block of `borrower` on idle dies of another vSSD, at the time `now_ns`; `None` if no vSSD lends any
    /// now. It takes the place of a block of its own. It is for data that may vanish: the block is gone when its loan
    /// ends ([`Self::take_ended_loans`]), and after a loss of power.
    ///
    /// # Errors
    /// As [`Self::alloc_block`].
    pub fn alloc_lent(
        &mut self,
        borrower: VssdId,
        tag: u64,
        now_ns: Nanoseconds,
        idle: &impl Idle,
    ) -> Result<Option<LogicalBlock>, Error> {
        self.ledger.check()?;
        let width = self.vssd(borrower)?.table.width();
        self.loans.recent.advance(now_ns);
        let Some((lender, dies)) = self.lendable(borrower, width, idle) else { return Ok(None) };
        let block = self.take_block(borrower, tag)?;
        if let Some(entry) = self.ledger.state_mut().vssds.get_mut(&borrower.0)
            && let Some(slot) = entry.table.find(block.block())
        {
            entry.table.lend(slot, dies);
        }
        let totals = self.loans.totals_mut(borrower);
        totals.begun += 1;
        let (order, until_ns) =
            (self.loans.begun(), now_ns.saturating_add(self.loans.rules.expiry_ns));
        self.loans.open.insert(block, Loan { lender, order, until_ns });
        // After a loss of power the number is used, and there is no block.
        self.ledger.log(&Change::Freed { block })?;
        Ok(Some(block))
    }

    /// Whether the lender of `block` was idle long enough for writes to it; `true` for a block that is not lent.
    pub fn may_write_lent(&self, block: LogicalBlock, idle: &impl Idle) -> bool {
        let loan = self.loans.open.get(&block);
        loan.is_none_or(|loan| self.is_idle(loan.lender, idle))
    }

    fn is_idle(&self, vssd: VssdId, idle: &impl Idle) -> bool {
        let idle_ns = self.loans.rules.idle_ns;
        let seats = self.ledger.state().vssd(vssd).map(|entry| &entry.seats);
        seats.is_some_and(|seats| {
            seats.iter().all(|seat| idle.idle_ns(seat.drive, seat.die) >= idle_ns)
        })
    }

    /// A vSSD that lends, and dies of it for the `width` parts of a block.
    fn lendable(
        &self,
        borrower: VssdId,
        width: usize,
        idle: &impl Idle,
    ) -> Option<(VssdId, Vec<(u32, DieIndex)>)> {
        let lenders = self.loans.lenders.iter().copied();
        let lenders = lenders.filter(|&id| id != borrower && self.is_idle(id, idle));
        let rooms = lenders.filter_map(|id| {
            let rooms = self.rooms_of(id)?;
            let all: usize = rooms.iter().map(|(_, room)| room).sum();
            (all >= width).then_some((id, rooms, all))
        });
        let (lender, mut rooms, _) = rooms.max_by_key(|&(_, _, all)| all)?;
        let mut dies = Vec::with_capacity(width);
        // Round after round over the dies, so that the stripes of a row are on as many as there are.
        while dies.len() < width {
            let left = width - dies.len();
            let some = rooms.iter_mut().filter(|(_, room)| *room > 0).take(left);
            dies.extend(some.map(|(place, room)| {
                *room -= 1;
                *place
            }));
        }
        Some((lender, dies))
    }

    /// The dies of `lender`, those that have lent least and are worn least first, with the blocks that each may lend.
    /// `None` while one of its dies is exchanged or read-only.
    fn rooms_of(&self, lender: VssdId) -> Option<Vec<((u32, DieIndex), usize)>> {
        let entry = self.ledger.state().vssd(lender)?;
        let swap = self.ledger.state().swap.as_ref();
        let away = |drive, die| {
            swap.is_some_and(|swap| swap.drive == drive && swap.partner(die).is_some())
                || self.is_at_its_end(drive, die)
        };
        if entry.seats.iter().any(|seat| away(seat.drive, seat.die)) {
            return None;
        }
        let lent = self.lent_dies();
        let mut rooms: Vec<_> = entry
            .seats
            .iter()
            .map(|seat| {
                let place = (seat.drive, seat.die);
                let state = self.lent_die(place, &lent);
                let order = (state.parts + state.returned, self.erases_of(place.0, place.1));
                (order, (place, state.room(&self.loans.rules)))
            })
            .collect();
        rooms.sort_by_key(|(order, _)| *order);
        Some(rooms.into_iter().map(|(_, room)| room).collect())
    }

    /// By die: parts of loans on it, and those of them with a physical block.
    fn lent_dies(&self) -> BTreeMap<(u32, DieIndex), (usize, usize)> {
        let mut dies: BTreeMap<_, (usize, usize)> = BTreeMap::new();
        for &block in self.loans.open.keys() {
            for (place, physical) in self.parts_of(block) {
                let (parts, backed) = dies.entry(place).or_default();
                *parts += 1;
                *backed += usize::from(physical.is_some());
            }
        }
        dies
    }

    fn lent_die(
        &self,
        place: (u32, DieIndex),
        lent: &BTreeMap<(u32, DieIndex), (usize, usize)>,
    ) -> LentDie {
        let (drive, die) = place;
        let (parts, backed) = lent.get(&place).copied().unwrap_or_default();
        let raw = &self.drives[drive as usize];
        let returned = self.loans.returned_on(drive, die);
        let reserve =
            u64::from(raw.capacity_blocks()) * u64::from(self.loans.rules.reserve_percent);
        let reserve = usize::try_from(reserve.div_ceil(100)).unwrap_or(usize::MAX);
        LentDie {
            parts,
            free: raw.free_blocks(die) + backed + returned,
            returned,
            kept: reserve + self.loans.recent.of(place),
        }
    }

    /// Ends the loans whose time is over at `now_ns`, and those that their lenders need, the oldest first. Returns how
    /// many have ended. It costs nothing if nothing has changed since the last call.
    ///
    /// # Errors
    /// None at present.
    pub fn end_due_loans(&mut self, now_ns: Nanoseconds) -> Result<usize, Error> {
        self.loans.recent.advance(now_ns);
        let open = self.loans.open.iter();
        let over = open.filter(|(_, loan)| now_ns >= loan.until_ns);
        let over: Vec<_> = over.map(|(&block, _)| block).collect();
        let mut ended = over.len();
        over.into_iter().try_for_each(|block| self.end_loan(block, LoanEnd::Expired))?;
        if !std::mem::take(&mut self.loans.recent.unchecked) {
            return Ok(ended);
        }
        while let Some(block) = self.needed() {
            self.end_loan(block, LoanEnd::CalledBack)?;
            ended += 1;
        }
        Ok(ended)
    }

    /// The oldest loan with a part on a die whose owner has come to its reserve.
    fn needed(&self) -> Option<LogicalBlock> {
        let lent = self.lent_dies();
        let needed = |place| self.lent_die(place, &lent).is_needed();
        let needed: Vec<_> = lent.keys().copied().filter(|&place| needed(place)).collect();
        let open = self.loans.open.iter();
        let on = |block| self.parts_of(block).any(|(place, _)| needed.contains(&place));
        let here = open.filter(|(block, _)| on(**block));
        here.min_by_key(|(_, loan)| loan.order).map(|(&block, _)| block)
    }
}
