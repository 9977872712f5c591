//! The service of a worker: its connections and its timers in the [loop](larder_net::Reactor) of a thread.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use larder_device::{Clock, LoopClock};
use larder_net::sockets::{Backend, Epoll, SocketBackend};
use larder_net::tls::Tls;
use larder_net::{LoadGuard, Reactor, Service, Tasks};

use super::connection::serve;
use super::exports::Exports;
use super::worker::Worker;

/// Messages to a worker.
pub(super) type Mailbox = larder_net::Mailbox<Letter>;

/// A message to a worker.
pub(super) enum Letter {
    /// A connection, which is already counted in the load.
    Arrived(OwnedFd),
    /// Stop reading, answer the requests in flight, and end.
    Drain,
    /// End at once.
    End,
}

/// Runs until it is told to end and its connections have ended.
pub(super) fn run(
    mailbox: &Arc<Mailbox>,
    exports: Exports,
    tls: Option<Tls>,
    sockets: SocketBackend,
) -> io::Result<()> {
    let reactor = Reactor::new(Arc::clone(mailbox));
    let worker = Worker::new(exports, tls, LoopClock::new(mailbox.waker()));
    match sockets.ring() {
        Some(backend) => serve_with(reactor, worker, mailbox, backend),
        None => serve_with(reactor, worker, mailbox, Epoll::new()?),
    }
}

fn serve_with<B: Backend>(
    reactor: Reactor<Letter>,
    worker: Worker,
    mailbox: &Arc<Mailbox>,
    backend: B,
) -> io::Result<()> {
    let (mailbox, tasks) = (Arc::clone(mailbox), Tasks::new(Arc::clone(mailbox)));
    let (worker, backend) = (Rc::new(worker), Rc::new(backend));
    let mut service = WorkerService { worker, mailbox, tasks, backend, ends: false };
    reactor.run(&mut service)?;
    // This closes the remaining connections.
    service.tasks.drop_all();
    Ok(())
}

/// What the thread of a worker serves.
struct WorkerService<B> {
    worker: Rc<Worker>,
    mailbox: Arc<Mailbox>,
    /// The connections.
    tasks: Tasks<Letter>,
    backend: Rc<B>,
    ends: bool,
}

impl<B: Backend> Service for WorkerService<B> {
    type Letter = Letter;

    fn receive(&mut self, letter: Letter) {
        match letter {
            Letter::Arrived(fd) => self.welcome(fd),
            Letter::Drain => self.worker.drain(),
            Letter::End => self.ends = true,
        }
    }

    fn work(&mut self) -> io::Result<Option<Duration>> {
        let due = self.worker.clock.work(self.worker.clock.monotonic());
        self.tasks.run_all();
        Ok(due)
    }

    /// It is told to end, or it drains and has no connections.
    fn is_over(&self) -> bool {
        self.ends || self.worker.is_draining() && self.mailbox.load.load(Ordering::Relaxed) == 0
    }

    fn watch(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.backend.watch(fd)
    }

    fn sleep(&mut self, at_most: Option<Duration>) -> io::Result<()> {
        self.backend.sleep(at_most)
    }
}

impl<B: Backend> WorkerService<B> {
    fn welcome(&self, fd: OwnedFd) {
        let leaves = LoadGuard::new(Arc::clone(&self.mailbox));
        let attached = fd.try_clone().and_then(|look| Ok((self.backend.attach(fd)?, look)));
        match attached {
            Ok((socket, look)) => {
                let worker = Rc::clone(&self.worker);
                self.tasks.spawn(async move {
                    serve(socket, look, worker).await;
                    drop(leaves);
                });
            }
            Err(error) => tracing::warn!(%error, "a connection could not be taken in"),
        }
    }
}
