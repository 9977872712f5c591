//! A worker: one thread with a loop over its connections, its timers and its ring to flash.
//!
//! In each turn it ends what the drive has completed, wakes what is due, runs the tasks that were woken, tells the
//! kernel of the reads that they have begun, and sleeps. A hit in DRAM is answered without leaving the turn.

mod buffers;
mod idle;
mod mailbox;
mod tasks;
mod under_way;

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use larder_device::sockets::SocketRing;
use larder_device::{Clock, LoopClock, ring};

pub(crate) use buffers::{BUFFER_BYTES, Buffers};
pub(crate) use idle::Idle;
pub(crate) use mailbox::{Arrived, Letter, Mailbox};
pub(crate) use tasks::Tasks;
pub(crate) use under_way::UnderWay;

use crate::caller::Caller;
use crate::config::{ProtocolKind, SocketBackend};
use crate::connection::serve;
use crate::counters::Counters;
use crate::net::{Backend, Epoll};
use crate::protocol::memcached::Memcached;
use crate::protocol::resp::Resp;
use crate::shared::Shared;

/// What all tasks of a worker have in common.
pub(crate) struct Worker {
    /// Its number, from 0.
    pub(crate) number: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) buffers: Buffers,
    /// Written by this worker alone, read by whoever asks.
    pub(crate) counters: Arc<Counters>,
    pub(crate) clock: Arc<LoopClock>,
    /// What requests and answers take beyond the buffers that each connection has.
    under_way_bytes: Rc<Cell<usize>>,
    tasks: Rc<Tasks>,
    /// Connections that wait for requests.
    pub(crate) idle: Idle,
    /// The loop ends, whatever its connections do.
    ends: Cell<bool>,
}

/// Runs until it is told to end and its connections have.
pub(crate) fn run(number: usize, shared: Arc<Shared>) -> io::Result<()> {
    let mailbox = Arc::clone(&shared.mailboxes[number]);
    let tasks = Rc::new(Tasks::new(Arc::clone(&mailbox)));
    let clock = Arc::new(LoopClock::new(mailbox.waker()));
    let counters = Arc::clone(&shared.counters[number]);
    let idle = Idle::new(shared.config.idle_timeout);
    let worker = Rc::new(Worker {
        number,
        shared,
        buffers: Buffers::default(),
        counters,
        clock,
        under_way_bytes: Rc::default(),
        tasks,
        idle,
        ends: Cell::new(false),
    });
    match sockets_of(&worker) {
        Some(sockets) => serve_with(&worker, &mailbox, sockets),
        None => serve_with(&worker, &mailbox, Epoll::new()?),
    }
}

/// A ring for sockets, if that is wanted and to be had. A worker without one has `epoll`.
fn sockets_of(worker: &Worker) -> Option<SocketRing> {
    match worker.shared.config.sockets {
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
    // Where the kernel refuses a ring, reads of flash are ended by threads of the device, which wake this one.
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
    loop {
        if let Some(ring) = ring {
            // Whatever it was that ended the sleep: the kernel interrupts it before it reports the ring.
            ring.reap();
        }
        for letter in mailbox.take() {
            worker.open(letter, backend);
        }
        let now = worker.clock.monotonic();
        let due = [worker.clock.work(now), worker.idle.sweep(now)].into_iter().flatten().min();
        worker.tasks.run_all();
        if let Some(ring) = ring {
            ring.submit();
        }
        if worker.ends.get() || worker.idle.is_draining() && worker.load() == 0 {
            // The connections of those that are left are closed.
            worker.tasks.drop_all();
            return Ok(());
        }
        backend.sleep(if mailbox.is_empty() { due } else { Some(Duration::ZERO) })?;
    }
}

impl Worker {
    fn open<B: Backend>(self: &Rc<Self>, letter: Letter, backend: &Rc<B>) {
        match letter {
            Letter::Arrived(arrived) => self.welcome(arrived, backend),
            Letter::Drain => self.idle.drain(),
            Letter::End => self.ends.set(true),
        }
    }

    /// Begins a task for a connection.
    fn welcome<B: Backend>(self: &Rc<Self>, arrived: Arrived, backend: &Rc<B>) {
        let Arrived { fd, protocol, peer } = arrived;
        let leaves = Leaves(Rc::clone(self));
        let socket = match backend.attach(fd) {
            Ok(socket) => socket,
            Err(error) => return tracing::warn!(%error, "a connection could not be taken in"),
        };
        let caller = Caller::new(Rc::clone(self), peer);
        match protocol {
            ProtocolKind::Memcached => self.tasks.spawn(async move {
                serve(socket, Memcached::default(), caller).await;
                drop(leaves);
            }),
            ProtocolKind::Resp => self.tasks.spawn(async move {
                serve(socket, Resp::default(), caller).await;
                drop(leaves);
            }),
        }
    }

    /// Lets all other tasks that were woken run before this one goes on.
    pub(crate) async fn others_first(&self) {
        let mut is_first = true;
        poll_fn(|cx| match std::mem::take(&mut is_first) {
            true => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            false => Poll::Ready(()),
        })
        .await;
    }

    /// Runs something beside the connections. The end of the server does not wait for it.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.tasks.spawn(task);
    }

    /// Waits for so long, while others are served.
    pub(crate) async fn pause(&self, time: Duration) {
        self.clock.sleep_until(self.clock.monotonic() + time).await;
    }

    /// Connections that it has.
    fn load(&self) -> usize {
        self.shared.mailboxes[self.number].load.load(Ordering::Relaxed)
    }
}

/// A connection that has gone, when it is dropped.
struct Leaves(Rc<Worker>);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.shared.mailboxes[self.0.number].load.fetch_sub(1, Ordering::Relaxed);
    }
}
