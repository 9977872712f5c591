//! One ring and the pieces in flight through it. Any thread may submit and reap.
//!
//! Invariants:
//!
//! 1. A piece whose address the kernel knows lies in [`PieceSlots`] until its completion was reaped.
//! 2. If the ring breaks before that, or a port is dropped, the pieces are leaked, so that the kernel never writes to
//!    memory that has another owner.
//! 3. The two queues that are shared with the kernel are touched only under the lock of the slots. `io_uring_enter` is
//!    called without it: the kernel serialises its callers itself.
//! 4. A slot's index is the `user_data` of one operation at most.
//! 5. The kernel is soon told of every entry in the submission queue: by the thread that put it there, at the latest
//!    when it unplugs, or, if the entry was handed over, by the leader. The leader checks the queue, under the lock,
//!    before it declares that it sleeps or stops leading. A thread that hands over sees, under the lock, which of these
//!    the leader has declared, and then wakes it or enters the kernel itself.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use io_uring::{IoUring, Probe, cqueue, opcode, squeue, types};

use super::submit_mode::{Leader, SubmitMode};
use super::wake_event::WakeEvent;
use crate::file_options::FileOptions;
use crate::ring::fixed::{BufferGrant, FixedBuffers};
use crate::ring::wire::{Link, Range, Wire};
use crate::transfer::waiting::WaitingPieces;
use crate::transfer::{Piece, PieceStep, Pieces};

/// `user_data` of an operation that only wakes a thread.
const WAKE: u64 = u64::MAX;

/// `user_data` of the read on the eventfd. Every other value is the index of a slot.
const HANDED_OVER: u64 = u64::MAX - 1;

const _: () = assert!(
    (u16::MAX as u64) < HANDED_OVER && HANDED_OVER < WAKE,
    "no slot's index is taken for a wake-up"
);

/// Room in the submission queue for operations that only wake a thread.
const WAKES: u32 = 8;

/// With at most this number of pieces in flight, a submitter does not wake the leader, but enters the kernel itself.
const FEW: usize = 4;

/// Pause of a thread that must retry because the kernel is out of memory.
const UNTIL_MEMORY: Duration = Duration::from_micros(50);

/// Pieces that are settled under one hold of the lock.
const BATCH: usize = 16;

pub(crate) struct Port<W: Wire> {
    ring: IoUring<W::Submission, W::Completion>,
    wire: Arc<W>,
    slots: Mutex<PieceSlots>,
    /// Pieces in slots and in the queue, to be read without the lock.
    pending: AtomicUsize,
}

/// The pieces in flight, and those that wait for a free slot.
struct PieceSlots {
    pieces: Vec<Option<Piece>>,
    free: Vec<usize>,
    /// Ranges that the commands in the slots point to, in addition to the pieces' memory.
    ranges: Box<[Range]>,
    fixed: FixedBuffers,
    waiting: WaitingPieces,
    /// `None` once the port is closed or broken; it then takes no more requests.
    target: Option<FileTarget>,
    leader: Leader,
    /// Recent maximum of pieces in flight. It falls by one at each sleep of the leader, so that a short lull does not
    /// look like low load.
    lately_under_way: usize,
    /// The submission queue has an entry that was handed over and that the kernel was not told of yet.
    handed_over: bool,
    wake_event: Option<WakeEvent>,
    /// Number of coming non-waiting calls that pretend that the kernel is out of memory.
    #[cfg(test)]
    refusals: u32,
}

/// The file, as the ring knows it.
struct FileTarget {
    file: Arc<File>,
    registered: bool,
}

impl<W: Wire> Port<W> {
    /// A ring for `file`. Fails if the kernel's io_uring lacks one of our operations.
    pub(crate) fn new(wire: &Arc<W>, file: &Arc<File>, options: &FileOptions) -> io::Result<Self> {
        let depth = usize::from(options.queue_depth);
        let ring = make_ring::<W>(u32::from(options.queue_depth) + WAKES)?;
        let registered = ring.submitter().register_files(&[file.as_raw_fd()]).is_ok();
        let slots = PieceSlots {
            pieces: (0..depth).map(|_| None).collect(),
            free: (0..depth).rev().collect(),
            ranges: vec![Range::default(); depth].into(),
            fixed: FixedBuffers::new(&ring.submitter(), options.registered_buffers),
            waiting: WaitingPieces::new(options),
            target: Some(FileTarget { file: Arc::clone(file), registered }),
            leader: Leader::Absent,
            lately_under_way: 0,
            handed_over: false,
            wake_event: None,
            #[cfg(test)]
            refusals: 0,
        };
        let wire = Arc::clone(wire);
        Ok(Self { ring, wire, slots: Mutex::new(slots), pending: AtomicUsize::new(0) })
    }

    pub(crate) fn registered_file(&self) -> bool {
        self.lock().target.as_ref().is_some_and(|target| target.registered)
    }

    /// Whether the kernel granted registered buffers, and the number of pieces that used them.
    pub(crate) fn fixed_buffers(&self) -> BufferGrant {
        self.lock().fixed.granted()
    }

    #[cfg(test)]
    pub(crate) fn lose_buffers(&self) {
        self.ring.submitter().unregister_buffers().unwrap();
    }

    fn lock(&self) -> MutexGuard<'_, PieceSlots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pieces that have not ended.
    pub(crate) fn pending(&self) -> usize {
        self.pending.load(Ordering::SeqCst)
    }

    /// Hands the pieces of a request to the kernel as far as there are slots; the others wait.
    pub(crate) fn submit(&self, pieces: Pieces, submit_mode: SubmitMode) {
        let mut slots = self.lock();
        if slots.target.is_none() {
            drop(slots);
            // Dropping unsettled pieces fails their request.
            pieces.for_each(drop);
            return;
        }
        let aged = slots.waiting.take_aged();
        let pieces = match slots.waiting.admit(pieces) {
            Ok(pieces) => pieces,
            Err(refused) => {
                self.count(&slots);
                drop(slots);
                drop((aged, refused));
                return;
            }
        };
        let (mut intact, mut placed) = (true, false);
        let mut now = None;
        for piece in pieces {
            if slots.waiting.is_empty() && !slots.free.is_empty() {
                intact &= self.place(&mut slots, piece);
                placed = true;
            } else {
                slots.waiting.push(*now.get_or_insert_with(Instant::now), piece);
            }
        }
        self.count(&slots);
        slots.lately_under_way = slots.lately_under_way.max(slots.under_way());
        let is_left = intact
            && match submit_mode {
                SubmitMode::Caller => false,
                SubmitMode::Leader => placed && slots.hand_over(),
                SubmitMode::Unplugged => true,
            };
        // If the kernel has no memory for an entry now, a thread that waits in the ring submits it later, and so does
        // an awake leader before it sleeps. A leader that is asleep wakes only for a completion, so this thread must
        // retry.
        let alone = submit_mode == SubmitMode::Leader && slots.leader == Leader::Asleep;
        drop(slots);
        drop(aged);
        if placed && !is_left {
            while self.enter_once(0, intact) == EnterOutcome::Later && alone {
                std::thread::sleep(UNTIL_MEMORY);
            }
        }
    }

    /// Tells the kernel of new entries in the queue, for a thread that will wait in the ring.
    pub(crate) fn tell(&self) {
        self.enter(0, true);
    }

    fn count(&self, slots: &PieceSlots) {
        debug_assert_eq!(
            slots.under_way(),
            slots.pieces.iter().flatten().count(),
            "a slot is free, or holds what the kernel knows (invariant 1)"
        );
        let pending = slots.under_way() + slots.waiting.len();
        self.pending.store(pending, Ordering::SeqCst);
    }

    /// Tells the kernel of new entries and sleeps until something has completed. The calling thread is the leader from
    /// then on. Returns `false` if the ring is broken.
    pub(crate) fn sleep(&self) -> bool {
        let mut slots = self.lock();
        debug_assert_ne!(slots.leader, Leader::Asleep, "one thread sleeps in a ring");
        self.arm(&mut slots);
        slots.leader = Leader::Asleep;
        slots.lately_under_way = slots.lately_under_way.saturating_sub(1);
        slots.handed_over = false;
        drop(slots);
        let intact = self.enter(1, true);
        self.lock().leader = Leader::Awake;
        intact
    }

    /// The leader stops leading.
    pub(crate) fn stop_leading(&self) {
        let mut slots = self.lock();
        slots.leader = Leader::Absent;
        let handed_over = std::mem::take(&mut slots.handed_over);
        drop(slots);
        if handed_over {
            self.enter(0, true);
        }
    }

    #[cfg(test)]
    pub(super) fn refuse(&self, calls: u32) {
        self.lock().refusals = calls;
    }

    /// Whether the leader sleeps, and whether there is a wake-up event.
    #[cfg(test)]
    pub(super) fn leader(&self) -> (bool, bool) {
        let slots = self.lock();
        (slots.leader == Leader::Asleep, slots.wake_event.is_some())
    }

    /// Ends the read on the eventfd, when nothing else is pending.
    fn disarm(&self) {
        while self.lock().wake_event.as_ref().is_some_and(WakeEvent::ring) && self.enter(1, true) {
            self.reap();
        }
    }

    /// Arms the wake-up event for the thread that is about to sleep.
    fn arm(&self, slots: &mut PieceSlots) {
        let Some(wake_event) = slots.wake_event.as_mut().filter(|wake_event| !wake_event.armed)
        else {
            return;
        };
        let Some(count) = &mut wake_event.count else { return };
        let fd = types::Fd(wake_event.eventfd.as_raw_fd());
        let read = opcode::Read::new(fd, count.as_mut_ptr(), 8).build().user_data(HANDED_OVER);
        // SAFETY: the queue is ours under the lock of the slots (invariant 3). The eight bytes are on the heap and stay
        // there until the read was reaped, or are leaked. The descriptor is open as long, because every thread that may
        // enter the ring holds the port.
        wake_event.armed = unsafe { self.ring.submission_shared().push(&read.into()) }.is_ok();
    }

    /// Returns `false` if the ring is broken.
    fn enter(&self, completions: usize, intact: bool) -> bool {
        self.enter_once(completions, intact) != EnterOutcome::Broken
    }

    fn enter_once(&self, completions: usize, intact: bool) -> EnterOutcome {
        #[cfg(test)]
        if completions == 0 && self.lock().take_refusal() {
            return EnterOutcome::Later;
        }
        let outcome = match intact {
            true => self.ring.submit_and_wait(completions).map(drop),
            false => Err(io::Error::other("the ring takes nothing")),
        };
        match outcome.map_err(|e| e.kind()) {
            Ok(()) | Err(io::ErrorKind::Interrupted) => EnterOutcome::Told,
            // Out of resources until completions are reaped, or for a moment.
            Err(io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy) => EnterOutcome::Later,
            Err(_) => {
                self.give_up();
                EnterOutcome::Broken
            }
        }
    }

    /// Wakes the thread that sleeps in [`Port::sleep`].
    pub(crate) fn wake(&self) {
        let slots = self.lock();
        let entry = W::Submission::from(opcode::Nop::new().build().user_data(WAKE));
        // SAFETY: the queue is ours under the lock of the slots (invariant 3); the operation has no memory. If the
        // queue is full, its other entries wait for the kernel, and the thread wakes when they complete.
        let _ = unsafe { self.ring.submission_shared().push(&entry) };
        drop(slots);
        self.enter(0, true);
    }

    /// Settles completions.
    pub(crate) fn reap(&self) -> ReapOutcome {
        let mut reaped = ReapOutcome { any: false, woken: false };
        loop {
            // Pieces are dropped without the lock: dropping completes requests, which runs foreign code.
            let mut ended: [Option<Piece>; BATCH] = [const { None }; BATCH];
            let mut slots = self.lock();
            // SAFETY: the queue is ours under the lock of the slots (invariant 3).
            let mut queue = unsafe { self.ring.completion_shared() };
            let mut count = 0;
            let mut seen = 0;
            let mut intact = true;
            let mut pushed = false;
            while intact
                && count < BATCH
                && let Some(entry) = queue.next().map(Into::<cqueue::Entry>::into)
            {
                seen += 1;
                reaped.woken |= [WAKE, HANDED_OVER].contains(&entry.user_data());
                match self.settle(&mut slots, &entry) {
                    SettleOutcome::Nothing => {}
                    SettleOutcome::Again => pushed = true,
                    SettleOutcome::Ended(piece) => {
                        ended[count] = Some(piece);
                        count += 1;
                    }
                    SettleOutcome::Broken => intact = false,
                }
            }
            drop(queue);
            if seen == 0 {
                return reaped;
            }
            reaped.any = true;
            let aged = slots.waiting.take_aged();
            while intact
                && !slots.free.is_empty()
                && let Some(piece) = slots.waiting.pop()
            {
                intact = self.place(&mut slots, piece);
                pushed = true;
            }
            self.count(&slots);
            drop(slots);
            if pushed || !intact {
                self.enter(0, intact);
            }
            drop((ended, aged));
        }
    }

    fn settle(&self, slots: &mut PieceSlots, entry: &cqueue::Entry) -> SettleOutcome {
        if entry.user_data() == WAKE {
            return SettleOutcome::Nothing;
        }
        if entry.user_data() == HANDED_OVER {
            if let Some(wake_event) = &mut slots.wake_event {
                wake_event.armed = false;
            }
            return SettleOutcome::Nothing;
        }
        let Ok(slot) = usize::try_from(entry.user_data()) else { return SettleOutcome::Broken };
        let Some(piece) = slots.pieces.get_mut(slot).and_then(Option::as_mut) else {
            // After a break the kernel may still report pieces that were given up.
            return if slots.target.is_some() {
                SettleOutcome::Broken
            } else {
                SettleOutcome::Nothing
            };
        };
        let step = match slots.fixed.is_refused(piece, entry.result()) {
            true => PieceStep::Again,
            false => piece.settle(self.wire.outcome(piece, entry.result())),
        };
        match step {
            PieceStep::Again if self.push(slots, slot) => SettleOutcome::Again,
            PieceStep::Again => SettleOutcome::Broken,
            PieceStep::End => {
                debug_assert!(!slots.free.contains(&slot), "a slot is given up once (invariant 4)");
                slots.free.push(slot);
                slots.pieces[slot].take().map_or(SettleOutcome::Nothing, SettleOutcome::Ended)
            }
        }
    }

    /// Puts `piece` into a free slot and into the submission queue.
    fn place(&self, slots: &mut PieceSlots, piece: Piece) -> bool {
        let Some(slot) = slots.free.pop() else { return false };
        // The kernel may write to the memory of a piece in a slot.
        assert!(slots.pieces[slot].is_none(), "a free slot is empty (invariant 1)");
        slots.pieces[slot] = Some(piece);
        self.push(slots, slot)
    }

    /// Puts the piece in `slot` into the submission queue.
    fn push(&self, slots: &mut PieceSlots, slot: usize) -> bool {
        let Some(target) = &slots.target else { return false };
        let Some(piece) = slots.pieces[slot].as_mut() else { return false };
        let (file, flags) = match target.registered {
            true => (0, squeue::Flags::FIXED_FILE),
            false => (target.file.as_raw_fd(), squeue::Flags::empty()),
        };
        let range = &mut slots.ranges[slot];
        let entry = slots.fixed.entry(&self.ring.submitter(), piece);
        let link = Link { file: types::Fd(file), flags, slot: slot as u64, entry, range };
        let entry = self.wire.describe(piece, link);
        // SAFETY: the queue is ours under the lock of the slots (invariant 3). The entry's memory belongs to the piece
        // or the slot, which keep it until the completion is reaped, or are leaked (invariants 1 and 2). The engine
        // holds the file open as long as any thread may enter the ring.
        unsafe { self.ring.submission_shared().push(&entry) }.is_ok()
    }

    /// Gives up a broken ring: all requests fail, and the memory that the kernel may know is kept forever.
    pub(crate) fn give_up(&self) {
        let mut slots = self.lock();
        slots.target = None;
        let known: Vec<Piece> = slots.pieces.iter_mut().filter_map(Option::take).collect();
        Box::leak(std::mem::take(&mut slots.ranges));
        slots.free = (0..slots.pieces.len()).rev().collect();
        let waiting = slots.waiting.take_all();
        self.count(&slots);
        drop(slots);
        known.into_iter().for_each(Piece::leak);
        drop(waiting);
    }

    /// Closes the port to new requests and releases the file. Called when nothing is pending. Returns `false` if the
    /// ring was broken: the kernel may then still be working on the file.
    pub(crate) fn close(&self) -> bool {
        let Some(target) = self.lock().target.take() else { return false };
        debug_assert_eq!(self.pending(), 0, "the caller has waited for all requests");
        self.disarm();
        self.lock().fixed.close(&self.ring.submitter());
        if target.registered {
            // Otherwise the kernel would hold the file until it has torn the ring down.
            let _ = self.ring.submitter().unregister_files();
        }
        true
    }
}

impl PieceSlots {
    #[cfg(test)]
    fn take_refusal(&mut self) -> bool {
        let refused = self.refusals > 0;
        self.refusals -= u32::from(refused);
        refused
    }

    fn under_way(&self) -> usize {
        self.pieces.len() - self.free.len()
    }

    /// Leaves new entries of the queue to the leader. Returns `false` if there is none, or if it should not be woken.
    fn hand_over(&mut self) -> bool {
        let leader = self.leader;
        if leader == Leader::Absent || (leader == Leader::Asleep && self.lately_under_way <= FEW) {
            return false;
        }
        if self.wake_event.is_none() {
            // This time the caller enters the kernel itself. The wake-up event is armed from the leader's next sleep
            // on.
            self.wake_event = WakeEvent::new();
            return false;
        }
        if leader == Leader::Asleep {
            if !self.wake_event.as_ref().is_some_and(WakeEvent::ring) {
                return false;
            }
            // One wake-up is enough: the leader takes every entry in the queue.
            self.leader = Leader::Awake;
        }
        debug_assert_eq!(
            self.leader,
            Leader::Awake,
            "the leader will look at the queue (invariant 5)"
        );
        self.handed_over = true;
        true
    }
}

/// Outcome of a call of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EnterOutcome {
    Told,
    /// Entries that the kernel did not take stay in the queue for the next call.
    Later,
    Broken,
}

/// What a reap found.
pub(crate) struct ReapOutcome {
    pub(crate) any: bool,
    /// A wake-up ([`Port::wake`], or a hand-over) was among the completions.
    pub(crate) woken: bool,
}

/// Outcome of settling one completion.
enum SettleOutcome {
    Nothing,
    /// There is a new entry in the submission queue.
    Again,
    Ended(Piece),
    Broken,
}

impl Drop for PieceSlots {
    fn drop(&mut self) {
        if self.pieces.iter().any(Option::is_some) {
            Box::leak(std::mem::take(&mut self.ranges));
        }
        self.pieces.drain(..).flatten().for_each(Piece::leak);
    }
}

fn make_ring<W: Wire>(entries: u32) -> io::Result<IoUring<W::Submission, W::Completion>> {
    let ring = IoUring::<W::Submission, W::Completion>::builder().build(entries)?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    if W::NEEDED.iter().all(|&code| probe.is_supported(code)) {
        Ok(ring)
    } else {
        Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel's io_uring is too old"))
    }
}
