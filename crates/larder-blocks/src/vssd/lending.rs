//! Loans of an array in service: which tenants lend and borrow, and what happens to stores whose blocks are called
//! back.

use std::time::Duration;

use larder_device::{Clock, Error, ErrorKind, RealClock};
use larder_vssd::service::{IDLE_NS, Idle};
use larder_vssd::{EndedLoan, LendingRules, LoanInfo, LoanTotals, LogicalBlock, VssdId};

use super::array::VssdArray;
use super::errors::of_model;
use super::state::ArrayState;
use super::word;

/// The loans of an array.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoansReport {
    /// The loans in progress.
    pub open: Vec<LoanInfo>,
    /// Each vSSD that has borrowed something since the array was opened, or lends or borrows now.
    pub tenants: Vec<TenantLoans>,
    /// By drive and die: erases that borrowers have caused since the array was opened.
    pub erases: Vec<Vec<u64>>,
}

/// What a vSSD lends and borrows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantLoans {
    /// The vSSD.
    pub id: VssdId,
    /// Whether it lends blocks of idle dies.
    pub lends: bool,
    /// Whether it borrows blocks for clean data.
    pub borrows: bool,
    /// Its blocks on dies of others now.
    pub borrowed: u64,
    /// Blocks of others on its dies now.
    pub lent: u64,
    /// Its loans as a borrower since the array was opened.
    pub totals: LoanTotals,
    /// Bytes that it has written to blocks of others.
    pub written_bytes: u64,
}

impl VssdArray {
    /// Says whether `id` lends blocks of its idle dies to vSSDs that borrow. Nothing of this is stored.
    ///
    /// # Errors
    /// [`ErrorKind::NotOpen`] if there is no such vSSD, [`ErrorKind::Setup`] for one that shares its dies; errors of
    /// the storage below.
    pub fn lend_of(&self, id: VssdId, lends: bool) -> Result<(), Error> {
        self.lock().operate("lending", |array| array.set_lends(id, lends))
    }

    /// Says whether `id` borrows blocks for the clean data of its store
    /// ([`BlockStore::alloc_clean`](crate::BlockStore::alloc_clean)). Every second of them is then on idle dies of
    /// another vSSD, if one lends. Nothing of this is stored.
    ///
    /// # Errors
    /// [`ErrorKind::NotOpen`] if there is no such vSSD.
    pub fn borrow_for(&self, id: VssdId, borrows: bool) -> Result<(), Error> {
        let mut state = self.lock();
        state.array()?.info(id).map_err(|error| of_model("borrowing", &error))?;
        if borrows {
            state.borrowers.insert(id, false);
        } else {
            state.borrowers.remove(&id);
        }
        Ok(())
    }

    /// Sets the limits of what vSSDs lend.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] for limits that cannot be.
    pub fn lending_rules(&self, rules: LendingRules) -> Result<(), Error> {
        self.lock().operate("lending", |array| array.set_lending_rules(rules))
    }

    /// Ends the loans that are due, and erases blocks of ended loans on idle dies. Requests of stores do this too, and
    /// [`Levelling`](super::Levelling) once a second.
    ///
    /// # Errors
    /// Those of the storage below.
    pub fn tend_loans(&self) -> Result<(), Error> {
        self.lock().tend_loans(RealClock.monotonic())
    }

    /// The loans.
    ///
    /// # Errors
    /// [`ErrorKind::Gone`] without power.
    pub fn loans(&self) -> Result<LoansReport, Error> {
        self.lock().loans()
    }
}

impl ArrayState {
    /// Allocates a block of `id` for clean data: on dies of a lender, if it is the turn of one. `None` if the block
    /// must be its own.
    pub(super) fn alloc_lent(
        &mut self,
        id: VssdId,
        tag: u64,
    ) -> Result<Option<LogicalBlock>, Error> {
        let Some(own_is_next) = self.borrowers.get_mut(&id) else { return Ok(None) };
        *own_is_next = !*own_is_next;
        if !*own_is_next {
            return Ok(None);
        }
        let now = RealClock.monotonic();
        let tenants = self.dies_of_tenants()?;
        let idle = self.load.idle(now, &tenants);
        self.operate("allocation", |array| array.alloc_lent(id, tag, nanoseconds(now), &idle))
    }

    /// Ends the loans that are due, and erases what lies idle of those that have ended.
    pub(super) fn tend_loans(&mut self, now: Duration) -> Result<(), Error> {
        let array = self.array()?;
        let returned = array.returned_blocks();
        if returned.is_empty() && array.loans_are_none() {
            return Ok(());
        }
        self.operate("loans", |array| array.end_due_loans(nanoseconds(now)))?;
        if returned.is_empty() {
            return Ok(());
        }
        let tenants = self.dies_of_tenants()?;
        let idle = self.load.idle(now, &tenants);
        for (drive, die, _) in returned {
            if idle.idle_ns(drive, die) >= IDLE_NS {
                self.operate("loans", |array| array.erase_returned(drive, die))?;
            }
        }
        Ok(())
    }

    /// Releases what ended loans held. Their stores learn that the blocks are gone.
    pub(super) fn settle_loans(&mut self) -> Result<(), Error> {
        let Ok(array) = self.array() else { return Ok(()) };
        for EndedLoan { block, words, .. } in array.take_ended_loans() {
            let tail = self.drop_tail(block)?;
            let slots = words.iter().chain(&tail).filter_map(|word| Some(word::unpack(*word)?.0));
            let slots: Vec<u32> = slots.collect();
            self.release(&slots)?;
            if self.has_store(block.vssd()) {
                self.gone.insert(block);
            }
        }
        Ok(())
    }

    /// Fails if the data of `block` have vanished.
    pub(super) fn check_there(&self, block: LogicalBlock) -> Result<(), Error> {
        if !self.gone.contains(&block) {
            return Ok(());
        }
        let context = format!(
            "block {}: its data have vanished: it was borrowed, and its loan has ended",
            block.number()
        );
        Err(Error::new(ErrorKind::NotOpen, context))
    }

    fn loans(&mut self) -> Result<LoansReport, Error> {
        let borrowers: Vec<VssdId> = self.borrowers.keys().copied().collect();
        let page_bytes = u64::from(self.page_bytes);
        let array = self.array()?;
        let open = array.loans();
        let drives = u32::try_from(array.drives_mut().len()).unwrap_or(u32::MAX);
        let tenant = |id: VssdId| {
            let totals = array.loan_totals(id);
            let count =
                |is: &dyn Fn(&LoanInfo) -> bool| open.iter().filter(|loan| is(loan)).count() as u64;
            TenantLoans {
                id,
                lends: array.lends(id),
                borrows: borrowers.contains(&id),
                borrowed: count(&|loan| loan.block.vssd() == id),
                lent: count(&|loan| loan.lender == id),
                totals,
                written_bytes: totals.written_pages * page_bytes,
            }
        };
        let all = array.list().map(|info| tenant(info.id));
        let some = |it: &TenantLoans| it.lends || it.borrows || it.lent > 0 || it.totals.begun > 0;
        let tenants = all.filter(some).collect();
        let erases = (0..drives).map(|drive| array.lent_erases(drive)).collect();
        Ok(LoansReport { open, tenants, erases })
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
