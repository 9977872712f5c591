//! An array under a clock: the latency of requests of its vSSDs, in parallel with each other and with a swap.
//!
//! Each drive has a [`Dispatcher`], and each vSSD is a tenant of it. The array performs a request on the media in no
//! time; the operations are then booked one by one in the dispatcher, and the request completes with the last of them.
//! An append completes when it is programmed: open-channel drives have no buffer that survives a power loss.
//!
//! Operations of a vSSD on dies that another one has lent to it come after those of the owner (`lent.rs`).
//!
//! A swap runs in parallel with the tenants: [`Pace`] sets its speed, and when it pauses.
//!
//! The caller provides the time. Calls must not go back in time, and [`TimedVssds::run`] must have been called up to
//! the time of a request before it.

mod gentle;
mod lending;
mod lent;
mod mover;
mod pace;
mod requests;

use std::time::Duration;

use larder_ssd::nand::{DieIndex, PhysicalOp};
use larder_ssd::timed::{DriveTiming, Nanoseconds};
use larder_ssd::{Error, ErrorKind};

use super::array::{Pages, Swap, Vssds};
use super::images::Images;
use super::kind::{Isolation, LogicalBlock, VssdId};
use super::levelling::PaceLimits;
use super::share::{Dispatcher, Served, Sharing, TokenBucket};
use gentle::{Gentle, GentleMover, SecondWatch};
use lent::{LentQueues, OwnerUse};
use mover::{HeldOperation, Mover, Next};
pub use pace::Pace;
use requests::{OpenRequest, Requests};

/// Maximum number of unfinished operations of one vSSD on a die; further requests are refused (FlashBlox §3.1 has a
/// queue of this depth for each die).
pub const QUEUE_DEPTH: u32 = 256;

/// How vSSDs share dies. It makes no difference for vSSDs that share none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SharePolicy {
    /// In device time, by the weights of [`Isolation::Software`]; other vSSDs and swaps have weight 1.
    Fair,
    /// By a token bucket for each vSSD, in the bytes that dies read and program for it. Rates are by the weights of
    /// [`Isolation::Software`]; other vSSDs have weight 1. Swaps are not limited.
    Limited {
        /// Bytes per second of all vSSDs of a drive together.
        bytes_per_s: u64,
        /// Time in which an unused bucket fills up.
        burst: Duration,
    },
    /// First come, first served.
    None,
}

/// The block that operations of a request are on.
#[derive(Debug, Clone, Copy)]
enum BlockUse {
    /// None in particular: blocks are erased.
    None,
    /// One on dies of its vSSD.
    Own(LogicalBlock),
    /// One on dies of a lender.
    Lent(LogicalBlock),
}

/// A completed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completed {
    /// Its vSSD.
    pub vssd: VssdId,
    /// The token of its submission.
    pub token: u64,
    /// When it was submitted.
    pub submitted: Nanoseconds,
    /// When it completed.
    pub at: Nanoseconds,
}

/// Totals of the swaps under a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SwapProgress {
    /// Completed swaps.
    pub swaps: u64,
    /// Bytes that were copied.
    pub bytes: u64,
    /// Times that a swap paused because tenants' requests took too long.
    pub pauses: u64,
    /// When the last swap ended.
    pub ended_at: Nanoseconds,
}

/// vSSDs on drives with a clock.
#[derive(Debug)]
pub struct TimedVssds<I> {
    array: Vssds<I>,
    drives: Vec<Dispatcher>,
    /// The vSSDs, in the order of their numbers: the index is the tenant of each dispatcher.
    tenants: Vec<VssdId>,
    requests: Requests,
    mover: Option<Mover>,
    /// A swap by the rules of levelling in service; never beside `mover`.
    gentle: Option<GentleMover>,
    watch: SecondWatch,
    progress: SwapProgress,
    lent: LentQueues,
    /// Operations that need not be done any more: their loans have ended.
    vanished: Vec<u64>,
    owners: OwnerUse,
    /// Whether owners come before borrowers.
    owners_first: bool,
    command_ns: u64,
    ops: Vec<PhysicalOp>,
    served: Vec<Served>,
}

impl<I: Images> TimedVssds<I> {
    /// Puts `array` on idle drives with this `timing`. Its vSSDs are the tenants; vSSDs created later are not.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for an array without vSSDs, or whose drives do not match `timing`.
    pub fn new(
        mut array: Vssds<I>,
        timing: &DriveTiming,
        policy: &SharePolicy,
    ) -> Result<Self, Error> {
        let infos: Vec<_> = array.list().collect();
        let shape = *array.shape();
        let stripe = (timing.array(), timing.stripe_pages());
        if infos.is_empty() || stripe != (shape.geometry.array, shape.geometry.stripe_pages()) {
            let message = format!(
                "{}: {} vSSDs on dies that program {} pages at once: the drive must be that of the array, \
                 and have a vSSD",
                timing.name,
                infos.len(),
                shape.geometry.stripe_pages()
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        let weight = |isolation| match isolation {
            Isolation::Software { weight } => weight,
            _ => 1,
        };
        let weights = infos.iter().map(|info| weight(info.request.isolation));
        // The last tenant is the swap. Its pace limits it.
        let sharing = match *policy {
            SharePolicy::Fair => Sharing::Fair { weights: weights.chain([1]).collect() },
            SharePolicy::Limited { bytes_per_s, burst } => {
                let all: u64 = weights.clone().map(u64::from).sum();
                let part = |weight| {
                    let rate =
                        u128::from(bytes_per_s) * u128::from(weight) / u128::from(all.max(1));
                    TokenBucket::lasting(u64::try_from(rate).unwrap_or(u64::MAX), burst)
                };
                let swap = TokenBucket::lasting(u64::MAX, burst);
                Sharing::Limited { buckets: weights.map(part).chain([swap]).collect() }
            }
            SharePolicy::None => Sharing::None { tenants: infos.len() + 1 },
        };
        let dispatcher = |_| Dispatcher::new(timing.clone(), sharing.clone());
        let drives = (0..shape.drives).map(dispatcher).collect::<Result<Vec<_>, _>>()?;
        (0..shape.drives).for_each(|drive| array.record_ops(drive, true));
        Ok(Self {
            requests: Requests::new(infos.len(), shape.dies() as usize * drives.len()),
            tenants: infos.iter().map(|info| info.id).collect(),
            command_ns: timing.command_ns,
            array,
            drives,
            mover: None,
            gentle: None,
            watch: SecondWatch::default(),
            progress: SwapProgress::default(),
            lent: LentQueues::default(),
            vanished: Vec::new(),
            owners: OwnerUse::new(shape.drives as usize, shape.dies() as usize),
            owners_first: true,
            ops: Vec::new(),
            served: Vec::new(),
        })
    }

    /// Read access to the array.
    pub fn array(&self) -> &Vssds<I> {
        &self.array
    }

    /// The array, for operations that take no time on the media, such as the allocation of blocks. Any operations on
    /// the media are booked with the next request.
    pub fn array_mut(&mut self) -> &mut Vssds<I> {
        &mut self.array
    }

    /// Returns the array unchanged.
    pub fn into_array(self) -> Vssds<I> {
        self.array
    }

    /// Appends like [`Vssds::append`]. `token` is returned when all is programmed.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`] for 0 pages; [`ErrorKind::InUse`] if a die has [`QUEUE_DEPTH`] unfinished operations
    /// of this vSSD, or the block is lent and its lender uses its dies; else as [`Vssds::append`]. Data that was
    /// appended in spite of an error gets no completion.
    pub fn append(
        &mut self,
        now: Nanoseconds,
        vssd: VssdId,
        block: LogicalBlock,
        at: u64,
        pages: Pages<'_>,
        token: u64,
    ) -> Result<(), Error> {
        let tenant = self.admit(vssd, pages.count())?;
        self.check_lender(now, block)?;
        // Before the append, which may end a loan: what it has programmed until then is on the lender's dies.
        let used = self.use_of(block);
        let appended = self.array.append(vssd, block, at, pages);
        self.book(now, tenant, used, appended.is_ok().then_some(token));
        appended
    }

    /// Reads like [`Vssds::read`]. `token` is returned when the last page has arrived.
    ///
    /// # Errors
    /// As [`Self::append`], and [`Vssds::read`].
    pub fn read(
        &mut self,
        now: Nanoseconds,
        vssd: VssdId,
        block: LogicalBlock,
        at: u64,
        pages: u64,
        token: u64,
    ) -> Result<(), Error> {
        let tenant = self.admit(vssd, pages)?;
        let read = self.array.read(vssd, block, at, pages);
        self.book(now, tenant, self.use_of(block), read.is_ok().then_some(token));
        read
    }

    /// Frees like [`Vssds::free_block`]. The block is free at once; the dies erase it later, charged to this vSSD.
    ///
    /// # Errors
    /// As [`Vssds::free_block`].
    pub fn free(
        &mut self,
        now: Nanoseconds,
        vssd: VssdId,
        block: LogicalBlock,
    ) -> Result<(), Error> {
        let tenant = self.tenant(vssd)?;
        let freed = self.array.free_block(vssd, block);
        self.book(now, tenant, BlockUse::None, None);
        freed
    }

    /// Begins a swap like [`Vssds::swap_begin`], and continues it at this pace.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for a rate of 0; else as [`Vssds::swap_begin`].
    pub fn swap_begin(
        &mut self,
        now: Nanoseconds,
        drive: u32,
        pairs: &[(DieIndex, DieIndex)],
        pace: Pace,
    ) -> Result<(), Error> {
        pace.check()?;
        self.array.swap_begin(drive, pairs)?;
        let suffers = self.tenants_of(drive, pairs);
        self.mover = Some(Mover::new(now, drive as usize, pace, suffers));
        self.pump(now)
    }

    /// Begins a swap that disturbs tenants as little as it can, as levelling in service does ([`crate::service`]):
    /// reads of a part that moves go to its old copy, open parts stay until they are full, stripes are copied one at a
    /// time while their dies are idle, old copies are erased when a die has been idle for 5 ms or once a second, and
    /// the rate follows the tenants' p99.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for limits that are out of order; else as [`Vssds::swap_begin`].
    pub fn swap_begin_gently(
        &mut self,
        now: Nanoseconds,
        drive: u32,
        pairs: &[(DieIndex, DieIndex)],
        limits: PaceLimits,
    ) -> Result<(), Error> {
        limits.check()?;
        self.array.swap_begin(drive, pairs)?;
        let moving = self.tenants_of(drive, pairs);
        self.gentle = Some(GentleMover::new(now, drive, limits, moving)?);
        self.pump(now)
    }

    /// The vSSDs on the dies of `pairs`.
    fn tenants_of(&self, drive: u32, pairs: &[(DieIndex, DieIndex)]) -> Vec<VssdId> {
        let here = |&(on, die): &(u32, DieIndex)| {
            on == drive && pairs.iter().any(|&(a, b)| die == a || die == b)
        };
        let infos = self.array.list().filter(|info| info.dies.iter().any(here));
        infos.map(|info| info.id).collect()
    }

    /// Totals of all swaps so far.
    pub fn swap_progress(&self) -> SwapProgress {
        self.progress
    }

    /// Whether a swap is in progress.
    pub fn is_swapping(&self) -> bool {
        self.mover.is_some() || self.gentle.is_some()
    }

    /// Time of the next event.
    pub fn next_at(&self) -> Option<Nanoseconds> {
        let drives = self.drives.iter().filter_map(Dispatcher::next_at);
        let gentle = self.gentle.as_ref().and_then(GentleMover::next_at);
        let mover = self.mover.as_ref().and_then(Mover::next_at);
        drives.chain(mover).chain(gentle).chain(self.lent_next_at()).min()
    }

    /// Runs up to `until`, and adds the completed requests to `completed`, in order of time.
    ///
    /// # Errors
    /// As [`Vssds::swap_step`]: then the swap makes no progress.
    pub fn run(&mut self, until: Nanoseconds, completed: &mut Vec<Completed>) -> Result<(), Error> {
        while let Some(at) = self.next_at().filter(|&at| at <= until) {
            self.owners.advance(at);
            for drive in 0..self.drives.len() {
                let mut served = std::mem::take(&mut self.served);
                self.drives[drive].run(at, &mut served);
                served.drain(..).for_each(|served| self.finish(served, completed));
                self.served = served;
            }
            self.pump(at)?;
            for operation in std::mem::take(&mut self.vanished) {
                self.complete(operation, at, completed);
            }
        }
        self.drives.iter_mut().for_each(|drive| drive.run(until, &mut self.served));
        debug_assert!(self.served.is_empty(), "all that was to happen has happened");
        self.owners.advance(until);
        Ok(())
    }

    /// Die time charged to `vssd` on all drives.
    pub fn charged_ns(&self, vssd: VssdId) -> u64 {
        let tenant = self.tenants.iter().position(|&other| other == vssd);
        tenant.map_or(0, |tenant| self.drives.iter().map(|drive| drive.charged_ns(tenant)).sum())
    }

    fn tenant(&self, vssd: VssdId) -> Result<usize, Error> {
        self.tenants.binary_search(&vssd).map_err(|_| {
            let message =
                format!("vSSD {} is no tenant of these drives: make them with it", vssd.0);
            Error::new(ErrorKind::NotOwned, message)
        })
    }

    fn admit(&self, vssd: VssdId, pages: u64) -> Result<usize, Error> {
        let tenant = self.tenant(vssd)?;
        if pages == 0 {
            let message = "0 pages: nothing would say when it is done; at least 1";
            return Err(Error::new(ErrorKind::OutOfRange, message));
        }
        if self.requests.deepest(tenant) < QUEUE_DEPTH {
            return Ok(tenant);
        }
        let message = format!(
            "vSSD {}: a die has {QUEUE_DEPTH} operations of it to do: wait for some",
            vssd.0
        );
        Err(Error::new(ErrorKind::InUse, message))
    }

    fn use_of(&self, block: LogicalBlock) -> BlockUse {
        match self.array.is_lent(block) {
            true => BlockUse::Lent(block),
            false => BlockUse::Own(block),
        }
    }

    /// Books the operations of the array since the last call. Requests do not wait for erases, nor for operations
    /// without a token.
    fn book(&mut self, now: Nanoseconds, tenant: usize, used: BlockUse, token: Option<u64>) {
        self.owners.advance(now);
        let request = token.map(|token| self.requests.begin(now, tenant, token));
        let mut ops = std::mem::take(&mut self.ops);
        for drive in 0..self.drives.len() {
            ops.clear();
            self.array.take_ops(u32::try_from(drive).unwrap_or(u32::MAX), &mut ops);
            for &op in &ops {
                let waits = !matches!(op, PhysicalOp::Erase { .. });
                let place = self.place_of(drive, op.die());
                let request = self.requests.add(tenant, place, request.filter(|_| waits));
                let operation = HeldOperation { drive, tenant, op, request };
                match used {
                    BlockUse::Lent(block) => self.begin_lent(now, block, operation),
                    BlockUse::Own(block) => self.begin_own(now, Some(block), operation),
                    BlockUse::None => self.begin_own(now, None, operation),
                }
            }
        }
        self.ops = ops;
        if matches!(used, BlockUse::Lent(_)) {
            self.submit_lent(now);
        }
    }

    /// Gives an operation of a tenant on its own dies to the drive, or to the swap that it must wait for.
    fn begin_own(&mut self, now: Nanoseconds, block: Option<LogicalBlock>, it: HeldOperation) {
        let HeldOperation { drive, tenant, op, request } = it;
        self.owners.begin(self.place_of(drive, op.die()));
        if let Some(gentle) = self.gentle.as_mut().filter(|gentle| gentle.drive() == drive) {
            match gentle.redirect(block, op) {
                Some(op) => self.drives[drive].submit(now, tenant, op, request),
                None => gentle.hold(it),
            }
            return;
        }
        // Operations on a block that is being copied are held until the copy is done.
        match self.mover.as_mut().filter(|mover| mover.holds(block)) {
            Some(mover) => mover.hold(it),
            None => self.drives[drive].submit(now, tenant, op, request),
        }
    }

    fn finish(&mut self, served: Served, completed: &mut Vec<Completed>) {
        if served.tenant == self.tenants.len() {
            if let Some(mover) = &mut self.mover {
                mover.served(served.token);
            }
            if let Some(gentle) = &mut self.gentle {
                gentle.served();
            }
            return;
        }
        if !self.lent.end(served.token)
            && let Some(die) = self.requests.die_of(served.token)
        {
            self.owners.end(die);
        }
        self.complete(served.token, served.at, completed);
    }

    /// Ends `operation`, and its request if that waits for no other.
    fn complete(&mut self, operation: u64, at: Nanoseconds, completed: &mut Vec<Completed>) {
        let Some(request) = self.requests.end(operation) else { return };
        let OpenRequest { tenant, token, submitted, .. } = request;
        let (vssd, at) = (self.tenants[tenant], at + self.command_ns);
        if let Some(mover) = &mut self.mover {
            mover.watch(vssd, at - submitted);
        }
        self.watch.push(vssd, at - submitted);
        completed.push(Completed { vssd, token, submitted, at });
    }

    /// Continues the swap as far as its pace allows.
    fn pump(&mut self, now: Nanoseconds) -> Result<(), Error> {
        let migration = self.tenants.len();
        let moving = self.gentle.as_ref().map(|gentle| &gentle.moving[..]);
        if let (Some(slowdown), Some(gentle)) = (self.watch.end(now, moving), &mut self.gentle) {
            gentle.second(slowdown);
        }
        self.pump_gently(now)?;
        self.pump_lent(now)?;
        while let Some(mover) = &mut self.mover {
            let drive = mover.drive();
            match mover.next(now) {
                Next::Wait => break,
                Next::Pause => {
                    self.progress.pauses += 1;
                    self.release(now);
                }
                Next::Submit(op, token) => self.drives[drive].submit(now, migration, op, token),
                Next::Step => {
                    self.progress.bytes += mover.take_copied();
                    self.release(now);
                    self.step(now)?;
                }
            }
        }
        Ok(())
    }

    /// Continues a swap in service.
    fn pump_gently(&mut self, now: Nanoseconds) -> Result<(), Error> {
        let migration = self.tenants.len();
        while let Some(gentle) = &mut self.gentle {
            let drive = gentle.drive();
            match gentle.next(now, &mut self.array, &self.drives[drive]) {
                Ok(Gentle::Wait) if gentle.next_at().is_none_or(|at| at > now) => break,
                Ok(Gentle::Wait) => {}
                Ok(Gentle::Submit(op)) => self.drives[drive].submit(now, migration, op, 0),
                Ok(Gentle::Moved(bytes)) => {
                    self.progress.bytes += bytes;
                    for held in gentle.release() {
                        self.drives[held.drive].submit(now, held.tenant, held.op, held.request);
                    }
                }
                Ok(Gentle::Done) => {
                    self.gentle = None;
                    self.progress.swaps += 1;
                    self.progress.ended_at = now;
                }
                Err(error) => {
                    self.gentle = None;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Submits the operations that were held for a part, after it has moved.
    fn release(&mut self, now: Nanoseconds) {
        for held in self.mover.iter_mut().flat_map(Mover::release) {
            self.drives[held.drive].submit(now, held.tenant, held.op, held.request);
        }
    }

    /// Lets the array move the next part, whose operations the mover then submits one after the other.
    fn step(&mut self, now: Nanoseconds) -> Result<(), Error> {
        let Some(mover) = &mut self.mover else { return Ok(()) };
        let drive = u32::try_from(mover.drive()).unwrap_or(u32::MAX);
        match self.array.swap_step() {
            Ok(Swap::Moved { block, .. }) => {
                self.ops.clear();
                self.array.take_ops(drive, &mut self.ops);
                mover.moves(block, &self.ops);
            }
            Ok(Swap::Waiting) => mover.wait(now),
            Ok(Swap::Done) => {
                self.mover = None;
                self.progress.swaps += 1;
                self.progress.ended_at = now;
            }
            Err(error) => {
                self.mover = None;
                return Err(error);
            }
        }
        Ok(())
    }
}
