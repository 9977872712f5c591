//! The event loop of a worker: one thread serves its connections, its timers and its flash ring.
//!
//! In each turn it takes completions of the drive, wakes the timers that are due, runs the tasks that were woken,
//! submits the reads that they have begun, and sleeps. A hit in DRAM is answered within the turn.

use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use larder_device::sockets::{Backend, Epoll, Socket, SocketBackend, SocketRing};
use larder_device::{Clock, ring};

use crate::caller::Caller;
use crate::config::ProtocolKind;
use crate::connection::{Connection, serve};
use crate::handshake;
use crate::mailbox::{Arrived, Letter, Mailbox};
use crate::protocol::Protocol;
use crate::protocol::memcached::Memcached;
use crate::protocol::resp::Resp;
use crate::shared::Shared;
use crate::worker::{RingWatch, Worker};

/// Runs until it is told to end, or until it drains and has no connections.
pub(crate) fn run(number: usize, shared: Arc<Shared>) -> io::Result<()> {
    let mailbox = Arc::clone(&shared.mailboxes[number]);
    let worker = Rc::new(Worker::new(number, shared));
    match sockets_of(&worker) {
        Some(sockets) => serve_with(&worker, &mailbox, sockets),
        None => serve_with(&worker, &mailbox, Epoll::new()?),
    }
}

/// A ring for sockets, if the configuration wants one and the kernel allows it. Without one the worker uses `epoll`.
fn sockets_of(worker: &Worker) -> Option<SocketRing> {
    match worker.shared.sockets {
        SocketBackend::Epoll => None,
        SocketBackend::IoUring => SocketRing::new().map_err(|error| {
            tracing::warn!(%error, "the kernel refuses io_uring for sockets; they are served by epoll");
        }).ok(),
    }
}

fn serve_with<B: Backend>(
    worker: &Rc<Worker>,
    mailbox: &Arc<Mailbox>,
    backend: B,
) -> io::Result<()> {
    let backend = Rc::new(backend);
    // Without a ring, threads of the device complete the flash reads and wake this thread.
    let ring = ring::host().ok();
    backend.watch(mailbox.fd())?;
    if let Some(ring) = &ring {
        backend.watch(ring.as_fd())?;
    }
    turn_until_the_end(worker, &backend, ring.as_ref(), mailbox)
}

fn turn_until_the_end<B: Backend>(
    worker: &Rc<Worker>,
    backend: &Rc<B>,
    ring: Option<&ring::HostedRing>,
    mailbox: &Arc<Mailbox>,
) -> io::Result<()> {
    let watch = RingWatch::new(Arc::clone(&worker.shared.rings[worker.number]));
    loop {
        if let Some(ring) = ring {
            // Reap on every wake-up: the kernel may wake us before it marks the ring readable.
            ring.reap();
        }
        let mut ends = false;
        for letter in mailbox.take() {
            match letter {
                Letter::Arrived(arrived) => welcome(worker, arrived, backend),
                Letter::UsersChanged => worker.idle.look_again(),
                Letter::Drain => worker.idle.drain(),
                Letter::End => ends = true,
            }
        }
        let now = worker.clock.monotonic();
        let mut due = [worker.clock.work(now), worker.idle.sweep(now)].into_iter().flatten().min();
        worker.tasks.run_all();
        due = due.into_iter().chain(worker.drop_unused(now, &**backend)).min();
        if let Some(ring) = ring {
            ring.submit();
            due = due.into_iter().chain(watch.look(ring, now)).min();
        }
        if ends || worker.idle.is_draining() && mailbox.load.load(Ordering::Relaxed) == 0 {
            // This closes the remaining connections.
            worker.tasks.drop_all();
            return Ok(());
        }
        backend.sleep(if mailbox.is_empty() { due } else { Some(Duration::ZERO) })?;
    }
}

/// Starts a task for a connection.
fn welcome<B: Backend>(worker: &Rc<Worker>, arrived: Arrived, backend: &Rc<B>) {
    let Arrived { fd, entrance, peer } = arrived;
    let leaves = Leaves(Rc::clone(worker));
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
        }
    });
}

/// Starts a task that serves a connection.
fn speak<S: Socket + 'static>(socket: S, protocol: ProtocolKind, caller: Caller, leaves: Leaves) {
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
    leaves: Leaves,
) {
    worker.tasks.spawn(async move {
        serve(connection).await;
        drop(leaves);
    });
}

/// Takes the connection off the worker's load when it is dropped.
struct Leaves(Rc<Worker>);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.shared.mailboxes[self.0.number].load.fetch_sub(1, Ordering::Relaxed);
    }
}
