//! Tenants that share dies: who is served when. A dispatcher stands above [`Media`], with a queue for each tenant at
//! each die; of what is in them, it books a few operations at a time, so that the die has work and whoever
//! comes next need not wait for all that others have asked for.
//!
//! - [`Sharing::Fair`]: weighted deficit round robin in time of the device. All that a tenant does to a die is
//!   charged to it, its erases too. What one does not use, the others have: alone, it has all. Where dies let reads
//!   go first, a read of somebody who has its share of time does not wait for others here either.
//! - [`Sharing::Limited`]: a [`TokenBucket`] in I/Os for each tenant, as FlashBlox has it. What one does not use
//!   nobody has, and an erase costs as much as a read.
//! - [`Sharing::None`]: first come, first served.
//!
//! Time is the caller's, who says what came when, and runs the dispatcher up to some time; calls must not go back in
//! time.

mod bucket;
mod deficit;

pub use bucket::TokenBucket;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::error::{Error, ErrorKind};
use crate::nand::PhysicalOp;
use crate::timed::{DieService, DriveTiming, Media, Nanoseconds};
use deficit::DeficitQueue;

/// How tenants of a die are served.
#[derive(Debug, Clone)]
pub enum Sharing {
    /// By weight, each at least 1, in time of the device.
    Fair {
        /// Of each tenant.
        weights: Vec<u32>,
    },
    /// Each by a limit of its own, in I/Os.
    Limited {
        /// Of each tenant.
        buckets: Vec<TokenBucket>,
    },
    /// Whoever comes first, of so many tenants.
    None {
        /// Number of tenants.
        tenants: usize,
    },
}

impl Sharing {
    fn tenants(&self) -> usize {
        match self {
            Self::Fair { weights } => weights.len(),
            Self::Limited { buckets } => buckets.len(),
            Self::None { tenants } => *tenants,
        }
    }
}

/// An operation that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// Whose it was.
    pub tenant: usize,
    /// What it was submitted with.
    pub token: u64,
    /// When it was done.
    pub at: Nanoseconds,
}

/// Operations that are booked at a die at a time: one that it does and one that is next.
const BOOKED_MAX: usize = 2;

/// Serves tenants that share the dies of a drive.
///
/// Invariants: a die has work booked as long as somebody waits for it; what one tenant asks of one die is
/// done in the order in which it asked.
#[derive(Debug)]
pub struct Dispatcher {
    media: Media,
    sharing: Sharing,
    dies: Vec<DieQueue>,
    events: BinaryHeap<Reverse<Event>>,
    /// Events so far, for an order of those at one time.
    sequence: u64,
    now: Nanoseconds,
    /// By tenant, time of dies that it was charged.
    charged_ns: Vec<u64>,
}

#[derive(Debug)]
struct DieQueue {
    waiting: DeficitQueue<Request>,
    booked: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Request {
    tenant: usize,
    op: PhysicalOp,
    token: u64,
    /// It took its turn at this die.
    in_turn: bool,
}

/// What is to come, in order of time.
#[derive(Debug, PartialEq, Eq)]
struct Event {
    at: Nanoseconds,
    sequence: u64,
    request: Request,
    /// It is done; else its tenant's limit lets it begin.
    done: bool,
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Dispatcher {
    /// An idle drive.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for no tenants, a weight of 0, or a drive that cannot be.
    pub fn new(timing: DriveTiming, sharing: Sharing) -> Result<Self, Error> {
        let tenants = sharing.tenants();
        if tenants == 0 {
            return Err(Error::new(ErrorKind::Config, "no tenants: there is at least one"));
        }
        let equal = vec![1; tenants];
        let weights = if let Sharing::Fair { weights } = &sharing { weights } else { &equal };
        if let Some(tenant) = weights.iter().position(|&weight| weight == 0) {
            let message = format!("tenant {tenant} has weight 0: the least share is 1");
            return Err(Error::new(ErrorKind::Config, message));
        }
        // A turn is worth a program, so that few rounds are without one.
        let quantum_ns = timing.nand.program_ns.max(1);
        let die = || DieQueue { waiting: DeficitQueue::new(weights, quantum_ns), booked: 0 };
        let dies = (0..timing.dies()).map(|_| die()).collect();
        let media = Media::new(timing)?;
        let events = BinaryHeap::new();
        let charged_ns = vec![0; tenants];
        Ok(Self { media, sharing, dies, events, sequence: 0, now: 0, charged_ns })
    }

    /// `tenant` asks for `op` at `now`; `token` comes back when it is done. What happens before `now` must
    /// have been run ([`Self::run`]).
    pub fn submit(&mut self, now: Nanoseconds, tenant: usize, op: PhysicalOp, token: u64) {
        assert!(now >= self.now, "{now}: it is {} already", self.now);
        debug_assert!(self.next_at().is_none_or(|at| at >= now), "run it first");
        self.now = now;
        let request = Request { tenant, op, token, in_turn: false };
        match &mut self.sharing {
            Sharing::Fair { .. } => {
                let die = op.die();
                let cost_ns = self.cost_ns(op);
                let first = self.media.timing().service != DieService::InOrder;
                let first = first && matches!(op, PhysicalOp::HostRead { .. });
                let waiting = &mut self.dies[die.at()].waiting;
                if first && waiting.charge(tenant, cost_ns) {
                    self.book(now, request);
                } else {
                    waiting.push(tenant, cost_ns, Request { in_turn: true, ..request });
                    self.dispatch(now, op);
                }
            }
            Sharing::Limited { buckets } => {
                let at = buckets[tenant].admit(now);
                if at > now {
                    self.expect(at, request, false);
                } else {
                    self.book(now, request);
                }
            }
            Sharing::None { .. } => self.book(now, request),
        }
    }

    /// When something happens next: an operation is done, or may begin.
    pub fn next_at(&self) -> Option<Nanoseconds> {
        self.events.peek().map(|Reverse(event)| event.at)
    }

    /// Runs up to `until`, and says in `served` what was done meanwhile, in order of time.
    pub fn run(&mut self, until: Nanoseconds, served: &mut Vec<Served>) {
        while self.next_at().is_some_and(|at| at <= until) {
            let Some(Reverse(Event { at, request, done, .. })) = self.events.pop() else { break };
            debug_assert!(at >= self.now, "time does not go back");
            self.now = at;
            if !done {
                self.book(at, request);
                continue;
            }
            let Request { tenant, op, token, in_turn } = request;
            served.push(Served { tenant, token, at });
            self.dies[op.die().at()].booked -= usize::from(in_turn);
            self.dispatch(at, op);
        }
        self.now = self.now.max(until);
    }

    /// Time of dies that `tenant` was charged for what was begun.
    pub fn charged_ns(&self, tenant: usize) -> u64 {
        self.charged_ns[tenant]
    }

    /// Books what waits for the die of `op`, as long as it has not enough.
    fn dispatch(&mut self, now: Nanoseconds, op: PhysicalOp) {
        let die = op.die().at();
        while self.dies[die].booked < BOOKED_MAX {
            let Some((_, request)) = self.dies[die].waiting.pop() else { return };
            self.book(now, request);
        }
    }

    fn book(&mut self, now: Nanoseconds, request: Request) {
        self.charged_ns[request.tenant] += self.cost_ns(request.op);
        self.dies[request.op.die().at()].booked += usize::from(request.in_turn);
        let done_at = self.media.book(now, request.op);
        self.expect(done_at, request, true);
    }

    fn expect(&mut self, at: Nanoseconds, request: Request, done: bool) {
        let sequence = self.sequence;
        self.sequence += 1;
        self.events.push(Reverse(Event { at, sequence, request, done }));
    }

    /// What `op` takes of its die and, for data, of the channel.
    fn cost_ns(&self, op: PhysicalOp) -> u64 {
        let timing = self.media.timing();
        let nand = &timing.nand;
        match op {
            PhysicalOp::HostRead { bytes, .. } | PhysicalOp::FirmwareRead { bytes, .. } => {
                nand.read_ns + timing.channel_ns(bytes)
            }
            PhysicalOp::Program { bytes, .. } => nand.program_ns + timing.channel_ns(bytes),
            PhysicalOp::Erase { blocks, .. } => nand.erase_ns * blocks,
        }
    }
}
