//! A thread that serves one queue of a device, with its ring to the underlying devices.
//!
//! In each turn of the [loop](larder_net::Reactor) it begins the requests of the kernel, answers those that have ended,
//! and submits both.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::task::{Context, Waker};
use std::time::Duration;

use larder_net::{Reactor, Service};

use super::driver::Driver;
use super::kernel::QueueRing;
use super::queue::Queue;
use super::request::Limits;
use crate::volume::Volume;

/// The only message: end at once, because the driver will send nothing more.
pub(super) type Mailbox = larder_net::Mailbox<()>;

/// The queue to serve.
pub(super) struct Work {
    pub(super) device: Arc<File>,
    pub(super) queue: u16,
    pub(super) depth: u16,
    pub(super) volume: Arc<dyn Volume>,
    pub(super) limits: Limits,
}

/// Runs until the driver has ended all tags. Reports once that the driver has all tags, or why not.
pub(super) fn run(
    work: Work,
    mailbox: &Arc<Mailbox>,
    ready: &SyncSender<io::Result<()>>,
) -> io::Result<()> {
    let reactor = Reactor::new(Arc::clone(mailbox));
    // Memory allocations of this thread must not wait for write-back to the device that it serves.
    let _ = rustix::process::configure_io_flusher_behavior(true);
    let (driver, queue) = match begin(work) {
        Ok(begun) => begun,
        Err(error) => {
            let told = io::Error::new(error.kind(), error.to_string());
            let _ = ready.send(Err(error));
            return Err(told);
        }
    };
    let _ = ready.send(Ok(()));
    reactor.run(&mut QueueService { driver, queue, waker: mailbox.waker(), ends: false })
}

fn begin(work: Work) -> io::Result<(QueueRing, Queue)> {
    let Work { device, queue, depth, volume, limits } = work;
    let mut driver = QueueRing::new(device, queue, depth)?;
    let mut queue = Queue::begin(volume, limits, depth, &mut driver)?;
    // If the driver refuses the tags, it does so at once.
    driver.enter(Some(Duration::ZERO))?;
    queue.turn(&mut driver, &mut Context::from_waker(Waker::noop()))?;
    Ok((driver, queue))
}

/// What the thread of a queue serves.
struct QueueService {
    driver: QueueRing,
    queue: Queue,
    /// Wakes the thread when a request of the volume has ended.
    waker: Waker,
    ends: bool,
}

impl Service for QueueService {
    type Letter = ();

    fn receive(&mut self, (): ()) {
        self.ends = true;
    }

    fn work(&mut self) -> io::Result<Option<Duration>> {
        self.queue.turn(&mut self.driver, &mut Context::from_waker(&self.waker))?;
        Ok(None)
    }

    fn is_over(&self) -> bool {
        self.ends || self.queue.has_ended()
    }

    fn watch(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.driver.watch(fd)
    }

    fn sleep(&mut self, at_most: Option<Duration>) -> io::Result<()> {
        self.driver.enter(at_most)
    }
}
