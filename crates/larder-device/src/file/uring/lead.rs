//! Which thread fetches the completions of a ring: one at a time, preferably a thread that waits for a request.
//!
//! A thread that waits for a request becomes the leader: it sleeps in the kernel until something has completed, and
//! settles everything that has, other threads' requests too. Threads that come while another leads are followers: they
//! sleep until their request is settled or the lead passes to them. The ring's reaper, a thread of its own, leads only
//! when there are requests that no waiting thread takes care of (polled by a foreign executor, or dropped). It yields
//! the lead to a thread that comes to wait.
//!
//! Invariants:
//!
//! 1. `led` is true exactly while one thread leads, or has been promoted and will lead. A thread that stops leading
//!    promotes a follower. If there is none, no thread leads, and the reaper is notified if there is work for it.
//! 2. A follower that stops following after a wake-up either was not promoted and leaves the list, or was promoted and
//!    passes the lead on. Both happen under the lock of the leadership.
//! 3. The leader checks everything that could end its lead before it sleeps in the ring, and a thread that changes one
//!    of these afterwards wakes the ring. Other threads may settle completions as well (when they poll). If they
//!    consume a wake-up, or settle the last request of a ring that is being closed, they wake the ring again, because
//!    the leader may be about to sleep.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::port::Port;
use super::submit_mode::SubmitMode;
use crate::driver::{Driver, Parker};
use crate::file::join::join;
use crate::file_options::FileOptions;
use crate::plug;
use crate::ring::fixed::BufferGrant;
use crate::ring::wire::Wire;
use crate::transfer::Pieces;

pub(crate) struct Ring<W: Wire> {
    port: Port<W>,
    leadership: Mutex<Leadership>,
    /// Signals the reaper.
    work: Condvar,
    /// Pending requests that a waiting thread takes care of.
    noted: AtomicUsize,
    /// Pending requests that the reaper must take care of.
    adopted: AtomicUsize,
    closed: AtomicBool,
    reaper: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Leadership {
    led: bool,
    by_reaper: bool,
    followers: Vec<Arc<Parker>>,
    /// Noted requests may have lost their waiting thread: the reaper leads until there are none.
    left: bool,
}

thread_local! {
    /// Addresses of the rings that this thread leads: more than one if a waker waits in turn.
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

    /// Whether the kernel granted registered buffers, and the number of pieces that used them.
    pub(crate) fn fixed_buffers(&self) -> BufferGrant {
        self.port.fixed_buffers()
    }

    /// Simulates that the kernel refuses to run the ring.
    #[cfg(test)]
    pub(crate) fn break_down(&self) {
        self.port.give_up();
    }

    /// Simulates that the kernel has lost the registered buffers.
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

    /// Waits until no request is pending, and releases the file. Nothing must be submitted any more. Returns `false` if
    /// the ring was broken: the kernel may then still be working on the file.
    pub(crate) fn close(&self) -> bool {
        let was_closed = self.closed.swap(true, Ordering::SeqCst);
        debug_assert!(!was_closed, "a ring is closed once");
        self.call_reaper();
        if self.is_led_here() {
            // This thread settled a request whose waker dropped the device.
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

    /// Settles completions, or sleeps until there are some. Returns `false` if the ring is broken.
    fn turn(&self) -> bool {
        self.settle() || self.port.sleep()
    }

    /// Settles completions. Called by the leader.
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

    /// Whether there are requests that only the reaper takes care of.
    fn needs_reaper(&self, leadership: &Leadership) -> bool {
        self.adopted.load(Ordering::SeqCst) > 0
            || (leadership.left && self.noted.load(Ordering::SeqCst) > 0)
            || self.closed.load(Ordering::SeqCst)
    }

    /// Makes the reaper check for work.
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
            let leading = LeadGuard::new(self);
            // Without a follower to take the lead the reaper stays: the next request may need it too.
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

    /// Waits for the lead or for a wake-up. Returns `true` if this thread now leads.
    fn follow(&self, parker: &Arc<Parker>) -> bool {
        let mut leadership = self.lock();
        if !leadership.led {
            debug_assert!(
                leadership.followers.is_empty(),
                "a leader that stops promotes a follower (invariant 1)"
            );
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
            debug_assert!(leadership.led, "a promoted thread leads (invariant 1)");
            return true;
        }
        leadership.followers.retain(|follower| !follows(follower));
        false
    }
}

impl<W: Wire> Driver for Ring<W> {
    fn drive(self: Arc<Self>, parker: &Arc<Parker>) {
        if self.port.pending() == 0 {
            // The thread waits for something outside this ring.
            return parker.park();
        }
        // If this runs in a waker of a request that this thread settles, the thread leads already.
        let leading = if self.is_led_here() {
            None
        } else if self.follow(parker) {
            Some(LeadGuard::new(&self))
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
        // Pass on a wake-up that was meant for the leader (invariant 3).
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

/// The lead. Dropping it, also during a panic, passes it on.
struct LeadGuard<'a, W: Wire>(&'a Ring<W>);

impl<'a, W: Wire> LeadGuard<'a, W> {
    fn new(ring: &'a Ring<W>) -> Self {
        debug_assert!(!ring.is_led_here(), "a thread takes the lead of a ring once");
        let _ = LEADS.try_with(|leads| leads.borrow_mut().push(ring.address()));
        Self(ring)
    }
}

impl<W: Wire> Drop for LeadGuard<'_, W> {
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
