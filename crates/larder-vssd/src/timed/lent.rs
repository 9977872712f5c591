//! Operations of borrowers on dies that are lent to them: they come after those of the dies' owners.
//!
//! On each die at most one operation of borrowers is in progress, so that an owner waits for at most one. A read begins
//! when the die has nothing else to do, a program or an erase only when its owner has not used the die for a time.
//! Operations that have waited long begin all the same, for their request was accepted: one in that time.

use std::collections::{BTreeMap, HashMap, VecDeque};

use larder_ssd::nand::{DieIndex, PhysicalOp};
use larder_ssd::timed::Nanoseconds;

use crate::kind::LogicalBlock;
use crate::service::{IDLE_NS, Idle};

/// A read of a borrower waits at most this time.
const READ_WAIT_NS: Nanoseconds = 10_000_000;
/// A program waits at most this time, and so does each one behind it.
const PROGRAM_WAIT_NS: Nanoseconds = 1_000_000_000;

/// When owners used their dies, by drive and die.
#[derive(Debug)]
pub(super) struct OwnerUse {
    now: Nanoseconds,
    dies: usize,
    of: Vec<DieUse>,
}

#[derive(Debug, Clone, Copy, Default)]
struct DieUse {
    /// Operations of owners in progress.
    busy: u32,
    /// The last begin or end of one; `None` before the first.
    last: Option<Nanoseconds>,
}

impl OwnerUse {
    pub(super) fn new(drives: usize, dies: usize) -> Self {
        Self { now: 0, dies, of: vec![DieUse::default(); drives * dies] }
    }

    pub(super) fn advance(&mut self, now: Nanoseconds) {
        self.now = self.now.max(now);
    }

    pub(super) fn now(&self) -> Nanoseconds {
        self.now
    }

    /// An operation of an owner has begun on die `at`, counted over all drives.
    pub(super) fn begin(&mut self, at: usize) {
        self.of[at].busy += 1;
        self.of[at].last = Some(self.now);
    }

    pub(super) fn end(&mut self, at: usize) {
        self.of[at].busy -= 1;
        self.of[at].last = Some(self.now);
    }

    /// When the owner of the die will have left it alone for `for_ns`; `None` while it uses it.
    pub(super) fn quiet_at(&self, at: usize, for_ns: Nanoseconds) -> Option<Nanoseconds> {
        let DieUse { busy, last } = self.of[at];
        (busy == 0).then(|| last.map_or(0, |last| last + for_ns))
    }
}

impl Idle for OwnerUse {
    fn idle_ns(&self, drive: u32, die: DieIndex) -> Nanoseconds {
        let DieUse { busy, last } = self.of[drive as usize * self.dies + die.at()];
        if busy > 0 { 0 } else { last.map_or(Nanoseconds::MAX, |last| self.now - last) }
    }
}

/// An operation of a borrower.
#[derive(Debug, Clone, Copy)]
pub(super) struct LentOperation {
    pub(super) block: LogicalBlock,
    pub(super) tenant: usize,
    pub(super) op: PhysicalOp,
    pub(super) number: u64,
    pub(super) since: Nanoseconds,
}

/// Operations of borrowers, by die counted over all drives.
#[derive(Debug, Default)]
pub(super) struct LentQueues {
    dies: BTreeMap<usize, LentQueue>,
    /// The die of each operation in progress.
    under_way: HashMap<u64, usize>,
}

#[derive(Debug, Default)]
struct LentQueue {
    reads: VecDeque<LentOperation>,
    programs: VecDeque<LentOperation>,
    busy: bool,
    /// When the last program began.
    programmed_at: Nanoseconds,
}

impl LentQueues {
    pub(super) fn push(&mut self, at: usize, operation: LentOperation) {
        let queue = self.dies.entry(at).or_default();
        match operation.op {
            PhysicalOp::HostRead { .. } | PhysicalOp::FirmwareRead { .. } => {
                queue.reads.push_back(operation);
            }
            PhysicalOp::Program { .. } | PhysicalOp::Erase { .. } => {
                queue.programs.push_back(operation);
            }
        }
    }

    /// Drops the operations on `block` that have not begun, for its loan has ended. Returns their numbers.
    pub(super) fn drop_of(&mut self, block: LogicalBlock) -> Vec<u64> {
        let mut dropped = Vec::new();
        for queue in self.dies.values_mut() {
            for waiting in [&mut queue.reads, &mut queue.programs] {
                dropped.extend(waiting.iter().filter(|it| it.block == block).map(|it| it.number));
                waiting.retain(|it| it.block != block);
            }
        }
        dropped
    }

    /// Dies on which operations wait and none is in progress.
    pub(super) fn waiting(&self) -> Vec<usize> {
        let waiting = self.dies.iter().filter(|(_, queue)| !queue.busy && !queue.is_empty());
        waiting.map(|(&at, _)| at).collect()
    }

    /// Whether an operation of a borrower is in progress on die `at`.
    pub(super) fn is_busy(&self, at: usize) -> bool {
        self.dies.get(&at).is_some_and(|queue| queue.busy)
    }

    /// An operation that may begin on die `at` at `now`. `occupied` says whether the die has anything to do.
    pub(super) fn take(
        &mut self,
        at: usize,
        now: Nanoseconds,
        occupied: bool,
        owners: &OwnerUse,
    ) -> Option<LentOperation> {
        let queue = self.dies.get_mut(&at)?;
        let [read_at, program_at] = queue.ready_at(at, occupied, owners);
        let taken = match (read_at, program_at) {
            (Some(ready), _) if ready <= now => queue.reads.pop_front(),
            (_, Some(ready)) if ready <= now => {
                queue.programmed_at = now;
                queue.programs.pop_front()
            }
            _ => None,
        }?;
        self.begin(at, taken.number);
        Some(taken)
    }

    /// The operation `number` begins on die `at`.
    pub(super) fn begin(&mut self, at: usize, number: u64) {
        self.dies.entry(at).or_default().busy = true;
        self.under_way.insert(number, at);
    }

    /// The operation `number` has ended. Returns whether it was one of a borrower.
    pub(super) fn end(&mut self, number: u64) -> bool {
        let Some(at) = self.under_way.remove(&number) else { return false };
        if let Some(queue) = self.dies.get_mut(&at) {
            queue.busy = false;
        }
        true
    }

    /// When an operation on die `at` may begin.
    pub(super) fn next_at(
        &self,
        at: usize,
        occupied: bool,
        owners: &OwnerUse,
    ) -> Option<Nanoseconds> {
        let queue = self.dies.get(&at).filter(|queue| !queue.busy)?;
        queue.ready_at(at, occupied, owners).into_iter().flatten().min()
    }
}

impl LentQueue {
    fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.programs.is_empty()
    }

    /// When the first read and the first program may begin.
    fn ready_at(&self, at: usize, occupied: bool, owners: &OwnerUse) -> [Option<Nanoseconds>; 2] {
        let first = |queue: &VecDeque<LentOperation>, quiet_ns, latest: Nanoseconds, wait_ns| {
            let since = queue.front()?.since.max(latest);
            let quiet = owners.quiet_at(at, quiet_ns).filter(|_| !occupied);
            Some(quiet.unwrap_or(Nanoseconds::MAX).min(since + wait_ns))
        };
        [
            first(&self.reads, 0, 0, READ_WAIT_NS),
            first(&self.programs, IDLE_NS, self.programmed_at, PROGRAM_WAIT_NS),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanoseconds = 1_000_000;

    fn operation(number: u64, op: PhysicalOp) -> LentOperation {
        let block = LogicalBlock::from_number(number);
        LentOperation { block, tenant: 0, op, number, since: 0 }
    }

    #[test]
    fn a_borrower_comes_after_the_owner_and_one_at_a_time() {
        let (mut queues, mut owners) = (LentQueues::default(), OwnerUse::new(1, 4));
        let die = DieIndex(2);
        let read = PhysicalOp::HostRead { die, bytes: 4096 };
        let program = PhysicalOp::Program { die, bytes: 4096, urgent: true };
        owners.begin(2);
        queues.push(2, operation(1, program));
        queues.push(2, operation(2, read));
        assert!(queues.take(2, MS, true, &owners).is_none(), "the owner is at work");
        owners.advance(MS);
        owners.end(2);
        assert_eq!(owners.idle_ns(0, die), 0);
        let next = |queues: &mut LentQueues, owners: &OwnerUse, now| {
            queues.take(2, now, false, owners).map(|taken| taken.number)
        };
        assert_eq!(next(&mut queues, &owners, MS), Some(2), "a read goes at once");
        assert!(queues.waiting().is_empty() && queues.is_busy(2), "one at a time");
        assert!(queues.end(2) && !queues.end(2));
        assert_eq!(next(&mut queues, &owners, 5 * MS), None, "the owner may come back");
        assert_eq!(queues.next_at(2, false, &owners), Some(6 * MS));
        assert_eq!(next(&mut queues, &owners, 6 * MS), Some(1));
        assert!(queues.end(1));
        owners.begin(2);
        (3..5).for_each(|number| queues.push(2, operation(number, program)));
        let mut late = |now| queues.take(2, now, true, &owners).map(|taken| taken.number);
        assert_eq!(late(1_005 * MS), None);
        assert_eq!(late(1_006 * MS), Some(3), "it has waited enough");
        assert!(queues.end(3));
        let mut late = |now| queues.take(2, now, true, &owners).map(|taken| taken.number);
        assert_eq!((late(2_005 * MS), late(2_006 * MS)), (None, Some(4)), "one in that time");
        (5..7).for_each(|number| queues.push(2, operation(number, program)));
        assert_eq!(queues.drop_of(LogicalBlock::from_number(5)), [5]);
        assert_eq!(queues.drop_of(LogicalBlock::from_number(5)), Vec::<u64>::new());
    }
}
