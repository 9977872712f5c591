//! A worker: one thread that runs its connections, its timers, and its ring to the devices.
//!
//! In each turn it reaps the completions of the devices, polls the woken connections, submits what they have begun to
//! the kernel, and sleeps once for all of them.

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, Stream};
use larder_device::sockets::{Backend, Epoll, SocketBackend, SocketRing};
use larder_device::{Clock, LoopClock, ring};
use larder_tls::Tls;

use super::connection::serve;
use super::exports::Exports;
use super::worker::Worker;
use crate::mailbox;

/// Messages to a worker.
pub(super) type Mailbox = mailbox::Mailbox<Letter>;

/// A message to a worker.
pub(super) enum Letter {
    /// A connection, which is already counted in the load.
    Arrived(OwnedFd),
    /// Stop reading, answer the requests in flight, and end.
    Drain,
    /// End at once.
    End,
}

type Connections = FuturesUnordered<Pin<Box<dyn Future<Output = ()>>>>;

/// Runs until it is told to end and its connections have ended.
pub(super) fn run(
    mailbox: &Arc<Mailbox>,
    exports: Exports,
    tls: Option<Tls>,
    sockets: SocketBackend,
) -> io::Result<()> {
    mailbox.belongs_here();
    let worker = Worker::new(exports, tls, LoopClock::new(mailbox.waker()));
    match ring_for(sockets) {
        Some(backend) => turn_until_the_end(Rc::new(worker), mailbox, &Rc::new(backend)),
        None => turn_until_the_end(Rc::new(worker), mailbox, &Rc::new(Epoll::new()?)),
    }
}

/// A ring for sockets, if it is wanted and available.
fn ring_for(sockets: SocketBackend) -> Option<SocketRing> {
    match sockets {
        SocketBackend::Epoll => None,
        SocketBackend::IoUring => SocketRing::new().ok(),
    }
}

fn turn_until_the_end<B: Backend>(
    worker: Rc<Worker>,
    mailbox: &Arc<Mailbox>,
    backend: &Rc<B>,
) -> io::Result<()> {
    // If the kernel refuses a ring, threads complete the requests to devices, and wake this thread.
    let ring = ring::host().ok();
    backend.watch(mailbox.fd())?;
    if let Some(ring) = &ring {
        backend.watch(ring.as_fd())?;
    }
    let waker = mailbox.waker();
    let mut connections = Connections::new();
    loop {
        if let Some(ring) = &ring {
            // Reap on every wake-up: the kernel may wake us before it marks the ring readable.
            ring.reap();
        }
        for letter in mailbox.take() {
            match letter {
                Letter::Arrived(fd) => welcome(&worker, mailbox, backend, &mut connections, fd),
                Letter::Drain => {
                    worker.drain();
                }
                Letter::End => return Ok(()),
            }
        }
        let due = worker.clock.work(worker.clock.monotonic());
        mailbox.take_woken();
        let mut cx = Context::from_waker(&waker);
        while let Poll::Ready(Some(())) = Pin::new(&mut connections).poll_next(&mut cx) {
            mailbox.load.fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(ring) = &ring {
            ring.submit();
        }
        if worker.is_draining() && connections.is_empty() {
            return Ok(());
        }
        backend.sleep(if mailbox.take_woken() { Some(Duration::ZERO) } else { due })?;
    }
}

fn welcome<B: Backend>(
    worker: &Rc<Worker>,
    mailbox: &Mailbox,
    backend: &Rc<B>,
    connections: &mut Connections,
    fd: OwnedFd,
) {
    let attached = fd.try_clone().and_then(|look| Ok((backend.attach(fd)?, look)));
    match attached {
        Ok((socket, look)) => {
            let connection = serve(socket, look, Rc::clone(worker));
            // A panic of one connection does not end the others. The panic has dropped the connection.
            connections.push(Box::pin(AssertUnwindSafe(connection).catch_unwind().map(drop)));
        }
        Err(error) => {
            tracing::warn!(%error, "a connection could not be taken in");
            mailbox.load.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
