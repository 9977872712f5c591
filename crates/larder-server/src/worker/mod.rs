//! A worker: one thread with a loop over its connections, its timers and its ring to flash.
//!
//! In each turn it ends what the drive has completed, wakes what is due, runs the tasks that were woken, tells the
//! kernel of the reads that they have begun, and sleeps. A hit in DRAM is answered without leaving the turn.

mod buffers;
mod mailbox;
mod tasks;

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};
use std::time::Duration;

use larder_device::{Clock, LoopClock, ring};

pub(crate) use buffers::{BUFFER_BYTES, Buffers};
pub(crate) use mailbox::{Arrived, Letter, Mailbox};
pub(crate) use tasks::Tasks;

use crate::config::ProtocolKind;
use crate::connection::serve;
use crate::counters::Counters;
use crate::net::{Backend, Epoll};
use crate::protocol::memcached::Memcached;
use crate::protocol::resp::Resp;
use crate::session::Session;
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
    pub(crate) under_way_bytes: Cell<usize>,
    tasks: Rc<Tasks>,
    /// Connections end as soon as they have answered what has come.
    draining: Cell<bool>,
    /// The loop ends, whatever its connections do.
    ends: Cell<bool>,
    /// Whoever waits for requests is called when either begins.
    idle: RefCell<slab::Slab<Waker>>,
}

/// Runs until it is told to end and its connections have.
pub(crate) fn run(number: usize, shared: Arc<Shared>) -> io::Result<()> {
    let mailbox = Arc::clone(&shared.mailboxes[number]);
    let tasks = Rc::new(Tasks::new(Arc::clone(&mailbox)));
    let clock = Arc::new(LoopClock::new(mailbox.waker()));
    let counters = Arc::clone(&shared.counters[number]);
    let worker = Rc::new(Worker {
        number,
        shared,
        buffers: Buffers::default(),
        counters,
        clock,
        under_way_bytes: Cell::new(0),
        tasks,
        draining: Cell::new(false),
        ends: Cell::new(false),
        idle: RefCell::default(),
    });
    // Where the kernel refuses a ring, reads of flash are ended by threads of the device, which wake this one.
    let ring = ring::host().ok();
    let backend = Rc::new(Epoll::new()?);
    backend.watch(mailbox.fd())?;
    if let Some(ring) = &ring {
        backend.watch(ring.as_fd())?;
    }
    turn_until_the_end(&worker, &backend, ring.as_ref(), &mailbox)
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
        let due = worker.clock.work(worker.clock.monotonic());
        worker.tasks.run_all();
        if let Some(ring) = ring {
            ring.submit();
        }
        if worker.ends.get() || worker.draining.get() && worker.load() == 0 {
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
            Letter::Drain => {
                self.draining.set(true);
                self.idle.borrow_mut().iter().for_each(|(_, idle)| idle.wake_by_ref());
            }
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
        let session = Session::new(Rc::clone(self), peer);
        match protocol {
            ProtocolKind::Memcached => self.tasks.spawn(async move {
                serve(socket, Memcached::default(), session).await;
                drop(leaves);
            }),
            ProtocolKind::Resp => self.tasks.spawn(async move {
                serve(socket, Resp::default(), session).await;
                drop(leaves);
            }),
        }
    }

    /// Runs something beside the connections. The end of the server does not wait for it.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.tasks.spawn(task);
    }

    /// Waits for so long, while others are served.
    pub(crate) async fn pause(&self, time: Duration) {
        self.clock.sleep_until(self.clock.monotonic() + time).await;
    }

    /// Whether whoever waits for requests, at `place` or nowhere yet, may go on waiting: then the place where it is
    /// called when that changes.
    pub(crate) fn waits(&self, place: Option<usize>, cx: &Context<'_>) -> Option<usize> {
        if self.draining.get() {
            self.waits_no_more(place);
            return None;
        }
        let mut idle = self.idle.borrow_mut();
        match place {
            Some(place) => {
                idle[place].clone_from(cx.waker());
                Some(place)
            }
            None => Some(idle.insert(cx.waker().clone())),
        }
    }

    /// It waits at `place` no more.
    pub(crate) fn waits_no_more(&self, place: Option<usize>) {
        if let Some(place) = place {
            self.idle.borrow_mut().remove(place);
        }
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
