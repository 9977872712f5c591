//! A ring that one thread hosts for all its devices: which thread may touch it, and how requests end.
//!
//! The *owner* is the thread that hosts, and after it its heir, a thread that only finishes the remaining requests.
//! Only the owner sleeps in the ring. A *visitor* is a thread that drops a device with requests in flight here. It
//! checks the ring from time to time, because the owner may be busy.
//!
//! Invariants:
//!
//! 1. A piece whose address the kernel knows lies in a slot until its completion was fetched. If the ring breaks before
//!    that, pieces are leaked, so that the kernel never writes to memory that has another owner. This holds whether or
//!    not a task still waits for the request: a dropped future needs no special care, because the owner fetches all
//!    completions anyway.
//! 2. The queues and the slots are touched only under the lock of the core. Except for visits only the owner takes that
//!    lock, so it does not wait for it. The kernel is entered without it.
//! 3. A slot's index is the `user_data` of one operation at most, and there are fewer slots than entries of the
//!    submission queue, so the queue always has room.
//! 4. Requests are completed without the lock, because that runs foreign code. They wait in a queue, which a call from
//!    inside that code continues to process.
//! 5. The owner sleeps only with the wake-up event armed. A thread that signals it sets `signalled` first. The flag is
//!    cleared when the event's completion is fetched, and only after that does the owner check what it was called for.
//!    So if a caller finds the flag set, the completion is still to come. Between fetching that completion and a sleep
//!    the owner checks once more, because the call may be for something that came after its last check. A visitor that
//!    fetched anything leaves the event armed and signalled: the owner may be about to sleep for what the visitor
//!    fetched, which may include a call.
//! 6. There is an owner as long as anything is in flight: a host that goes makes another thread its heir, or finishes
//!    all requests itself.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::core::{RingCore, SentPiece, SubmitOutcome};
use super::kernel::{EnterOutcome, Kernel, WAKE_EVENT, Wait};
use super::registration::Registration;
use super::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use super::sync::{Condvar, Mutex, MutexGuard, nap, pause};
use crate::driver::{Driver, Parker};
use crate::file_options::FileOptions;
use crate::park::is_host;
use crate::transfer::Pieces;

pub(crate) struct HostedCore<K: Kernel> {
    kernel: K,
    core: Mutex<RingCore<K>>,
    /// Notified when a piece has ended, for visitors.
    ended: Condvar,
    /// The wake-up event was signalled, and its completion was not fetched yet.
    signalled: AtomicBool,
    counts: RingCounts,
}

/// Which thread is at work. See the top of this file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Owner,
    Visitor,
}

/// Counters since the ring was made. Only the owner adds to them, except for visits.
#[derive(Default)]
pub(super) struct RingCounts {
    pub(super) enters: AtomicU64,
    pub(super) sleeps: AtomicU64,
    pub(super) ended: AtomicU64,
}

/// What a reap found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReapOutcome {
    /// Pieces of requests that have ended.
    pub(crate) ended: usize,
    /// The wake-up event was signalled: the owner must check what it was called for before it sleeps.
    pub(crate) called: bool,
}

impl<K: Kernel> HostedCore<K> {
    /// A ring with `slots` slots, fewer than the entries of its submission queue.
    pub(crate) fn new(kernel: K, tables: K::KernelTables, slots: usize) -> Arc<Self> {
        let core = RingCore::new(tables, slots);
        Arc::new(Self {
            kernel,
            core: Mutex::new(core),
            ended: Condvar::new(),
            signalled: AtomicBool::new(false),
            counts: RingCounts::default(),
        })
    }

    /// Identifies the ring.
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    pub(crate) fn kernel(&self) -> &K {
        &self.kernel
    }

    pub(super) fn counts(&self) -> &RingCounts {
        &self.counts
    }

    fn lock(&self) -> MutexGuard<'_, RingCore<K>> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the tables and the state of a device, if the device has joined the ring.
    pub(crate) fn look<T>(
        &self,
        device: u64,
        look: impl FnOnce(&K::KernelTables, &K::Target) -> T,
    ) -> Option<T> {
        let core = self.lock();
        let registration = core
            .registrations
            .iter()
            .flatten()
            .find(|registration| registration.device == device)?;
        Some(look(&core.tables, &registration.target))
    }

    /// Pieces that have not ended.
    pub(crate) fn pending(&self) -> usize {
        let core = self.lock();
        let registrations = core.registrations.iter().flatten();
        registrations.map(|registration| registration.under_way + registration.waiting.len()).sum()
    }

    /// Takes the pieces of a request; the kernel gets them at the next submission. Called by the host. A device that
    /// comes for the first time joins with `register`. Gives the pieces back if it cannot, or if the ring is broken.
    pub(crate) fn submit(
        self: &Arc<Self>,
        device: u64,
        options: &FileOptions,
        register: impl FnOnce(&K, &mut K::KernelTables) -> Option<K::Target>,
        pieces: Pieces,
    ) -> Result<(), Pieces> {
        let mut core = self.lock();
        let Some(at) = core.registration(device, options, &self.kernel, register) else {
            return Err(pieces);
        };
        pieces.driven_by(Arc::clone(self) as Arc<dyn Driver>);
        let refused = core.take(&self.kernel, at, pieces);
        let intact = !matches!(refused, SubmitOutcome::Broken);
        drop(core);
        drop(refused);
        if !intact {
            self.give_up();
        }
        self.complete(self.lock());
        Ok(())
    }

    /// Settles completions.
    pub(crate) fn reap(&self, role: Role) -> ReapOutcome {
        let mut core = self.lock();
        let (mut seen, mut called, mut intact) = (0_usize, false, true);
        while intact && let Some((what, result)) = self.kernel.next(&mut core.tables) {
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
        ReapOutcome { ended: self.complete(core), called }
    }

    /// Settles completions, or submits to the kernel and sleeps until there is a completion, a signal, or the time is
    /// over. Submits in either case. Called by the owner. Returns the number of pieces of requests that have ended.
    pub(crate) fn turn(&self, timeout: Option<Duration>) -> usize {
        let reaped = self.reap(Role::Owner);
        if reaped.ended > 0 || reaped.called {
            // A call may be for something that came after the owner's last check, so do not sleep.
            self.tell_all(Role::Owner);
            return reaped.ended;
        }
        self.sleep(timeout);
        self.reap(Role::Owner).ended
    }

    /// Completes the requests of ended pieces.
    fn complete<'a>(&'a self, mut core: MutexGuard<'a, RingCore<K>>) -> usize {
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

    /// Submits all new entries to the kernel, and does not stop before the kernel has taken all of them.
    pub(crate) fn tell_all(&self, role: Role) {
        while self.is_untold() {
            self.enter(Wait::No);
            if self.is_untold() {
                // The kernel has no memory: completions free some.
                self.reap(role);
                pause();
            }
        }
    }

    fn is_untold(&self) -> bool {
        let mut core = self.lock();
        !core.broken && self.kernel.untold(&mut core.tables)
    }

    /// Submits new entries to the kernel and sleeps until there is a completion, a signal, or the time is over. Called
    /// by the owner. If it has fetched a call, it has since checked everything that a call may be for.
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
            // There is always room (invariant 3). If not, staying awake is correct, if costly.
            (false, false) => self.enter(Wait::No),
        }
    }

    /// Arms the wake-up event. Returns whether it will end the owner's sleep.
    fn arm(&self, core: &mut RingCore<K>) -> bool {
        if !core.wake_event_armed && !core.broken {
            core.wake_event_armed = self.kernel.arm_wake_event(&mut core.tables);
        }
        core.wake_event_armed
    }

    /// Ends the owner's current or next sleep.
    pub(crate) fn signal(&self) {
        if !self.signalled.swap(true, Ordering::SeqCst) {
            self.kernel.wake();
        }
    }

    fn enter(&self, wait: Wait) {
        self.counts.enters.fetch_add(1, Ordering::Relaxed);
        if self.kernel.enter(wait) == EnterOutcome::Broken {
            self.give_up();
        }
    }

    /// Gives up a broken ring: all requests fail, and the memory that the kernel may know is kept forever.
    pub(crate) fn give_up(&self) {
        let mut core = self.lock();
        core.broken = true;
        let known: Vec<SentPiece> = core.slots.iter_mut().filter_map(Option::take).collect();
        Box::leak(std::mem::take(&mut core.ranges));
        for mut registration in std::mem::take(&mut core.registrations).into_iter().flatten() {
            core.ended.extend(registration.waiting.take_all());
            self.kernel.abandon(registration.target);
        }
        self.ended.notify_all();
        drop(core);
        known.into_iter().for_each(|sent| sent.piece.leak());
        self.complete(self.lock());
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.lock().broken
    }

    /// Waits until nothing of `device` is in flight and removes the device. It must submit nothing any more. A visitor
    /// does not depend on the owner to check the ring.
    pub(crate) fn leave(&self, device: u64, role: Role) {
        loop {
            // The host may never submit the entries that it has not submitted yet, and no other thread would.
            self.tell_all(role);
            self.reap(role);
            let mut core = self.lock();
            let mine = |registration: &Option<Registration<_>>| {
                registration.as_ref().is_some_and(|it| it.device == device)
            };
            let Some(at) = core.registrations.iter().position(mine) else { return };
            if core.registrations[at].as_ref().is_some_and(Registration::is_idle) {
                if let Some(registration) = core.registrations[at].take() {
                    self.kernel.release(&mut core.tables, registration.target);
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

    /// Finishes all requests in flight and closes the ring. The host has gone: this thread owns the ring.
    pub(crate) fn see_out(&self) {
        while !self.close() {
            self.sleep(None);
        }
    }

    /// Closes the ring if nothing is in flight. Called by the owner when the host has gone. Returns whether the ring is
    /// closed.
    pub(crate) fn close(&self) -> bool {
        loop {
            self.tell_all(Role::Owner);
            self.reap(Role::Owner);
            let mut core = self.lock();
            if core.broken {
                return true;
            }
            if !core.registrations.iter().flatten().all(Registration::is_idle) {
                return false;
            }
            if !core.wake_event_armed {
                for registration in std::mem::take(&mut core.registrations).into_iter().flatten() {
                    self.kernel.release(&mut core.tables, registration.target);
                }
                self.kernel.close(&mut core.tables);
                // The wake-up event must stay valid: a waker of this ring may still exist.
                return true;
            }
            drop(core);
            // End the armed operation.
            self.kernel.wake();
            self.enter(Wait::Completion(None));
        }
    }
}

impl<K: Kernel> Driver for HostedCore<K> {
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

    // The ring's owner takes care of all requests (invariants 1 and 6).
    fn noted(&self, _more: bool) {}

    fn adopted(&self, _more: bool) {}

    fn left(&self) {}
}
