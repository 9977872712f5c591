//! How a misbehaving device carries out requests: one at a time, in the order of submission, except for those that are
//! held back. A request that is held back is carried out when it is released, or was carried out already and its owner
//! is told then. Until its owner is told, a write counts as in flight.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::FaultCounts;
use super::plan::{Fault, FaultPlan, Injector};
use super::volatile::{FlushCoverage, Volatile, WriteId, room_for};
use crate::buffer::IoBuffer;
use crate::device::Device;
use crate::error::{Error, ErrorKind};
use crate::info::{DeviceInfo, VolatileCache};
use crate::io::{Completer, Io, IoFailure, IoFuture, IoResult};
use crate::placement::PlacementHandle;

/// On most drives a loss of power does not tear a sector of this size.
const SECTOR_BYTES: usize = 512;
/// The same for memory, which has smaller blocks.
const WORD_BYTES: u32 = 8;

/// State that a fault device shares with the futures of its delayed requests.
pub(super) struct FaultCore<D> {
    pub(super) inner: D,
    pub(super) info: DeviceInfo,
    /// Whether a loss of power may undo completed writes.
    forgets: bool,
    /// Unit in which a write is torn, in bytes.
    torn_bytes: usize,
    state: Mutex<FaultState>,
}

pub(super) struct FaultState {
    pub(super) injector: Injector,
    pub(super) volatile: Volatile,
    delayed: Vec<DelayedRequest>,
    /// Writes that were carried out and whose owners were not told yet.
    untold: BTreeSet<WriteId>,
    pub(super) submissions: u64,
    pub(super) down: Option<Down>,
    pub(super) counts: FaultCounts,
}

impl FaultState {
    /// The completed writes, which a flush that is submitted now makes durable.
    fn completed(&self) -> FlushCoverage {
        FlushCoverage { before: self.volatile.next(), but: self.untold.clone() }
    }

    /// Marks a write whose owner is told that it has ended.
    fn told(&mut self, write: Option<(WriteId, bool)>) {
        let Some((id, survives)) = write else { return };
        self.untold.remove(&id);
        if survives {
            self.volatile.became_durable(id);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Down {
    Crashed,
    Gone,
}

pub(super) struct DelayedRequest {
    number: u64,
    submissions_left: u32,
    held: HeldOutcome,
    completer: Completer,
}

/// A request whose owner was not told that it has ended.
enum HeldOutcome {
    /// Carried out when released. A flush then covers these writes.
    Request(Io, FlushCoverage),
    /// Already carried out.
    Done {
        verb: &'static str,
        result: IoResult,
        /// The write that a loss of power may undo, and whether it is durable as soon as its owner is told.
        write: Option<(WriteId, bool)>,
    },
}

/// Requests that have ended but whose owners were not told yet. They are told after the lock is released, because a
/// waker may submit.
pub(super) type Due = Vec<(Completer, IoResult)>;

impl<D: Device + 'static> FaultCore<D> {
    pub(super) fn new(inner: D, plan: &FaultPlan) -> Self {
        let forgets = plan.volatile_cache && plan.volatile_writes > 0;
        let volatile_cache = if forgets { VolatileCache::Yes } else { VolatileCache::No };
        let is_memory = (inner.info().block_bytes as usize) < SECTOR_BYTES;
        let torn_bytes = match inner.info() {
            // A block and its metadata are written as one.
            info if info.keeps_metadata => info.block_bytes as usize,
            _ if is_memory => WORD_BYTES as usize,
            _ => SECTOR_BYTES,
        };
        let info = DeviceInfo {
            volatile_cache,
            atomic_write_bytes: plan.atomic_write_bytes.or(is_memory.then_some(WORD_BYTES)),
            ..inner.info().clone()
        };
        let whole_bytes = plan.atomic_write_bytes.map_or(torn_bytes, |bytes| bytes as usize);
        let sector_bytes = whole_bytes.max(torn_bytes);
        let beside_bytes = if info.keeps_metadata {
            sector_bytes / info.block_bytes as usize * usize::from(info.metadata_bytes)
        } else {
            0
        };
        let state = FaultState {
            injector: Injector::new(plan),
            volatile: Volatile::new(plan.volatile_writes, sector_bytes, beside_bytes),
            delayed: Vec::new(),
            untold: BTreeSet::new(),
            submissions: 0,
            down: None,
            counts: FaultCounts::default(),
        };
        Self { inner, info, forgets, torn_bytes, state: Mutex::new(state) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, FaultState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn gone(&self, doing: &str) -> Error {
        let name = &self.inner.info().name;
        Error::new(ErrorKind::Gone, format!("{doing} on {name}: the device is down (injected)"))
    }

    pub(super) fn submit(
        self: &Arc<Self>,
        state: &mut FaultState,
        io: Io,
        due: &mut Due,
    ) -> IoFuture {
        if state.down.is_some() {
            state.counts.refused += 1;
            let error = self.gone(io.extent().0);
            return IoFuture::ready(Err(IoFailure { error, buffer: io.into_buffer() }));
        }
        let number = state.submissions;
        state.submissions += 1;
        let waiting = state.delayed.len();
        let fault = state.injector.decide(number, &io);
        let future = match fault {
            Some(Fault::Delay { submissions }) => self.delay(state, number, submissions, io),
            Some(Fault::Stall) => Self::stall(state, number, io),
            None => match state.injector.holds_back() {
                0 => IoFuture::ready(self.carry_out(state, io)),
                submissions => self.hold_back(state, number, submissions, io),
            },
            fault => IoFuture::ready(self.misbehave(state, fault, io, due)),
        };
        self.let_pass(state, waiting, due);
        future
    }

    /// Carries `io` out as `fault` says.
    fn misbehave(
        &self,
        state: &mut FaultState,
        fault: Option<Fault>,
        io: Io,
        due: &mut Due,
    ) -> IoResult {
        if let Io::WriteZeroes { bytes, .. } = io
            && matches!(fault, Some(Fault::TornWrite { .. } | Fault::TornSectors | Fault::BitFlip))
        {
            // These faults need bytes to damage.
            let empty = |failure: IoFailure| IoFailure { buffer: IoBuffer::empty(), ..failure };
            let written = self.misbehave(state, fault, as_write(io, bytes), due);
            return written.map(|_| IoBuffer::empty()).map_err(empty);
        }
        match fault {
            Some(Fault::Error) => {
                state.counts.errors += 1;
                Err(self.failed(io))
            }
            Some(Fault::FailedButDone) => {
                state.counts.failed_but_done += 1;
                let error = self.failure_of(&io);
                let done = self.carry_out(state, io);
                let buffer = done.unwrap_or_else(|failure| failure.buffer);
                Err(IoFailure { error, buffer })
            }
            Some(Fault::TornWrite { blocks, reported_done }) => {
                self.tear(state, io, blocks, reported_done)
            }
            Some(Fault::TornSectors) => self.tear_sectors(state, io),
            Some(Fault::LostWrite) => {
                state.counts.lost_writes += 1;
                Ok(io.into_buffer())
            }
            Some(Fault::BitFlip) => self.flip(state, io),
            Some(Fault::Crash) => self.die(state, Down::Crashed, io, due),
            Some(Fault::Gone) => self.die(state, Down::Gone, io, due),
            Some(Fault::Delay { .. } | Fault::Stall) | None => self.carry_out(state, io),
        }
    }

    fn failed(&self, io: Io) -> IoFailure {
        IoFailure { error: self.failure_of(&io), buffer: io.into_buffer() }
    }

    fn failure_of(&self, io: &Io) -> Error {
        let (verb, offset, bytes) = io.extent();
        let name = &self.inner.info().name;
        let context = format!("{verb} of {bytes} bytes at {offset} on {name}: failed (injected)");
        Error::new(ErrorKind::Io, context)
    }

    /// Whether no loss of power can undo it once it has completed.
    fn survives(&self, io: &Io) -> bool {
        !self.forgets || io.is_power_durable()
    }

    /// Carries out `io`, which was submitted just now.
    fn carry_out(&self, state: &mut FaultState, io: Io) -> IoResult {
        let covers = state.completed();
        self.carry_out_covering(state, io, &covers)
    }

    /// Carries `io` out on the device below, and records what a crash could undo. A flush makes the writes of `covers`
    /// durable.
    fn carry_out_covering(
        &self,
        state: &mut FaultState,
        io: Io,
        covers: &FlushCoverage,
    ) -> IoResult {
        let survives = self.survives(&io);
        let is_flush = matches!(io, Io::Flush);
        let (id, result) = self.write_noting(state, io);
        match id {
            Some(id) if survives => state.volatile.became_durable(id),
            _ if is_flush && result.is_ok() => state.volatile.flushed(covers),
            _ => {}
        }
        result
    }

    /// Carries `io` out and records it, without making it durable: it counts as in flight.
    fn write_noting(&self, state: &mut FaultState, io: Io) -> (Option<WriteId>, IoResult) {
        let recorded = match &io {
            Io::Write { offset, buffer, .. } => {
                let content = (&*bytes_of(buffer), buffer.metadata());
                state.volatile.record(&self.inner, *offset, content)
            }
            Io::WriteZeroes { offset, bytes } => {
                let zeroes = vec![0; usize::try_from(*bytes).unwrap_or(usize::MAX)];
                state.volatile.record(&self.inner, *offset, (&zeroes, None))
            }
            _ => Ok(None),
        };
        match recorded {
            Ok(id) => (id, self.inner.submit(io).wait()),
            Err(error) => (None, Err(IoFailure { error, buffer: io.into_buffer() })),
        }
    }

    fn tear(&self, state: &mut FaultState, io: Io, blocks: Option<u32>, done: bool) -> IoResult {
        let Io::Write { offset, buffer, handle, durability } = io else {
            return self.carry_out(state, io);
        };
        let block = self.inner.info().block_bytes as usize;
        let all = buffer.len() / block;
        let kept = blocks.map_or_else(|| state.injector.rng.usize(..all), |n| n as usize);
        if kept >= all {
            return self.carry_out(state, Io::Write { offset, buffer, handle, durability });
        }
        state.counts.torn_writes += 1;
        if kept > 0 {
            let mut first = room_for(self.inner.info(), kept * block);
            buffer.copy_out(0, first.as_mut_slice());
            copy_metadata(&buffer, &mut first);
            let torn =
                self.carry_out(state, Io::Write { offset, buffer: first, handle, durability });
            if let Err(failure) = torn {
                return Err(IoFailure { error: failure.error, buffer });
            }
        }
        if done {
            return Ok(buffer);
        }
        state.counts.errors += 1;
        Err(self.failed(Io::Write { offset, buffer, handle, durability }))
    }

    fn tear_sectors(&self, state: &mut FaultState, io: Io) -> IoResult {
        let Io::Write { offset, buffer, handle, durability } = io else {
            return self.carry_out(state, io);
        };
        let kept = state.injector.rng.usize(..buffer.len() / self.torn_bytes) * self.torn_bytes;
        let there = Io::Read { offset, buffer: room_for(self.inner.info(), buffer.len()) };
        let mut torn = match self.inner.submit(there).wait() {
            Ok(torn) => torn,
            Err(failure) => return Err(IoFailure { error: failure.error, buffer }),
        };
        buffer.copy_out(0, &mut torn.as_mut_slice()[..kept]);
        let mut first = room_for(self.inner.info(), kept);
        copy_metadata(&buffer, &mut first);
        if let (Some(kept), Some(torn)) = (first.metadata(), torn.metadata_mut()) {
            torn[..kept.len()].copy_from_slice(kept);
        }
        state.counts.torn_writes += 1;
        state.counts.errors += 1;
        // The caller gets the injected error, whatever the write below returns.
        let _failed = self.carry_out(state, Io::Write { offset, buffer: torn, handle, durability });
        Err(self.failed(Io::Write { offset, buffer, handle, durability }))
    }

    fn flip(&self, state: &mut FaultState, io: Io) -> IoResult {
        state.counts.bit_flips += 1;
        let (_, _, bytes) = io.extent();
        let bit = state.injector.rng.u64(..bytes * 8);
        let flip = |mut buffer: IoBuffer| {
            let at = usize::try_from(bit / 8).unwrap_or(0);
            if at < buffer.len() {
                let mut byte = [0];
                buffer.copy_out(at, &mut byte);
                buffer.copy_in(at, &[byte[0] ^ 1 << (bit % 8)]);
            }
            buffer
        };
        match io {
            Io::Write { offset, buffer, handle, durability } => {
                let buffer = flip(buffer);
                // Flip the bit back: the caller gets its bytes unchanged.
                match self.carry_out(state, Io::Write { offset, buffer, handle, durability }) {
                    Ok(buffer) => Ok(flip(buffer)),
                    Err(f) => Err(IoFailure { error: f.error, buffer: flip(f.buffer) }),
                }
            }
            io => self.carry_out(state, io).map(flip),
        }
    }

    /// Goes down while `io` is in flight.
    fn die(&self, state: &mut FaultState, how: Down, io: Io, due: &mut Due) -> IoResult {
        let error = self.gone(io.extent().0);
        let buffer = self.strand(state, io);
        match self.go_down(state, how, due) {
            Ok(()) => Err(IoFailure { error, buffer }),
            Err(error) => Err(IoFailure { error, buffer }),
        }
    }

    /// Handles a request that was in flight when power was lost: a write may have reached the device like any other
    /// unflushed one.
    pub(super) fn strand(&self, state: &mut FaultState, io: Io) -> IoBuffer {
        match io {
            Io::Write { .. } | Io::WriteZeroes { .. } => {
                let (_, result) = self.write_noting(state, io);
                result.unwrap_or_else(|failure| failure.buffer)
            }
            io => io.into_buffer(),
        }
    }

    pub(super) fn go_down(
        &self,
        state: &mut FaultState,
        how: Down,
        due: &mut Due,
    ) -> Result<(), Error> {
        state.down = Some(how);
        for delayed in std::mem::take(&mut state.delayed) {
            let (verb, buffer) = match delayed.held {
                HeldOutcome::Request(io, _) => (io.extent().0, self.strand(state, io)),
                HeldOutcome::Done { verb, result, .. } => {
                    (verb, result.unwrap_or_else(|failure| failure.buffer))
                }
            };
            let failure = IoFailure { error: self.gone(verb), buffer };
            due.push((delayed.completer, Err(failure)));
        }
        state.untold.clear();
        match how {
            Down::Crashed => state.counts.crashes += 1,
            Down::Gone => state.counts.gone += 1,
        }
        let FaultState { volatile, injector, counts, .. } = state;
        let fates = volatile.crash(&self.inner, &mut injector.rng)?;
        counts.kept_by_crash += fates.kept;
        counts.lost_by_crash += fates.lost;
        counts.torn_by_crash += fates.torn;
        Ok(())
    }

    fn delay(self: &Arc<Self>, state: &mut FaultState, number: u64, left: u32, io: Io) -> IoFuture {
        state.counts.delays += 1;
        let held = HeldOutcome::Request(io, state.completed());
        self.hold(state, number, left, held)
    }

    /// Lets later requests complete before `io`, which is carried out now or when it is released, by a seeded choice. A
    /// flush is carried out only when it is released.
    fn hold_back(
        self: &Arc<Self>,
        state: &mut FaultState,
        number: u64,
        left: u32,
        io: Io,
    ) -> IoFuture {
        state.counts.held_back += 1;
        let happens_later = matches!(io, Io::Flush) || state.injector.rng.bool();
        let held = if happens_later {
            HeldOutcome::Request(io, state.completed())
        } else {
            let (verb, survives) = (io.extent().0, self.survives(&io));
            let (id, result) = self.write_noting(state, io);
            state.untold.extend(id);
            HeldOutcome::Done { verb, result, write: id.map(|id| (id, survives)) }
        };
        self.hold(state, number, left, held)
    }

    fn hold(
        self: &Arc<Self>,
        state: &mut FaultState,
        number: u64,
        left: u32,
        held: HeldOutcome,
    ) -> IoFuture {
        let core: Weak<Self> = Arc::downgrade(self);
        let (future, completer) = IoFuture::pending_until_waited(move || {
            if let Some(core) = core.upgrade() {
                core.release(|delayed| delayed.number == number);
            }
        });
        state.delayed.push(DelayedRequest {
            number,
            submissions_left: left.max(1),
            held,
            completer,
        });
        future
    }

    /// Holds `io` until it is released: neither further submissions nor a blocked owner let it continue.
    fn stall(state: &mut FaultState, number: u64, io: Io) -> IoFuture {
        state.counts.stalls += 1;
        let (future, completer) = IoFuture::pending();
        let held = HeldOutcome::Request(io, state.completed());
        state.delayed.push(DelayedRequest { number, submissions_left: u32::MAX, held, completer });
        future
    }

    /// Counts one submission for the first `waiting` delayed requests, and carries out those whose delay is over.
    fn let_pass(&self, state: &mut FaultState, waiting: usize, due: &mut Due) {
        // A crash may have emptied the list in the meantime.
        let waiting = waiting.min(state.delayed.len());
        state.delayed[..waiting].iter_mut().for_each(|delayed| {
            // Stalled requests wait forever.
            if delayed.submissions_left != u32::MAX {
                delayed.submissions_left -= 1;
            }
        });
        self.carry_out_delayed(state, |delayed| delayed.submissions_left == 0, due);
    }

    pub(super) fn release(&self, which: impl Fn(&DelayedRequest) -> bool) {
        let mut due = Due::new();
        let mut state = self.lock();
        self.carry_out_delayed(&mut state, which, &mut due);
        drop(state);
        tell(due);
    }

    fn carry_out_delayed(
        &self,
        state: &mut FaultState,
        which: impl Fn(&DelayedRequest) -> bool,
        due: &mut Due,
    ) {
        if !state.delayed.iter().any(&which) {
            return;
        }
        let (over, rest) = std::mem::take(&mut state.delayed).into_iter().partition(which);
        state.delayed = rest;
        let over: Vec<DelayedRequest> = over;
        for delayed in over {
            let result = match delayed.held {
                HeldOutcome::Request(io, covers) => self.carry_out_covering(state, io, &covers),
                HeldOutcome::Done { result, write, .. } => {
                    state.told(write);
                    result
                }
            };
            due.push((delayed.completer, result));
        }
    }
}

/// A write of zeros as an ordinary write.
fn as_write(io: Io, bytes: u64) -> Io {
    let buffer = IoBuffer::zeroed(usize::try_from(bytes).unwrap_or(usize::MAX));
    Io::write(io.extent().1, buffer, PlacementHandle::DEFAULT)
}

/// Copies the metadata of the first blocks of a write. If the write has none, they stay zeros.
fn copy_metadata(from: &IoBuffer, into: &mut IoBuffer) {
    if let (Some(from), Some(into)) = (from.metadata(), into.metadata_mut()) {
        into.copy_from_slice(&from[..into.len()]);
    }
}

/// The bytes of a write, in one run.
fn bytes_of(buffer: &IoBuffer) -> Cow<'_, [u8]> {
    if !buffer.is_list() {
        return buffer.as_slice().into();
    }
    let mut bytes = vec![0; buffer.len()];
    buffer.copy_out(0, &mut bytes);
    bytes.into()
}

/// Completes requests. The lock must not be held.
pub(super) fn tell(due: Due) {
    due.into_iter().for_each(|(completer, result)| completer.complete(result));
}
