//! The threads of a server: one that accepts, several that serve, and their end.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::mailbox::Mailbox;
use crate::sockets::{ListeningSocket, Peer, Stop, wait_for};

/// Pause before the next `accept` after the system has run out of descriptors or memory.
const PAUSE: Duration = Duration::from_millis(50);
/// How often the caller of [`Threads::end`] gets the number of open connections.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// The threads of a server and their mailboxes.
///
/// [`Threads::end`] must be called before it is dropped: dropping it leaves the threads running.
#[derive(Debug)]
pub struct Threads<L> {
    stop: Arc<Stop>,
    mailboxes: Vec<Arc<Mailbox<L>>>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

/// How the threads ended.
pub type Joined = Result<(), Option<io::Error>>;

impl<L> Threads<L> {
    /// Mailboxes for this number of serving threads. No thread runs yet.
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub fn new(workers: usize) -> io::Result<Self> {
        let mailboxes = (0..workers).map(|_| Mailbox::new().map(Arc::new));
        let mailboxes = mailboxes.collect::<io::Result<_>>()?;
        Ok(Self { stop: Arc::new(Stop::new()?), mailboxes, threads: Vec::new() })
    }

    /// The mailboxes of the serving threads.
    pub fn mailboxes(&self) -> &[Arc<Mailbox<L>>] {
        &self.mailboxes
    }

    /// Ends the accepting thread when it is set.
    pub fn stop(&self) -> &Arc<Stop> {
        &self.stop
    }

    /// Starts a thread.
    ///
    /// # Errors
    /// If the system refuses it.
    pub fn spawn(
        &mut self,
        name: String,
        run: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        self.threads.push(std::thread::Builder::new().name(name).spawn(run)?);
        Ok(())
    }

    /// The number of open connections.
    pub fn connections(&self) -> usize {
        connections(&self.mailboxes)
    }

    /// Ends all threads. Stops accepting and sends each serving thread a `drain`: it stops reading, and answers what
    /// has come. Threads that have not ended within `drain_time` get an `end`. `waits` gets the number of open
    /// connections once a second. A second call does nothing.
    ///
    /// # Errors
    /// The error of a thread; `None` if it has panicked.
    pub fn end(
        &mut self,
        (drain, end): (impl Fn() -> L, impl Fn() -> L),
        drain_time: Duration,
        mut waits: impl FnMut(usize),
    ) -> Joined {
        self.stop.set();
        self.mailboxes.iter().for_each(|mailbox| mailbox.send(drain()));
        let deadline = Instant::now() + drain_time;
        let mut report = Instant::now() + REPORT_EVERY;
        while Instant::now() < deadline && !self.threads.iter().all(JoinHandle::is_finished) {
            std::thread::sleep(Duration::from_millis(1));
            if Instant::now() >= report {
                report += REPORT_EVERY;
                waits(self.connections());
            }
        }
        self.mailboxes.iter().for_each(|mailbox| mailbox.send(end()));
        let joined = self.threads.drain(..).map(|thread| match thread.join() {
            Ok(ended) => ended.map_err(Some),
            Err(_) => Err(None),
        });
        // Wait for all of them, also after an error.
        joined.fold(Ok(()), Result::and)
    }
}

/// Accepts connections until `stop` is set, and gives each to `admit` with the number of its listener.
///
/// We do not use `SO_REUSEPORT`: the kernel distributes by a hash, and 50 connections on two threads rarely split
/// evenly. `admit` usually chooses a thread by its load ([`send_to_least_loaded`]).
///
/// # Errors
/// The error of the wait.
pub fn accept_until(
    stop: &Stop,
    listeners: &[&ListeningSocket],
    mut admit: impl FnMut(usize, OwnedFd, Peer),
) -> io::Result<()> {
    while !stop.is_set() {
        for number in wait_for(listeners, stop)? {
            accept_all(listeners[number], |fd, peer| admit(number, fd, peer));
        }
    }
    Ok(())
}

fn accept_all(listener: &ListeningSocket, mut admit: impl FnMut(OwnedFd, Peer)) {
    loop {
        match listener.accept() {
            Ok(Some((fd, peer))) => admit(fd, peer),
            Ok(None) => return,
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                tracing::warn!(%error, "no connection can be accepted; is the limit of open files too low?");
                return std::thread::sleep(PAUSE);
            }
        }
    }
}

/// Gives a connection to the thread with the fewest, and counts it in its load.
///
/// # Panics
/// If there are no threads.
pub fn send_to_least_loaded<L>(mailboxes: &[Arc<Mailbox<L>>], letter: L) {
    let fewest = mailboxes.iter().min_by_key(|mailbox| mailbox.load.load(Ordering::Relaxed));
    let mailbox = fewest.expect("there is a thread");
    mailbox.load.fetch_add(1, Ordering::Relaxed);
    mailbox.send(letter);
}

/// Takes a connection off the load of its thread when it is dropped.
pub struct LoadGuard<L>(Arc<Mailbox<L>>);

impl<L> LoadGuard<L> {
    /// For a connection that is counted already ([`send_to_least_loaded`]).
    pub fn new(mailbox: Arc<Mailbox<L>>) -> Self {
        Self(mailbox)
    }
}

impl<L> Drop for LoadGuard<L> {
    fn drop(&mut self) {
        self.0.load.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The number of connections that threads have, or that are on their way to them.
pub fn connections<L>(mailboxes: &[Arc<Mailbox<L>>]) -> usize {
    mailboxes.iter().map(|mailbox| mailbox.load.load(Ordering::Relaxed)).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[derive(Debug, PartialEq)]
    enum Letter {
        Arrived,
        Drain,
        End,
    }

    fn end(
        threads: &mut Threads<Letter>,
        drain_time: Duration,
        waits: impl FnMut(usize),
    ) -> Joined {
        threads.end((|| Letter::Drain, || Letter::End), drain_time, waits)
    }

    /// A thread that ends by itself when it drains, or only at the end.
    fn start(threads: &mut Threads<Letter>, number: usize, last: Letter) {
        let mailbox = Arc::clone(&threads.mailboxes()[number]);
        let run = move || {
            while !mailbox.take().contains(&last) {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        };
        threads.spawn(format!("test-{number}"), run).unwrap();
    }

    #[test]
    fn threads_that_drain_end_before_the_drain_time() {
        let mut threads = Threads::new(2).unwrap();
        (0..2).for_each(|number| start(&mut threads, number, Letter::Drain));
        let begun = Instant::now();
        end(&mut threads, Duration::from_secs(60), drop).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_thread_that_does_not_drain_is_ended_after_the_drain_time() {
        let mut threads = Threads::new(1).unwrap();
        start(&mut threads, 0, Letter::End);
        threads.mailboxes()[0].load.store(3, Ordering::Relaxed);
        let (begun, mut reports) = (Instant::now(), Vec::new());
        end(&mut threads, Duration::from_millis(1500), |open| reports.push(open)).unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(1500));
        assert_eq!(reports, [3], "one report a second");
    }

    #[test]
    fn an_error_of_a_thread_is_reported_after_all_have_ended() {
        let mut threads: Threads<Letter> = Threads::new(0).unwrap();
        let (ended, has_ended) = mpsc::channel();
        threads.spawn("fails".to_owned(), || Err(io::Error::other("broken"))).unwrap();
        let late = move || {
            std::thread::sleep(Duration::from_millis(50));
            ended.send(()).map_err(io::Error::other)
        };
        threads.spawn("late".to_owned(), late).unwrap();
        let error = end(&mut threads, Duration::ZERO, drop).unwrap_err();
        assert_eq!(error.unwrap().to_string(), "broken");
        assert_eq!(has_ended.try_recv(), Ok(()));
        assert!(end(&mut threads, Duration::ZERO, drop).is_ok(), "there are no threads left");
    }

    #[test]
    fn connections_go_to_the_thread_with_the_fewest() {
        let threads = Threads::new(3).unwrap();
        threads.mailboxes()[0].load.store(2, Ordering::Relaxed);
        (0..4).for_each(|_| send_to_least_loaded(threads.mailboxes(), Letter::Arrived));
        let loads = threads.mailboxes().iter().map(|mailbox| mailbox.load.load(Ordering::Relaxed));
        assert_eq!(loads.collect::<Vec<_>>(), [2, 2, 2]);
        assert_eq!(threads.connections(), 6);
        assert_eq!(threads.mailboxes()[1].take().len(), 2);
    }
}
