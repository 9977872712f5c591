//! Messages from other threads to one that sleeps over its sockets, and how they end its sleep.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

thread_local! {
    /// Its address tells the thread from all others that live; [`std::thread::current`] would count references.
    static HERE: u8 = const { 0 };
}

fn this_thread() -> usize {
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

/// Messages to one thread, its owner, which sleeps until [`Inbox::fd`] is readable.
#[derive(Debug)]
pub struct Inbox<L> {
    messages: Mutex<Vec<L>>,
    /// An eventfd, readable when there are messages or a signal.
    event: OwnedFd,
    /// Whether `event` is readable already, or about to be.
    is_signalled: AtomicBool,
    /// See [`HERE`].
    owner: OnceLock<usize>,
    /// Connections that the owner has, or that are on their way to it.
    pub load: AtomicUsize,
}

impl<L> Inbox<L> {
    /// An empty inbox without an owner.
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            messages: Mutex::default(),
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            is_signalled: AtomicBool::new(false),
            owner: OnceLock::new(),
            load: AtomicUsize::new(0),
        })
    }

    /// Makes the calling thread the owner.
    ///
    /// # Panics
    /// If there is an owner already.
    pub fn belongs_here(&self) {
        self.owner.set(this_thread()).expect("an inbox has one owner");
    }

    /// Adds a message, and ends the owner's sleep.
    pub fn send(&self, message: L) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        self.signal();
    }

    /// Takes all messages. A message that is sent from now on signals again.
    pub fn take(&self) -> Vec<L> {
        // A sender sets the flag behind its message, and then ends the sleep: what is missed here is taken then.
        if !self.is_signalled.load(Ordering::Relaxed) {
            return Vec::new();
        }
        // An empty eventfd with the flag set means that a sender has not written yet. Keep the flag, or the eventfd
        // stays readable and no sleep lasts.
        if rustix::io::read(&self.event, &mut [0; 8]).is_ok() {
            // Clear the flag before taking messages, so that a sender that comes later signals again.
            self.is_signalled.store(false, Ordering::SeqCst);
        }
        std::mem::take(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends the owner's current or next sleep.
    pub fn signal(&self) {
        if !self.is_signalled.swap(true, Ordering::SeqCst) {
            let _ = rustix::io::write(&self.event, &1_u64.to_le_bytes());
        }
    }

    /// Like [`Inbox::signal`], but does nothing on the owner's thread, which checks before it sleeps.
    pub fn signal_from_elsewhere(&self) {
        if self.owner.get() != Some(&this_thread()) {
            self.signal();
        }
    }

    /// The descriptor that the owner sleeps for: readable when there is something to take.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn is_ready(inbox: &Inbox<u8>) -> bool {
        let fd = inbox.fd();
        let mut fds = [PollFd::new(&fd, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
    }

    #[test]
    fn messages_and_signals_of_others_end_the_sleep_and_its_own_do_not() {
        let inbox = Inbox::new().unwrap();
        inbox.belongs_here();
        inbox.signal_from_elsewhere();
        assert!(!is_ready(&inbox));
        std::thread::scope(|scope| {
            scope.spawn(|| inbox.signal_from_elsewhere());
        });
        assert!(is_ready(&inbox));
        assert!(inbox.take().is_empty() && !is_ready(&inbox));
        (1..=2).for_each(|message| inbox.send(message));
        assert!(is_ready(&inbox));
        assert_eq!(inbox.take(), [1, 2]);
        assert!(!is_ready(&inbox));
        inbox.send(3);
        assert!(is_ready(&inbox), "what is sent after a look signals again");
    }

    #[test]
    fn a_look_between_the_two_halves_of_a_signal_leaves_nothing_readable_behind() {
        let inbox: Inbox<u8> = Inbox::new().unwrap();
        inbox.is_signalled.store(true, Ordering::SeqCst);
        assert!(inbox.take().is_empty());
        let _ = rustix::io::write(&inbox.event, &1_u64.to_le_bytes());
        assert!(is_ready(&inbox));
        inbox.take();
        assert!(!is_ready(&inbox));
    }
}
