//! A swap in service under a clock, by the rules of [`crate::service`]: one stripe at a time, and only while no tenant
//! uses its dies; reads go to the old copy until the part has moved; open parts stay with their tenants; old copies are
//! erased when their die is idle, or once a second; and the pace follows the tenants' p99.

use std::collections::{BTreeMap, VecDeque};

use larder_ssd::Error;
use larder_ssd::nand::{DieIndex, PhysicalOp};
use larder_ssd::timed::Nanoseconds;

use super::mover::HeldOperation;
use crate::array::{Copied, OpenParts, Vssds};
use crate::images::Images;
use crate::kind::{LogicalBlock, VssdId};
use crate::levelling::{AdaptivePace, HourMean, PaceLimits, next_due};
use crate::service::{BUSY_ERASE_NS, IDLE_NS, OPEN_WAIT_NS};
use crate::share::Dispatcher;

/// A stripe waits at most this time for its dies to be idle.
const STRIPE_WAIT_NS: Nanoseconds = 100_000_000;
/// Retry interval while tenants have to fill or free a block, or an erase has to wait.
const WAIT_NS: Nanoseconds = 1_000_000;
const SECOND_NS: Nanoseconds = 1_000_000_000;

/// Latencies of the tenants by second.
#[derive(Debug, Default)]
pub(super) struct SecondWatch {
    ends_at: Nanoseconds,
    now: BTreeMap<VssdId, Vec<u64>>,
    before: BTreeMap<VssdId, HourMean>,
}

impl SecondWatch {
    pub(super) fn push(&mut self, vssd: VssdId, latency_ns: u64) {
        self.now.entry(vssd).or_default().push(latency_ns);
    }

    /// Ends the second, if it is over. Then returns how much slower the slowest of `moving` is than before, or records
    /// the second as one before.
    pub(super) fn end(
        &mut self,
        now: Nanoseconds,
        moving: Option<&[VssdId]>,
    ) -> Option<Option<f64>> {
        if now < self.ends_at {
            return None;
        }
        self.ends_at = now + SECOND_NS;
        let mut slowdown: Option<f64> = None;
        for (vssd, mut latencies) in std::mem::take(&mut self.now) {
            let at = latencies.len() * 99 / 100;
            let p99_ns = *latencies.select_nth_unstable(at).1;
            match moving {
                None => self.before.entry(vssd).or_default().push(p99_ns),
                Some(moving) if moving.contains(&vssd) => {
                    let before = self.before.get(&vssd);
                    let this = before.and_then(|before| before.slowdown(p99_ns));
                    slowdown = slowdown.into_iter().chain(this).reduce(f64::max);
                }
                Some(_) => {}
            }
        }
        Some(slowdown)
    }
}

/// A swap in service.
#[derive(Debug)]
pub(super) struct GentleMover {
    drive: u32,
    pace: AdaptivePace,
    /// vSSDs on the swapped dies.
    pub(super) moving: Vec<VssdId>,
    part: Option<MovingPart>,
    /// What is left to do for the part.
    ops: VecDeque<PhysicalOp>,
    /// Tokens of operations that are in progress.
    under_way: u64,
    copied: u64,
    begin_at: Nanoseconds,
    /// When the next stripe goes, busy dies or not.
    stripe_by: Nanoseconds,
    open_since: Option<Nanoseconds>,
    erased_at: BTreeMap<DieIndex, Nanoseconds>,
    held: Vec<HeldOperation>,
}

#[derive(Debug, Clone, Copy)]
struct MovingPart {
    block: LogicalBlock,
    from: DieIndex,
    to: DieIndex,
}

/// What the swap does next.
#[derive(Debug)]
pub(super) enum Gentle {
    Wait,
    Submit(PhysicalOp),
    /// A part has moved: operations that were held go on, and these bytes were copied.
    Moved(u64),
    Done,
}

impl GentleMover {
    pub(super) fn new(
        now: Nanoseconds,
        drive: u32,
        limits: PaceLimits,
        moving: Vec<VssdId>,
    ) -> Result<Self, Error> {
        let pace = AdaptivePace::new(limits)?;
        Ok(Self {
            drive,
            pace,
            moving,
            part: None,
            ops: VecDeque::new(),
            under_way: 0,
            copied: 0,
            begin_at: now,
            stripe_by: now,
            open_since: None,
            erased_at: BTreeMap::new(),
            held: Vec::new(),
        })
    }

    pub(super) fn drive(&self) -> usize {
        self.drive as usize
    }

    pub(super) fn next_at(&self) -> Option<Nanoseconds> {
        (self.under_way == 0).then_some(self.begin_at)
    }

    pub(super) fn second(&mut self, slowdown: Option<f64>) {
        self.pace.second(slowdown);
    }

    pub(super) fn served(&mut self) {
        self.under_way -= 1;
    }

    /// The operation of a tenant on `block` as it is while a part of it moves: reads go to the old copy. `None` for a
    /// program that waits until the part has moved.
    pub(super) fn redirect(
        &self,
        block: Option<LogicalBlock>,
        op: PhysicalOp,
    ) -> Option<PhysicalOp> {
        let part = self.part.filter(|part| block == Some(part.block) && op.die() == part.to);
        match (part, op) {
            (Some(MovingPart { from, .. }), PhysicalOp::HostRead { bytes, .. }) => {
                Some(PhysicalOp::HostRead { die: from, bytes })
            }
            (Some(_), PhysicalOp::Program { .. }) => None,
            _ => Some(op),
        }
    }

    pub(super) fn hold(&mut self, held: HeldOperation) {
        self.held.push(held);
    }

    pub(super) fn release(&mut self) -> Vec<HeldOperation> {
        std::mem::take(&mut self.held)
    }

    /// The next piece of work. `array` moves a part at once; the operations of that are then submitted one by one.
    pub(super) fn next<I: Images>(
        &mut self,
        now: Nanoseconds,
        array: &mut Vssds<I>,
        dispatcher: &Dispatcher,
    ) -> Result<Gentle, Error> {
        if self.under_way > 0 {
            return Ok(Gentle::Wait);
        }
        if let Some(op) = self.erase(now, array, dispatcher)? {
            return Ok(Gentle::Submit(op));
        }
        let freed = |part: MovingPart| array.written_pages(part.block.vssd(), part.block).is_err();
        if self.part.is_some_and(freed) {
            // Its tenant has freed the block: the rest is not copied.
            self.ops.clear();
        }
        if now < self.begin_at {
            return Ok(Gentle::Wait);
        }
        if let Some(&op) = self.ops.front() {
            return Ok(self.stripe(now, op, dispatcher));
        }
        if self.part.take().is_some() {
            return Ok(Gentle::Moved(std::mem::take(&mut self.copied)));
        }
        self.copy(now, array)
    }

    /// Submits the next operation of the part, if its die has nothing else to do.
    fn stripe(&mut self, now: Nanoseconds, op: PhysicalOp, dispatcher: &Dispatcher) -> Gentle {
        if dispatcher.outstanding(op.die()) > 0 && now < self.stripe_by {
            self.begin_at = (now + WAIT_NS).min(self.stripe_by);
            return Gentle::Wait;
        }
        self.ops.pop_front();
        self.under_way += 1;
        if let PhysicalOp::Program { bytes, .. } = op {
            self.copied += bytes;
            self.book(now, bytes);
            self.stripe_by = self.begin_at + STRIPE_WAIT_NS;
        } else {
            self.stripe_by = now + STRIPE_WAIT_NS;
        }
        Gentle::Submit(op)
    }

    /// Erases an old copy whose die allows it. Returns the erase.
    fn erase<I: Images>(
        &mut self,
        now: Nanoseconds,
        array: &mut Vssds<I>,
        dispatcher: &Dispatcher,
    ) -> Result<Option<PhysicalOp>, Error> {
        // The part that is being copied still needs its old copy.
        let moving = self.part.map(|part| part.from);
        for (drive, die) in array.old_copies() {
            let idle = dispatcher.idle_since(die).is_some_and(|since| now >= since + IDLE_NS);
            let last = self.erased_at.get(&die);
            let may = idle || last.is_none_or(|at| now >= at + BUSY_ERASE_NS);
            if Some(die) == moving || drive != self.drive || !may {
                continue;
            }
            array.erase_old_copy(drive, die)?;
            let mut ops = Vec::new();
            array.take_ops(drive, &mut ops);
            self.erased_at.insert(die, now);
            if let Some(op) = ops.pop() {
                self.under_way += 1;
                return Ok(Some(op));
            }
        }
        Ok(None)
    }

    /// Lets the array move the next part.
    fn copy<I: Images>(&mut self, now: Nanoseconds, array: &mut Vssds<I>) -> Result<Gentle, Error> {
        let waited = self.open_since.is_some_and(|since| now >= since + OPEN_WAIT_NS);
        let open = if waited { OpenParts::Move } else { OpenParts::Leave };
        match array.swap_copy(open)? {
            Copied::Part { block, from, to, .. } => {
                let mut ops = Vec::new();
                array.take_ops(self.drive, &mut ops);
                self.ops = ops.into();
                self.part = Some(MovingPart { block, from, to });
                self.stripe_by = now + STRIPE_WAIT_NS;
                self.open_since = self.open_since.filter(|_| waited);
                self.book(now, 0);
            }
            Copied::Open => {
                self.open_since.get_or_insert(now);
                self.begin_at = now + WAIT_NS;
            }
            Copied::OldCopy(_) | Copied::Full => self.begin_at = now + WAIT_NS,
            Copied::Done => return Ok(Gentle::Done),
        }
        Ok(Gentle::Wait)
    }

    /// Books `bytes`, which go into both channels in turn. The next stripe may follow when these have taken their time.
    fn book(&mut self, now: Nanoseconds, bytes: u64) {
        let rate = self.pace.bytes_per_s().saturating_mul(2);
        self.begin_at = next_due(self.begin_at, now, bytes, rate);
    }
}
