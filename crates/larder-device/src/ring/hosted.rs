//! A ring that one thread hosts for all its devices: who may touch it, and what becomes of requests.
//!
//! The *owner* is the thread that hosts, and after it its heir, a thread that only sees out what is
//! left. It alone sleeps in the ring. A *visitor* is a thread that drops a device of which requests
//! are under way here: it looks into the ring from time to time, for the owner may be busy.
//!
//! Invariants:
//!
//! 1. A piece whose address the kernel knows lies in a slot until its completion was fetched. If the
//!    ring breaks before that, pieces are leaked: the kernel never writes to memory that someone else
//!    has. Whether anybody still waits for the request makes no difference: a dropped future needs
//!    nobody's care, for the owner fetches all completions anyway.
//! 2. The queues and the slots are touched only under the lock of the core. It is the owner's but for
//!    visitors: it does not wait for it. The kernel is entered without it.
//! 3. A slot's index is the `user_data` of one operation at most, and there are fewer slots than
//!    entries of the submission queue: there is always room.
//! 4. Requests are completed, which runs foreign code, without the lock, from a queue that a call from
//!    inside that code goes on with.
//! 5. The owner sleeps only with the wake-up event armed. Whoever signals it sets `signalled` first; it is cleared
//!    when the event's completion is fetched, and the owner looks afterwards at what it was called for: if a
//!    caller finds it set, the completion is still to come. Between that and a sleep the owner looks once
//!    more: the call may be for what came after its last look. A visitor that fetched anything leaves the
//!    event armed and signalled: what it fetched, a call among it, may be what the owner is about to sleep
//!    for.
//! 6. There is an owner as long as anything is under way: a host that goes makes an heir of another
//!    thread, or sees all of it out itself.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::core::{Core, SentPiece, Taken};
use super::kernel::{Entered, Kernel, WAKE_EVENT, Wait};
use super::seat::Seat;
use super::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use super::sync::{Condvar, Mutex, MutexGuard, nap, pause};
use crate::file::options::FileOptions;
use crate::file::transfer::Pieces;
use crate::park::{Driver, Parker, is_host};

pub(crate) struct Hosted<K: Kernel> {
    kernel: K,
    core: Mutex<Core<K>>,
    /// Something has ended, for those who leave.
    ended: Condvar,
    /// The wake-up event was signalled, and its completion was not fetched.
    signalled: AtomicBool,
    counts: Counts,
}

/// Who is at work. See the top of this file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Owner,
    Visitor,
}

/// What was done, since the ring was made. The owner alone adds, but for visits.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) enters: AtomicU64,
    pub(super) sleeps: AtomicU64,
    pub(super) ended: AtomicU64,
}

/// What there was to fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reaped {
    /// Pieces of requests that have ended.
    pub(crate) ended: usize,
    /// The wake-up event was signalled: the owner looks at what it was called for before it sleeps.
    pub(crate) called: bool,
}

impl<K: Kernel> Hosted<K> {
    /// A ring with so many slots, which are fewer than the entries of its submission queue.
    pub(crate) fn new(kernel: K, books: K::Books, slots: usize) -> Arc<Self> {
        let core = Core::new(books, slots);
        Arc::new(Self {
            kernel,
            core: Mutex::new(core),
            ended: Condvar::new(),
            signalled: AtomicBool::new(false),
            counts: Counts::default(),
        })
    }

    /// Tells rings apart.
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    pub(crate) fn kernel(&self) -> &K {
        &self.kernel
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    fn lock(&self) -> MutexGuard<'_, Core<K>> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the books and at what the ring has of a device, if it has it.
    pub(crate) fn look<T>(
        &self,
        device: u64,
        look: impl FnOnce(&K::Books, &K::Target) -> T,
    ) -> Option<T> {
        let core = self.lock();
        let seat = core.seats.iter().flatten().find(|seat| seat.device == device)?;
        Some(look(&core.books, &seat.target))
    }

    /// Pieces that have not ended.
    pub(crate) fn pending(&self) -> usize {
        let core = self.lock();
        let seats = core.seats.iter().flatten();
        seats.map(|seat| seat.under_way + seat.waiting.len()).sum()
    }

    /// Takes the pieces of a request; the kernel hears of them when it is told. Called by the host.
    /// Whoever comes for the first time is asked to `sit` down. Gives them back if it cannot, or if the
    /// ring is broken.
    pub(crate) fn submit(
        self: &Arc<Self>,
        device: u64,
        options: &FileOptions,
        sit: impl FnOnce(&K, &mut K::Books) -> Option<K::Target>,
        pieces: Pieces,
    ) -> Result<(), Pieces> {
        let mut core = self.lock();
        let Some(at) = core.seat(device, options, &self.kernel, sit) else { return Err(pieces) };
        pieces.driven_by(Arc::clone(self) as Arc<dyn Driver>);
        let refused = core.take(&self.kernel, at, pieces);
        let intact = !matches!(refused, Taken::Broken);
        drop(core);
        drop(refused);
        if !intact {
            self.give_up();
        }
        self.complete(self.lock());
        Ok(())
    }

    /// Settles what has completed.
    pub(crate) fn reap(&self, role: Role) -> Reaped {
        let mut core = self.lock();
        let (mut seen, mut called, mut intact) = (0_usize, false, true);
        while intact && let Some((what, result)) = self.kernel.next(&mut core.books) {
            seen += 1;
            if what == WAKE_EVENT {
                (core.wake_event_armed, called) = (false, true);
                self.signalled.store(false, Ordering::SeqCst);
                continue;
            }
            intact = core.settle(&self.kernel, what, result);
        }
        if seen > 0 {
            intact = intact && core.fill(&self.kernel);
            self.ended.notify_all();
        }
        if !intact {
            drop(core);
            self.give_up();
            core = self.lock();
        } else if seen > 0 && role == Role::Visitor {
            // Invariant 5: the owner may be about to sleep for what was fetched here.
            self.arm(&mut core);
            drop(core);
            self.signalled.store(true, Ordering::SeqCst);
            self.kernel.wake();
            self.enter(Wait::No);
            core = self.lock();
        }
        Reaped { ended: self.complete(core), called }
    }

    /// Settles what has completed, or tells the kernel and sleeps until something has, somebody signals or
    /// the time is over. Tells the kernel in either case. Called by the owner. Returns how many pieces of
    /// requests have ended.
    pub(crate) fn turn(&self, timeout: Option<Duration>) -> usize {
        let reaped = self.reap(Role::Owner);
        if reaped.ended > 0 || reaped.called {
            // What others rang for may have come after the owner looked at it: no sleep.
            self.tell_all(Role::Owner);
            return reaped.ended;
        }
        self.sleep(timeout);
        self.reap(Role::Owner).ended
    }

    /// Completes the requests of what has ended.
    fn complete<'a>(&'a self, mut core: MutexGuard<'a, Core<K>>) -> usize {
        let mut count = 0;
        while let Some(piece) = core.ended.pop_front() {
            drop(core);
            drop(piece);
            count += 1;
            core = self.lock();
        }
        drop(core);
        if count > 0 {
            self.counts.ended.fetch_add(count as u64, Ordering::Relaxed);
        }
        count
    }

    /// Tells the kernel what is new, if anything is, and does not stop before it has taken all of it.
    pub(crate) fn tell_all(&self, role: Role) {
        while self.is_untold() {
            self.enter(Wait::No);
            if self.is_untold() {
                // It has no memory: completions give some back.
                self.reap(role);
                pause();
            }
        }
    }

    fn is_untold(&self) -> bool {
        let mut core = self.lock();
        !core.broken && self.kernel.untold(&mut core.books)
    }

    /// Tells the kernel what is new and sleeps until something has completed, somebody rings, or the
    /// time is over. Called by the owner. If it has fetched a call, it has looked since at whatever
    /// others ring for.
    fn sleep(&self, timeout: Option<Duration>) {
        let mut core = self.lock();
        let (broken, armed) = (core.broken, self.arm(&mut core));
        drop(core);
        self.counts.sleeps.fetch_add(1, Ordering::Relaxed);
        match (broken, armed) {
            (true, _) => {
                self.kernel.await_wake(timeout);
                self.signalled.store(false, Ordering::SeqCst);
            }
            (false, true) => self.enter(Wait::Completion(timeout)),
            // There is room at all times (invariant 3); if not, awake is right, if dear.
            (false, false) => self.enter(Wait::No),
        }
    }

    /// Whether the wake-up event will end the owner's sleep.
    fn arm(&self, core: &mut Core<K>) -> bool {
        if !core.wake_event_armed && !core.broken {
            core.wake_event_armed = self.kernel.arm_wake_event(&mut core.books);
        }
        core.wake_event_armed
    }

    /// Ends the owner's sleep, or its next one.
    pub(crate) fn signal(&self) {
        if !self.signalled.swap(true, Ordering::SeqCst) {
            self.kernel.wake();
        }
    }

    fn enter(&self, wait: Wait) {
        self.counts.enters.fetch_add(1, Ordering::Relaxed);
        if self.kernel.enter(wait) == Entered::Broken {
            self.give_up();
        }
    }

    /// The ring cannot be relied on: all requests fail, and the memory that the kernel may know is
    /// kept for ever.
    pub(crate) fn give_up(&self) {
        let mut core = self.lock();
        core.broken = true;
        let known: Vec<SentPiece> = core.slots.iter_mut().filter_map(Option::take).collect();
        Box::leak(std::mem::take(&mut core.ranges));
        for mut seat in std::mem::take(&mut core.seats).into_iter().flatten() {
            core.ended.extend(seat.waiting.take_all());
            self.kernel.abandon(seat.target);
        }
        self.ended.notify_all();
        drop(core);
        known.into_iter().for_each(|sent| sent.piece.leak());
        self.complete(self.lock());
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.lock().broken
    }

    /// Waits until nothing of `device` is under way and lets go of it. Nothing of it must be submitted
    /// any more. A visitor need not wait for the owner to look into the ring.
    pub(crate) fn leave(&self, device: u64, role: Role) {
        loop {
            // What the host has not told yet, nobody else may ever tell.
            self.tell_all(role);
            self.reap(role);
            let mut core = self.lock();
            let mine = |seat: &Option<Seat<_>>| seat.as_ref().is_some_and(|it| it.device == device);
            let Some(at) = core.seats.iter().position(mine) else { return };
            if core.seats[at].as_ref().is_some_and(Seat::is_idle) {
                if let Some(seat) = core.seats[at].take() {
                    self.kernel.release(&mut core.books, seat.target);
                }
                return;
            }
            match role {
                Role::Visitor => nap(&self.ended, core),
                Role::Owner => {
                    drop(core);
                    self.sleep(None);
                }
            }
        }
    }

    /// Sees to what is under way until nothing is, and closes the ring. The host has gone: this thread
    /// owns the ring.
    pub(crate) fn see_out(&self) {
        while !self.close() {
            self.sleep(None);
        }
    }

    /// Closes the ring if nothing is under way. Called by the owner when the host has gone.
    pub(crate) fn close(&self) -> bool {
        loop {
            self.tell_all(Role::Owner);
            self.reap(Role::Owner);
            let mut core = self.lock();
            if core.broken {
                return true;
            }
            if !core.seats.iter().flatten().all(Seat::is_idle) {
                return false;
            }
            if !core.wake_event_armed {
                for seat in std::mem::take(&mut core.seats).into_iter().flatten() {
                    self.kernel.release(&mut core.books, seat.target);
                }
                self.kernel.close(&mut core.books);
                // Somebody may have kept a way to ring.
                return true;
            }
            drop(core);
            // Takes the armed operation back.
            self.kernel.wake();
            self.enter(Wait::Completion(None));
        }
    }
}

impl<K: Kernel> Driver for Hosted<K> {
    fn drive(self: Arc<Self>, parker: &Arc<Parker>) {
        if !is_host(self.address()) || self.is_broken() {
            return parker.park();
        }
        let outer = parker.drives(Some(Arc::clone(&self) as Arc<dyn Driver>));
        // A waker may end the hosting.
        while !parker.is_woken() && is_host(self.address()) && !self.is_broken() {
            self.turn(None);
        }
        parker.drives(outer);
    }

    fn tell(&self) {
        self.tell_all(Role::Owner);
    }

    fn interrupt(&self) {
        self.signal();
    }

    fn reap(&self) {
        if is_host(self.address()) {
            Self::reap(self, Role::Owner);
        }
    }

    fn is_hosted(&self) -> bool {
        true
    }

    // Its owner sees to all requests (invariants 1 and 6).
    fn noted(&self, _more: bool) {}

    fn adopted(&self, _more: bool) {}

    fn left(&self) {}
}
