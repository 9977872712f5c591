//! Scheduling of tenants that share dies. A dispatcher sits above [`Media`], with a queue for each tenant at each die.
//! It books only a few of the queued operations at a time, so that the die has work but a new operation need not wait
//! for all that others have requested.
//!
//! - [`Sharing::Fair`]: weighted deficit round robin in device time. All operations of a tenant on a die are charged to
//!   it, including its erases. Time that one tenant does not use goes to the others; a tenant that is alone gets all.
//!   If dies serve reads first, then a read of a tenant within its share does not wait for other tenants here either.
//! - [`Sharing::Limited`]: a [`TokenBucket`] in bytes for each tenant, as in FlashBlox. Unused tokens are lost, and an
//!   erase costs nothing.
//! - [`Sharing::None`]: first come, first served.
//!
//! The caller provides the time: it passes the arrival time of each operation, and runs the dispatcher up to a given
//! time. Calls must not go back in time.

mod bucket;
mod deficit;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use larder_ssd::nand::{DieIndex, PhysicalOp};
use larder_ssd::timed::{DieService, DriveTiming, Media, Nanoseconds};
use larder_ssd::{Error, ErrorKind};

pub use bucket::TokenBucket;
pub use deficit::DeficitQueue;

/// How tenants of a die are scheduled.
#[derive(Debug, Clone)]
pub enum Sharing {
    /// By weight, in device time.
    Fair {
        /// Weight of each tenant, at least 1.
        weights: Vec<u32>,
    },
    /// By a separate limit for each tenant, in the bytes that dies read and program for it.
    Limited {
        /// Bucket of each tenant.
        buckets: Vec<TokenBucket>,
    },
    /// First come, first served.
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

/// A completed operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// Its tenant.
    pub tenant: usize,
    /// The token of its submission.
    pub token: u64,
    /// When it completed.
    pub at: Nanoseconds,
}

/// Operations booked per die at a time: one in progress and the next one.
const BOOKED_MAX: usize = 2;

/// Schedules tenants that share the dies of a drive.
///
/// Invariants: a die has work booked while any operation waits for it; the operations of one tenant on one die are done
/// in the order of their submission.
#[derive(Debug)]
pub struct Dispatcher {
    media: Media,
    sharing: Sharing,
    dies: Vec<DieQueue>,
    events: BinaryHeap<Reverse<ShareEvent>>,
    /// Number of events so far, to order events at the same time.
    sequence: u64,
    now: Nanoseconds,
    /// Charged die time, by tenant.
    charged_ns: Vec<u64>,
}

#[derive(Debug)]
struct DieQueue {
    waiting: DeficitQueue<ShareRequest>,
    booked: usize,
    /// Submitted operations that are not completed.
    outstanding: usize,
    /// When the last one completed.
    completed_at: Nanoseconds,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ShareRequest {
    tenant: usize,
    op: PhysicalOp,
    token: u64,
    /// Whether it took its turn at this die.
    in_turn: bool,
}

/// A future event, ordered by time.
#[derive(Debug, PartialEq, Eq)]
struct ShareEvent {
    at: Nanoseconds,
    sequence: u64,
    request: ShareRequest,
    /// Whether the operation completes; otherwise its tenant's limit lets it begin.
    done: bool,
}

impl Ord for ShareEvent {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

impl PartialOrd for ShareEvent {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Dispatcher {
    /// An idle drive.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for no tenants, a weight of 0, or an impossible drive.
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
        // A turn is worth a program, so that most rounds serve one.
        let quantum_ns = timing.nand.program_ns.max(1);
        let die = || DieQueue {
            waiting: DeficitQueue::new(weights, quantum_ns),
            booked: 0,
            outstanding: 0,
            completed_at: 0,
        };
        let dies = (0..timing.dies()).map(|_| die()).collect();
        let media = Media::new(timing)?;
        let events = BinaryHeap::new();
        let charged_ns = vec![0; tenants];
        Ok(Self { media, sharing, dies, events, sequence: 0, now: 0, charged_ns })
    }

    /// Submits `op` of `tenant` at `now`; `token` is returned when it completes. Events before `now` must have been run
    /// ([`Self::run`]).
    pub fn submit(&mut self, now: Nanoseconds, tenant: usize, op: PhysicalOp, token: u64) {
        assert!(now >= self.now, "{now}: it is {} already", self.now);
        debug_assert!(self.next_at().is_none_or(|at| at >= now), "run it first");
        self.now = now;
        let request = ShareRequest { tenant, op, token, in_turn: false };
        self.dies[op.die().at()].outstanding += 1;
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
                    waiting.push(tenant, cost_ns, ShareRequest { in_turn: true, ..request });
                    self.dispatch(now, op);
                }
            }
            Sharing::Limited { buckets } => {
                let at = buckets[tenant].take(now, data_bytes(op));
                if at > now {
                    self.expect(at, request, false);
                } else {
                    self.book(now, request);
                }
            }
            Sharing::None { .. } => self.book(now, request),
        }
    }

    /// Time of the next event: an operation completes, or may begin.
    pub fn next_at(&self) -> Option<Nanoseconds> {
        self.events.peek().map(|Reverse(event)| event.at)
    }

    /// Runs up to `until`, and adds the completed operations to `served`, in order of time.
    pub fn run(&mut self, until: Nanoseconds, served: &mut Vec<Served>) {
        while self.next_at().is_some_and(|at| at <= until) {
            let Some(Reverse(ShareEvent { at, request, done, .. })) = self.events.pop() else {
                break;
            };
            debug_assert!(at >= self.now, "time does not go back");
            self.now = at;
            if !done {
                self.book(at, request);
                continue;
            }
            let ShareRequest { tenant, op, token, in_turn } = request;
            served.push(Served { tenant, token, at });
            let die = &mut self.dies[op.die().at()];
            die.booked -= usize::from(in_turn);
            die.outstanding -= 1;
            die.completed_at = at;
            self.dispatch(at, op);
        }
        self.now = self.now.max(until);
    }

    /// Operations on `die` that are submitted and not completed.
    pub fn outstanding(&self, die: DieIndex) -> usize {
        self.dies[die.at()].outstanding
    }

    /// Since when `die` has had nothing to do; `None` while it has.
    pub fn idle_since(&self, die: DieIndex) -> Option<Nanoseconds> {
        let die = &self.dies[die.at()];
        (die.outstanding == 0).then_some(die.completed_at)
    }

    /// Die time charged to `tenant` for operations that were started.
    pub fn charged_ns(&self, tenant: usize) -> u64 {
        self.charged_ns[tenant]
    }

    /// Books waiting operations for the die of `op`, until the die has enough.
    fn dispatch(&mut self, now: Nanoseconds, op: PhysicalOp) {
        let die = op.die().at();
        while self.dies[die].booked < BOOKED_MAX {
            let Some((_, request)) = self.dies[die].waiting.pop() else { return };
            self.book(now, request);
        }
    }

    fn book(&mut self, now: Nanoseconds, request: ShareRequest) {
        self.charged_ns[request.tenant] += self.cost_ns(request.op);
        self.dies[request.op.die().at()].booked += usize::from(request.in_turn);
        let done_at = self.media.book(now, request.op);
        self.expect(done_at, request, true);
    }

    fn expect(&mut self, at: Nanoseconds, request: ShareRequest, done: bool) {
        let sequence = self.sequence;
        self.sequence += 1;
        self.events.push(Reverse(ShareEvent { at, sequence, request, done }));
    }

    /// Time of `op` on its die and, for data, on the channel.
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

/// Bytes that `op` moves between a die and its channel.
fn data_bytes(op: PhysicalOp) -> u64 {
    match op {
        PhysicalOp::HostRead { bytes, .. }
        | PhysicalOp::FirmwareRead { bytes, .. }
        | PhysicalOp::Program { bytes, .. } => bytes,
        PhysicalOp::Erase { .. } => 0,
    }
}
