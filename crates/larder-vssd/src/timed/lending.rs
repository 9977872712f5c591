//! Loans under a clock: which are given, and the work on their blocks.

use larder_ssd::nand::DieIndex;
use larder_ssd::timed::Nanoseconds;
use larder_ssd::{Error, ErrorKind};

use super::TimedVssds;
use super::lent::LentOperation;
use super::mover::HeldOperation;
use crate::images::Images;
use crate::kind::{LogicalBlock, VssdId};
use crate::service::IDLE_NS;

impl<I: Images> TimedVssds<I> {
    /// Allocates a block on idle dies of another vSSD, like
    /// [`Vssds::alloc_lent`](crate::Vssds::alloc_lent). `None` if no vSSD lends any now.
    ///
    /// # Errors
    /// As there.
    pub fn alloc_lent(
        &mut self,
        now: Nanoseconds,
        borrower: VssdId,
        tag: u64,
    ) -> Result<Option<LogicalBlock>, Error> {
        self.owners.advance(now);
        self.array.end_due_loans(now)?;
        self.array.alloc_lent(borrower, tag, now, &self.owners)
    }

    /// Whether appends to `block` are taken at `now`: it is not lent, or its lender has left its dies alone for a time.
    pub fn may_append(&mut self, now: Nanoseconds, block: LogicalBlock) -> bool {
        self.owners.advance(now);
        !self.owners_first || self.array.may_write_lent(block, &self.owners)
    }

    /// Whether owners of dies come before those that have borrowed blocks there; they do unless this says otherwise.
    /// For comparisons only: without it, operations of both wait for each other.
    pub fn put_owners_first(&mut self, first: bool) {
        self.owners_first = first;
    }

    /// Refuses an append to a lent block while its lender uses its dies.
    pub(super) fn check_lender(
        &mut self,
        now: Nanoseconds,
        block: LogicalBlock,
    ) -> Result<(), Error> {
        if self.may_append(now, block) {
            return Ok(());
        }
        let message = format!(
            "block {} of vSSD {} is lent, and its lender uses its dies: append elsewhere until they are idle",
            block.block(),
            block.vssd().0
        );
        Err(Error::new(ErrorKind::InUse, message))
    }

    /// Lets an operation of a borrower wait for the owner of its die.
    pub(super) fn begin_lent(&mut self, now: Nanoseconds, block: LogicalBlock, it: HeldOperation) {
        let HeldOperation { drive, tenant, op, request: number } = it;
        let place = self.place_of(drive, op.die());
        if self.owners_first {
            self.lent.push(place, LentOperation { block, tenant, op, number, since: now });
        } else {
            self.lent.begin(place, number);
            self.drives[drive].submit(now, tenant, op, number);
        }
    }

    /// Number of `die` of `drive` over all drives.
    pub(super) fn place_of(&self, drive: usize, die: DieIndex) -> usize {
        drive * self.array.shape().dies() as usize + die.at()
    }

    /// Drive and die of a place.
    fn die_at(&self, place: usize) -> (usize, DieIndex) {
        let dies = self.array.shape().dies() as usize;
        (place / dies, DieIndex(u32::try_from(place % dies).unwrap_or(u32::MAX)))
    }

    fn is_occupied(&self, place: usize) -> bool {
        let (drive, die) = self.die_at(place);
        self.drives[drive].outstanding(die) > 0
    }

    /// When an operation of a borrower may begin, or a block of an ended loan may be erased.
    pub(super) fn lent_next_at(&self) -> Option<Nanoseconds> {
        let waiting = self.lent.waiting().into_iter();
        let waiting = waiting
            .filter_map(|place| self.lent.next_at(place, self.is_occupied(place), &self.owners));
        let returned = self.array.returned_blocks().into_iter();
        let returned = returned.filter_map(|(drive, die, _)| self.erase_at(drive, die));
        // What could have begun before begins now.
        let vanished = self.vanished.first().map(|_| self.owners.now());
        waiting.chain(returned).chain(vanished).min().map(|at| at.max(self.owners.now()))
    }

    /// When a block of an ended loan may be erased on `die`; `None` while an operation is in progress there.
    fn erase_at(&self, drive: u32, die: DieIndex) -> Option<Nanoseconds> {
        let place = self.place_of(drive as usize, die);
        if self.is_occupied(place) || self.lent.is_busy(place) {
            return None;
        }
        self.owners.quiet_at(place, IDLE_NS)
    }

    /// Ends loans that are due, erases blocks of ended ones on dies that are idle, and begins operations of borrowers.
    pub(super) fn pump_lent(&mut self, now: Nanoseconds) -> Result<(), Error> {
        self.array.end_due_loans(now)?;
        // What was to be programmed has vanished: it takes no time of the lender's dies.
        for ended in self.array.take_ended_loans() {
            self.vanished.extend(self.lent.drop_of(ended.block));
        }
        for (drive, die, borrower) in self.array.returned_blocks() {
            let due = self.erase_at(drive, die).is_some_and(|at| at <= now);
            if !due {
                continue;
            }
            self.array.erase_returned(drive, die)?;
            self.ops.clear();
            self.array.take_ops(drive, &mut self.ops);
            let Some(op) = self.ops.pop() else { continue };
            // The first pays for a vSSD that is no tenant of these drives.
            let tenant = self.tenant(borrower).unwrap_or(0);
            let place = self.place_of(drive as usize, die);
            let number = self.requests.add(tenant, place, None);
            self.lent.begin(place, number);
            self.drives[drive as usize].submit(now, tenant, op, number);
        }
        self.submit_lent(now);
        Ok(())
    }

    /// Begins operations of borrowers that may begin now.
    pub(super) fn submit_lent(&mut self, now: Nanoseconds) {
        for place in self.lent.waiting() {
            let occupied = self.is_occupied(place);
            if let Some(next) = self.lent.take(place, now, occupied, &self.owners) {
                let (drive, _) = self.die_at(place);
                self.drives[drive].submit(now, next.tenant, next.op, next.number);
            }
        }
    }
}
