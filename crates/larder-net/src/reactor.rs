//! The loop of a thread: one thread serves its connections, its timers and its ring to the drives.
//!
//! In each turn it takes completions of the drives and messages of other threads, lets the service work, submits what
//! that has begun, and sleeps once for everything.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use larder_device::ring::{self, HostedRing};

use crate::mailbox::Mailbox;

/// What a thread serves.
pub trait Service {
    /// Messages of other threads.
    type Letter: Send + 'static;

    /// A message has come.
    fn receive(&mut self, letter: Self::Letter);

    /// Does the work of a turn: timers that are due, tasks that were woken. Returns the time until it must be called
    /// again, if nothing else happens.
    ///
    /// # Errors
    /// An error ends the thread.
    fn work(&mut self) -> io::Result<Option<Duration>>;

    /// The ring to the drives has submitted what the work has begun. Returns a time as [`work`](Self::work) does.
    fn submitted(&mut self, _ring: &HostedRing) -> Option<Duration> {
        None
    }

    /// Whether the thread ends.
    fn is_over(&self) -> bool;

    /// Watches a descriptor: when it is readable, the sleep ends.
    ///
    /// # Errors
    /// If the kernel does not take it.
    fn watch(&mut self, fd: BorrowedFd<'_>) -> io::Result<()>;

    /// Sleeps until there is an event of the service or of a watched descriptor, at most `at_most` (`None`: forever).
    ///
    /// # Errors
    /// If the kernel refuses to continue.
    fn sleep(&mut self, at_most: Option<Duration>) -> io::Result<()>;
}

/// The loop of the calling thread, with the thread's ring to the drives.
pub struct Reactor<L> {
    mailbox: Arc<Mailbox<L>>,
    /// Without a ring, threads of the devices complete the requests, and wake this thread.
    ring: Option<HostedRing>,
}

impl<L: Send + 'static> Reactor<L> {
    /// Makes the calling thread the owner of the mailbox, and of a ring if the kernel allows one.
    ///
    /// # Panics
    /// If the mailbox has an owner already.
    pub fn new(mailbox: Arc<Mailbox<L>>) -> Self {
        mailbox.belongs_here();
        Self { mailbox, ring: ring::host().ok() }
    }

    /// Runs until the service is over.
    ///
    /// # Errors
    /// The errors of the service.
    pub fn run(self, service: &mut impl Service<Letter = L>) -> io::Result<()> {
        let Self { mailbox, ring } = self;
        service.watch(mailbox.fd())?;
        if let Some(ring) = &ring {
            service.watch(ring.as_fd())?;
        }
        loop {
            if let Some(ring) = &ring {
                // Reap on every wake-up: the kernel may wake us before it marks the ring readable.
                ring.reap();
            }
            mailbox.take().into_iter().for_each(|letter| service.receive(letter));
            // The work that follows is what these wakes ask for.
            mailbox.take_woken();
            let mut due = service.work()?;
            if let Some(ring) = &ring {
                ring.submit();
                due = due.into_iter().chain(service.submitted(ring)).min();
            }
            if service.is_over() {
                return Ok(());
            }
            service.sleep(if mailbox.take_woken() { Some(Duration::ZERO) } else { due })?;
        }
    }
}
