//! Who fetches the completions of a ring: one thread at a time, a waiter if there is one.
//!
//! A thread that waits for a request takes the lead: it sleeps in the kernel until something has
//! completed and settles whatever that is, others' requests too. Those who come while another
//! leads follow: they sleep until their request is settled or the lead is passed on to them. The
//! ring's reaper, a thread of its own, leads only when there are requests that no waiter sees to
//! (polled by a foreign executor, or dropped) and lets a waiter lead who comes.
//!
//! Invariants:
//!
//! 1. `led` is true exactly while one thread leads, or has been promoted and will lead. Whoever
//!    stops leading promotes a follower; if there is none, nobody leads, and the reaper is told if
//!    there is something for it.
//! 2. A follower that stops following, being woken, either was not promoted, and leaves the list,
//!    or was, and passes the lead on. Both happen under the lock of the leadership.
//! 3. The thread that leads looks at everything that could end its stay before it sleeps in the
//!    ring, and whoever changes that afterwards wakes the ring. Others may settle completions as
//!    well (when they poll); if they come upon a wake-up, or settle the last request of a ring that
//!    is being closed, they wake the ring again, for the thread that leads may be about to sleep.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::port::Port;
use super::submit_mode::SubmitMode;
use crate::file::join::join;
use crate::file::options::FileOptions;
use crate::file::transfer::Pieces;
use crate::park::{Driver, Parker};
use crate::plug;
use crate::ring::fixed::Granted;
use crate::ring::wire::Wire;

pub(crate) struct Ring<W: Wire> {
    port: Port<W>,
    leadership: Mutex<Leadership>,
    /// For the reaper.
    work: Condvar,
    /// Pending requests that a thread sees to as long as it waits.
    noted: AtomicUsize,
    /// Pending requests that the reaper must see to.
    adopted: AtomicUsize,
    closed: AtomicBool,
    reaper: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Leadership {
    led: bool,
    by_reaper: bool,
    followers: Vec<Arc<Parker>>,
    /// Noted requests may have been left behind: the reaper leads until there are none.
    left: bool,
}

thread_local! {
    /// The rings that this thread leads, by address: more than one if a waker waits in turn.
    static LEADS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

impl<W: Wire> Ring<W> {
    pub(crate) fn new(
        wire: &Arc<W>,
        file: &Arc<File>,
        options: &FileOptions,
    ) -> io::Result<Arc<Self>> {
        let ring = Arc::new(Self {
            port: Port::new(wire, file, options)?,
            leadership: Mutex::default(),
            work: Condvar::new(),
            noted: AtomicUsize::new(0),
            adopted: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            reaper: Mutex::new(None),
        });
        let theirs = Arc::clone(&ring);
        let builder = std::thread::Builder::new().name("larder-ring".to_owned());
        let reaper = builder.spawn(move || theirs.reap_for_others())?;
        *ring.reaper.lock().unwrap_or_else(PoisonError::into_inner) = Some(reaper);
        Ok(ring)
    }

    pub(crate) fn submit(self: &Arc<Self>, pieces: Pieces, submit_mode: SubmitMode) {
        pieces.driven_by(Arc::clone(self) as Arc<dyn Driver>);
        self.port.submit(pieces, submit_mode);
        if submit_mode == SubmitMode::Unplugged {
            plug::hold(Arc::clone(self) as Arc<dyn Driver>);
        }
    }

    pub(crate) fn registered_file(&self) -> bool {
        self.port.registered_file()
    }

    /// What the kernel granted of registered buffers, and the pieces that used it.
    pub(crate) fn fixed_buffers(&self) -> Granted {
        self.port.fixed_buffers()
    }

    /// What happens when the kernel refuses to run the ring.
    #[cfg(test)]
    pub(crate) fn break_down(&self) {
        self.port.give_up();
    }

    /// What happens when the kernel has lost the buffers that it was told of.
    #[cfg(test)]
    pub(crate) fn lose_buffers(&self) {
        self.port.lose_buffers();
    }

    /// Whether a thread leads and sleeps in the ring, or is about to.
    #[cfg(test)]
    pub(super) fn leader_sleeps(&self) -> bool {
        self.port.leader().0
    }

    #[cfg(test)]
    pub(super) fn refuse(&self, calls: u32) {
        self.port.refuse(calls);
    }

    #[cfg(test)]
    pub(super) fn has_wake_event(&self) -> bool {
        self.port.leader().1
    }

    /// Waits until nothing is pending and lets go of the file. Nothing must be submitted any more.
    /// `false`: the ring was broken, and the kernel may still be working on the file.
    pub(crate) fn close(&self) -> bool {
        let was_closed = self.closed.swap(true, Ordering::SeqCst);
        debug_assert!(!was_closed, "a ring is closed once");
        self.call_reaper();
        if self.is_led_here() {
            // A waker of a request that this thread settles drops the device.
            while self.port.pending() > 0 && self.turn() {}
        }
        // The reaper may sleep in the ring with nothing left to wait for.
        self.port.wake();
        let reaper = self.reaper.lock().unwrap_or_else(PoisonError::into_inner).take();
        reaper.into_iter().for_each(join);
        self.port.close()
    }

    fn lock(&self) -> MutexGuard<'_, Leadership> {
        self.leadership.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn is_led_here(&self) -> bool {
        LEADS.try_with(|leads| leads.borrow().contains(&self.address())).unwrap_or(false)
    }

    /// Settles what has completed, or sleeps until something has. `false`: the ring is broken.
    fn turn(&self) -> bool {
        self.settle() || self.port.sleep()
    }

    /// Settles what has completed; called by the thread that leads.
    fn settle(&self) -> bool {
        let reaped = self.port.reap();
        if reaped.any && self.is_finished() {
            self.call_reaper();
        }
        reaped.any
    }

    fn is_finished(&self) -> bool {
        self.closed.load(Ordering::SeqCst) && self.port.pending() == 0
    }

    /// Whether there are requests that only the reaper sees to.
    fn needs_reaper(&self, leadership: &Leadership) -> bool {
        self.adopted.load(Ordering::SeqCst) > 0
            || (leadership.left && self.noted.load(Ordering::SeqCst) > 0)
            || self.closed.load(Ordering::SeqCst)
    }

    /// Lets the reaper look at what there is to do.
    fn call_reaper(&self) {
        drop(self.lock());
        self.work.notify_one();
    }

    fn reap_for_others(&self) {
        loop {
            let mut leadership = self.lock();
            while !self.is_finished() && (leadership.led || !self.needs_reaper(&leadership)) {
                leadership = self.work.wait(leadership).unwrap_or_else(PoisonError::into_inner);
            }
            if self.is_finished() {
                return;
            }
            (leadership.led, leadership.by_reaper) = (true, true);
            drop(leadership);
            let leading = Leading::new(self);
            // With nobody to lead in its place it stays: the next request may need it, too.
            while self.turn() && !self.is_finished() {
                let mut leadership = self.lock();
                leadership.left &= self.noted.load(Ordering::SeqCst) > 0;
                if !leadership.followers.is_empty() && !self.needs_reaper(&leadership) {
                    break;
                }
            }
            drop(leading);
        }
    }

    /// Waits for the lead or for a wake-up. `true`: this thread leads.
    fn follow(&self, parker: &Arc<Parker>) -> bool {
        let mut leadership = self.lock();
        if !leadership.led {
            debug_assert!(leadership.followers.is_empty(), "who stops promotes (invariant 1)");
            leadership.led = true;
            return true;
        }
        let follows = |follower: &Arc<Parker>| Arc::ptr_eq(follower, parker);
        debug_assert!(!leadership.followers.iter().any(follows), "a thread follows once");
        leadership.followers.push(Arc::clone(parker));
        let idle = leadership.by_reaper && !self.needs_reaper(&leadership);
        drop(leadership);
        if idle {
            self.port.wake();
        }
        parker.park();
        let mut leadership = self.lock();
        if parker.take_promotion() {
            debug_assert!(leadership.led, "who is promoted leads (invariant 1)");
            return true;
        }
        leadership.followers.retain(|follower| !follows(follower));
        false
    }
}

impl<W: Wire> Driver for Ring<W> {
    fn drive(self: Arc<Self>, parker: &Arc<Parker>) {
        if self.port.pending() == 0 {
            // What the thread waits for is not here.
            return parker.park();
        }
        // A waker of a request that this thread settles may wait in turn: it leads already.
        let leading = if self.is_led_here() {
            None
        } else if self.follow(parker) {
            Some(Leading::new(&self))
        } else {
            return;
        };
        let outer = parker.drives(Some(Arc::clone(&self) as Arc<dyn Driver>));
        while !parker.is_woken() && self.turn() {}
        parker.drives(outer);
        drop(leading);
    }

    fn tell(&self) {
        self.port.tell();
    }

    fn interrupt(&self) {
        self.port.wake();
    }

    fn reap(&self) {
        if self.is_led_here() {
            self.settle();
            return;
        }
        let reaped = self.port.reap();
        let finished = reaped.any && self.is_finished();
        if finished {
            self.call_reaper();
        }
        // What was meant for the thread that leads is not lost on us (invariant 3).
        if (reaped.woken || finished) && self.lock().led {
            self.port.wake();
        }
    }

    fn noted(&self, more: bool) {
        count(&self.noted, more);
    }

    fn adopted(&self, more: bool) {
        count(&self.adopted, more);
        if more && !self.lock().led {
            self.work.notify_one();
        }
    }

    fn left(&self) {
        if self.noted.load(Ordering::SeqCst) > 0 {
            let mut leadership = self.lock();
            leadership.left = true;
            let led = leadership.led;
            drop(leadership);
            if !led {
                self.work.notify_one();
            }
        }
    }
}

fn count(counter: &AtomicUsize, more: bool) {
    if more {
        counter.fetch_add(1, Ordering::SeqCst);
    } else {
        let before = counter.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(before > 0, "what is counted down was counted up");
    }
}

/// The lead. Dropping it passes it on, after a panic too.
struct Leading<'a, W: Wire>(&'a Ring<W>);

impl<'a, W: Wire> Leading<'a, W> {
    fn new(ring: &'a Ring<W>) -> Self {
        debug_assert!(!ring.is_led_here(), "a thread takes the lead of a ring once");
        let _ = LEADS.try_with(|leads| leads.borrow_mut().push(ring.address()));
        Self(ring)
    }
}

impl<W: Wire> Drop for Leading<'_, W> {
    fn drop(&mut self) {
        let ring = self.0;
        let address = ring.address();
        let _ = LEADS.try_with(|leads| leads.borrow_mut().retain(|led| *led != address));
        ring.port.stop_leading();
        let mut leadership = ring.lock();
        debug_assert!(leadership.led, "it is true while one thread leads (invariant 1)");
        leadership.by_reaper = false;
        if let Some(next) = leadership.followers.pop() {
            next.promote();
            drop(leadership);
            next.unpark();
            return;
        }
        leadership.led = false;
        let call = ring.needs_reaper(&leadership);
        drop(leadership);
        if call {
            ring.work.notify_one();
        }
    }
}
