//! A worker: one thread over its connections, its timers, and its ring to the devices below.
//!
//! In each turn it ends what the devices have completed, polls the connections that were woken, tells the kernel of
//! what they have begun, and sleeps once for all.

use std::cell::Cell;
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

use event_listener::Event;
use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, Stream};
use larder_device::sockets::{Backend, Buffers, Epoll, SocketBackend, SocketRing};
use larder_device::{BufferPool, Clock, LoopClock, ring};
use larder_tls::Tls;

use super::super::mailbox;
use super::connection::serve;
use super::exports::Exports;

/// Letters to a worker.
pub(super) type Mailbox = mailbox::Mailbox<Letter>;

/// An order to a worker.
pub(super) enum Letter {
    /// A connection, whose load is counted already.
    Arrived(OwnedFd),
    /// Read nothing more, answer what has begun, and end.
    Drain,
    /// End at once.
    End,
}

/// What the connections of a worker have in common.
pub(super) struct Worker {
    pub(super) exports: Exports,
    /// With it clients have to speak TLS.
    pub(super) tls: Option<Tls>,
    /// Of connections that do, while something is in them.
    pub(super) buffers: Rc<Buffers>,
    pub(super) pool: BufferPool,
    /// Held by the TLS handshake that computes now.
    pub(super) handshake_turn: async_lock::Mutex<()>,
    pub(super) clock: LoopClock,
    /// Told when nothing more is to be read.
    pub(super) drained: Event,
    is_draining: Cell<bool>,
}

type Connections = FuturesUnordered<Pin<Box<dyn Future<Output = ()>>>>;

/// Runs until it is told to end and its connections have.
pub(super) fn run(
    mailbox: &Arc<Mailbox>,
    exports: Exports,
    tls: Option<Tls>,
    sockets: SocketBackend,
) -> io::Result<()> {
    mailbox.belongs_here();
    let worker = Worker {
        exports,
        tls,
        buffers: Rc::default(),
        pool: BufferPool::new(),
        handshake_turn: async_lock::Mutex::new(()),
        clock: LoopClock::new(mailbox.waker()),
        drained: Event::new(),
        is_draining: Cell::new(false),
    };
    match ring_for(sockets) {
        Some(backend) => turn_until_the_end(Rc::new(worker), mailbox, &Rc::new(backend)),
        None => turn_until_the_end(Rc::new(worker), mailbox, &Rc::new(Epoll::new()?)),
    }
}

/// A ring for sockets, if that is wanted and to be had.
fn ring_for(sockets: SocketBackend) -> Option<SocketRing> {
    match sockets {
        SocketBackend::Epoll => None,
        SocketBackend::IoUring => SocketRing::new().ok(),
    }
}

impl Worker {
    /// Nothing more is to be read.
    pub(super) fn is_draining(&self) -> bool {
        self.is_draining.get()
    }
}

fn turn_until_the_end<B: Backend>(
    worker: Rc<Worker>,
    mailbox: &Arc<Mailbox>,
    backend: &Rc<B>,
) -> io::Result<()> {
    // Where the kernel refuses a ring, requests of devices are ended by threads of theirs, which wake this one.
    let ring = ring::host().ok();
    backend.watch(mailbox.fd())?;
    if let Some(ring) = &ring {
        backend.watch(ring.as_fd())?;
    }
    let waker = mailbox.waker();
    let mut connections = Connections::new();
    loop {
        if let Some(ring) = &ring {
            // Whatever it was that ended the sleep: the kernel interrupts it before it reports the ring.
            ring.reap();
        }
        for letter in mailbox.take() {
            match letter {
                Letter::Arrived(fd) => welcome(&worker, mailbox, backend, &mut connections, fd),
                Letter::Drain => {
                    worker.is_draining.set(true);
                    worker.drained.notify(usize::MAX);
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
            // One connection's mistake is no other's end. It was dropped by its panic.
            connections.push(Box::pin(AssertUnwindSafe(connection).catch_unwind().map(drop)));
        }
        Err(error) => {
            tracing::warn!(%error, "a connection could not be taken in");
            mailbox.load.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
