//! The service of a worker: its connections, its timers and what else it does in each turn of the
//! [loop](larder_net::Reactor). A hit in DRAM is answered within the turn.

#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use larder_device::Clock;
use larder_device::ring::HostedRing;
use larder_net::sockets::{Backend, Epoll, Socket};
use larder_net::{LoadGuard, Reactor, Service};

use crate::caller::Caller;
use crate::config::ProtocolKind;
use crate::connection::{Connection, serve};
use crate::handshake;
use crate::mailbox::{AcceptedConnection, Letter, Mailbox};
use crate::protocol::Protocol;
use crate::protocol::memcached::Memcached;
use crate::protocol::resp::{Resp, notices};
use crate::shared::ServerState;
use crate::watchers::CloseReason;
use crate::worker::{RingWatch, Worker};

/// Runs until it is told to end, or until it drains and has no connections.
pub(crate) fn run(number: usize, shared: Arc<ServerState>) -> io::Result<()> {
    let reactor = Reactor::new(Arc::clone(&shared.mailboxes[number]));
    let worker = Rc::new(Worker::new(number, shared));
    if number == 0 {
        worker.spawn(notices::publish(Rc::clone(&worker)));
    }
    match worker.shared.sockets.ring() {
        Some(sockets) => serve_with(worker, reactor, sockets),
        None => serve_with(worker, reactor, Epoll::new()?),
    }
}

fn serve_with<B: Backend>(
    worker: Rc<Worker>,
    reactor: Reactor<Letter>,
    backend: B,
) -> io::Result<()> {
    let watch = RingWatch::new(Arc::clone(&worker.shared.rings[worker.number]));
    let mailbox = Arc::clone(&worker.shared.mailboxes[worker.number]);
    let backend = Rc::new(backend);
    let mut service =
        WorkerService { worker, mailbox, backend, watch, now: Duration::ZERO, ends: false };
    reactor.run(&mut service)?;
    // This closes the remaining connections.
    service.worker.tasks.drop_all();
    Ok(())
}

/// What the thread of a worker serves.
struct WorkerService<B> {
    worker: Rc<Worker>,
    mailbox: Arc<Mailbox>,
    backend: Rc<B>,
    watch: RingWatch,
    /// When the turn began, by the clock of the worker.
    now: Duration,
    ends: bool,
}

impl<B: Backend> Service for WorkerService<B> {
    type Letter = Letter;

    fn receive(&mut self, letter: Letter) {
        match letter {
            Letter::Arrived(arrived) => welcome(&self.worker, arrived, &self.backend),
            Letter::UsersChanged => self.worker.idle.look_again(),
            Letter::Drain => self.worker.idle.drain(),
            Letter::End => self.ends = true,
        }
    }

    fn work(&mut self) -> io::Result<Option<Duration>> {
        let worker = &self.worker;
        self.now = worker.clock.monotonic();
        let due = [worker.clock.work(self.now), worker.idle.sweep(self.now)];
        worker.tasks.run_all();
        let unused = worker.drop_unused(self.now, &*self.backend);
        Ok(due.into_iter().chain([unused]).flatten().min())
    }

    fn submitted(&mut self, ring: &HostedRing) -> Option<Duration> {
        self.watch.look(ring, self.now)
    }

    /// It is told to end, or it drains and has no connections.
    fn is_over(&self) -> bool {
        self.ends
            || self.worker.idle.is_draining() && self.mailbox.load.load(Ordering::Relaxed) == 0
    }

    fn watch(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.backend.watch(fd)
    }

    fn sleep(&mut self, at_most: Option<Duration>) -> io::Result<()> {
        self.backend.sleep(at_most)
    }
}

/// Starts a task for a connection.
fn welcome<B: Backend>(worker: &Rc<Worker>, arrived: AcceptedConnection, backend: &Rc<B>) {
    let AcceptedConnection { fd, entrance, peer } = arrived;
    let leaves = LoadGuard::new(Arc::clone(&worker.shared.mailboxes[worker.number]));
    let socket = match backend.attach(fd) {
        Ok(socket) => socket,
        Err(error) => return tracing::warn!(%error, "a connection could not be taken in"),
    };
    let protocol = entrance.protocol;
    let mut caller = Caller::new(Rc::clone(worker), (peer, protocol), entrance.tenant.as_ref());
    if !entrance.is_tls {
        return speak(socket, protocol, caller, leaves);
    }
    let Some(tls) = worker.shared.tls() else { return };
    // The connection is served by another task, which owns nothing of what the handshake needs.
    worker.tasks.spawn(async move {
        if let Some(socket) = handshake::accept(socket, &tls, &mut caller).await {
            speak(socket, protocol, caller, leaves);
        } else {
            caller.closes_for(CloseReason::Error);
        }
    });
}

/// Starts a task that serves a connection.
fn speak<S: Socket + 'static>(
    socket: S,
    protocol: ProtocolKind,
    caller: Caller,
    leaves: LoadGuard<Letter>,
) {
    let worker = Rc::clone(&caller.worker);
    match protocol {
        ProtocolKind::Memcached => {
            let protocol = Memcached::default();
            begin(&worker, Box::new(Connection::new(socket, protocol, caller)), leaves);
        }
        ProtocolKind::Resp => {
            let protocol = Resp::default();
            begin(&worker, Box::new(Connection::new(socket, protocol, caller)), leaves);
        }
    }
}

fn begin<S: Socket + 'static, P: Protocol + 'static>(
    worker: &Rc<Worker>,
    connection: Box<Connection<S, P>>,
    leaves: LoadGuard<Letter>,
) {
    worker.tasks.spawn(async move {
        serve(connection).await;
        drop(leaves);
    });
}
