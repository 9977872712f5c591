//! A swap under a clock: a copy is read and programmed stripe by stripe; the next stripe is read while one is
//! programmed.

use std::collections::VecDeque;

use larder_ssd::nand::PhysicalOp;
use larder_ssd::timed::Nanoseconds;

use super::pace::{Pace, Watch};
use crate::kind::{LogicalBlock, VssdId};
use crate::levelling::next_due;

/// Stripes in progress: one in programming, one in reading.
const UNDER_WAY: usize = 2;

/// Retry interval while a tenant has to free a block.
const WAIT_NS: Nanoseconds = 1_000_000;

/// The part of a block that is being moved, and its remaining work.
#[derive(Debug)]
pub(super) struct Mover {
    drive: usize,
    pace: Pace,
    /// vSSDs that the swap slows down.
    suffers: Vec<VssdId>,
    watch: Watch,
    /// The block whose part is being moved.
    block: Option<LogicalBlock>,
    stripes: VecDeque<Stripe>,
    /// Stripes in progress, in order.
    begun: VecDeque<Stripe>,
    /// Number of the first of `begun`, counted since the swap began.
    first: u64,
    /// No stripe begins before this time.
    begin_at: Nanoseconds,
    /// When the current part began to move.
    part_at: Nanoseconds,
    /// Whether the swap has paused since the last part.
    rested: bool,
    copied: u64,
    held: Vec<HeldOperation>,
}

/// Consecutive operations: rows are read, then the stripe is programmed; or a block is erased.
#[derive(Debug)]
struct Stripe {
    reads: VecDeque<PhysicalOp>,
    /// Reads in progress.
    reading: usize,
    then: Option<PhysicalOp>,
    bytes: u64,
}

/// An operation of a tenant, which may have to wait until its block has moved.
#[derive(Debug)]
pub(super) struct HeldOperation {
    pub(super) drive: usize,
    pub(super) tenant: usize,
    pub(super) op: PhysicalOp,
    pub(super) request: u64,
}

/// The next action of a swap.
#[derive(Debug)]
pub(super) enum Next {
    /// Nothing to do now.
    Wait,
    /// The swap pauses.
    Pause,
    /// Submit an operation, which is passed to [`Mover::served`] with this number.
    Submit(PhysicalOp, u64),
    /// Move the next part; the last one has moved.
    Step,
}

impl Mover {
    pub(super) fn new(now: Nanoseconds, drive: usize, pace: Pace, suffers: Vec<VssdId>) -> Self {
        Self {
            drive,
            pace,
            suffers,
            watch: Watch::default(),
            block: None,
            stripes: VecDeque::new(),
            begun: VecDeque::new(),
            first: 0,
            begin_at: now,
            part_at: now,
            rested: true,
            copied: 0,
            held: Vec::new(),
        }
    }

    pub(super) fn drive(&self) -> usize {
        self.drive
    }

    /// When something begins without any completion before it.
    pub(super) fn next_at(&self) -> Option<Nanoseconds> {
        let idle = self.begun.len() < UNDER_WAY && !self.stripes.is_empty();
        (idle || self.is_moved()).then_some(self.begin_at)
    }

    /// Starts the move of a part of `block`, with the operations `ops`.
    pub(super) fn moves(&mut self, block: LogicalBlock, ops: &[PhysicalOp]) {
        self.block = Some(block);
        let mut reads = VecDeque::new();
        for &op in ops {
            let bytes = match op {
                PhysicalOp::FirmwareRead { .. } | PhysicalOp::HostRead { .. } => {
                    reads.push_back(op);
                    continue;
                }
                PhysicalOp::Program { bytes, .. } => bytes,
                PhysicalOp::Erase { .. } => 0,
            };
            let reads = std::mem::take(&mut reads);
            self.stripes.push_back(Stripe { reads, reading: 0, then: Some(op), bytes });
        }
    }

    /// Waits, because no part can move before a tenant has freed a block.
    pub(super) fn wait(&mut self, now: Nanoseconds) {
        self.begin_at = now + WAIT_NS;
    }

    /// Whether operations on `block` must wait until its part has moved.
    pub(super) fn holds(&self, block: Option<LogicalBlock>) -> bool {
        block.is_some() && block == self.block
    }

    pub(super) fn hold(&mut self, operation: HeldOperation) {
        self.held.push(operation);
    }

    /// The operations that waited for the part, which has moved now.
    pub(super) fn release(&mut self) -> Vec<HeldOperation> {
        self.block = None;
        std::mem::take(&mut self.held)
    }

    /// Bytes copied since the last call.
    pub(super) fn take_copied(&mut self) -> u64 {
        std::mem::take(&mut self.copied)
    }

    /// Records the latency of a request of `vssd`.
    pub(super) fn watch(&mut self, vssd: VssdId, latency_ns: u64) {
        if self.suffers.contains(&vssd) {
            self.watch.push(latency_ns);
        }
    }

    /// Records that the operation with this number completed.
    pub(super) fn served(&mut self, number: u64) {
        let Ok(at) = usize::try_from(number - self.first) else { return };
        let stripe = &mut self.begun[at];
        if stripe.reading > 0 {
            stripe.reading -= 1;
            return;
        }
        debug_assert_eq!(at, 0, "stripes are programmed in order");
        self.copied += stripe.bytes;
        self.begun.pop_front();
        self.first += 1;
    }

    pub(super) fn next(&mut self, now: Nanoseconds) -> Next {
        if self.is_moved() {
            return self.between_parts(now);
        }
        if self.begun.len() < UNDER_WAY && !self.stripes.is_empty() && now >= self.begin_at {
            self.begin(now);
        }
        for (number, stripe) in (self.first..).zip(&mut self.begun) {
            if let Some(read) = stripe.reads.pop_front() {
                stripe.reading += 1;
                return Next::Submit(read, number);
            }
            // Programs of a block must be in order: a stripe waits for the one before.
            if number == self.first
                && stripe.reading == 0
                && let Some(then) = stripe.then.take()
            {
                return Next::Submit(then, number);
            }
        }
        Next::Wait
    }

    /// Whether the part has moved entirely.
    fn is_moved(&self) -> bool {
        self.stripes.is_empty() && self.begun.is_empty()
    }

    fn begin(&mut self, now: Nanoseconds) {
        let Some(stripe) = self.stripes.pop_front() else { return };
        self.begin_at = next_due(self.begin_at, now, stripe.bytes, self.pace.bytes_per_s);
        self.begun.push_back(stripe);
    }

    /// Called after a part has moved. A swap pauses only here, where no request waits for one of its blocks.
    fn between_parts(&mut self, now: Nanoseconds) -> Next {
        let suffers = self.pace.p99_ns.is_some_and(|p99_ns| self.watch.suffers(p99_ns));
        if suffers && !self.rested {
            self.rested = true;
            self.begin_at = self.begin_at.max(now + (now - self.part_at) * Pace::REST);
            return Next::Pause;
        }
        if now < self.begin_at {
            return Next::Wait;
        }
        (self.rested, self.part_at) = (false, now);
        Next::Step
    }
}
