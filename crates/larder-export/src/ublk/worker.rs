//! A thread that serves one queue of a device, with its ring to the underlying devices.
//!
//! In each turn it reaps the completions of the devices, begins the requests of the kernel, answers those that have
//! ended, submits to both rings, and sleeps once for all of them.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::task::Context;
use std::time::Duration;

use larder_device::ring;

use super::driver::Driver;
use super::kernel::QueueRing;
use super::queue::Queue;
use super::request::Limits;
use crate::mailbox;
use crate::volume::Volume;

/// The only message: end at once, because the driver will send nothing more.
pub(super) type Mailbox = mailbox::Mailbox<()>;

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
    is_ready: &SyncSender<io::Result<()>>,
) -> io::Result<()> {
    mailbox.belongs_here();
    // Memory allocations of this thread must not wait for write-back to the device that it serves.
    let _ = rustix::process::configure_io_flusher_behavior(true);
    // If the kernel refuses a ring, threads complete the requests to devices, and wake this thread.
    let ring = ring::host().ok();
    let begun = begin(work, mailbox, ring.as_ref());
    let (mut driver, mut queue) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            let told = io::Error::new(error.kind(), error.to_string());
            let _ = is_ready.send(Err(error));
            return Err(told);
        }
    };
    let _ = is_ready.send(Ok(()));
    let waker = mailbox.waker();
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Some(ring) = &ring {
            // Reap on every wake-up: the kernel may wake us before it marks the ring readable.
            ring.reap();
        }
        if !mailbox.take().is_empty() {
            return Ok(());
        }
        mailbox.take_woken();
        queue.turn(&mut driver, &mut cx)?;
        if let Some(ring) = &ring {
            ring.submit();
        }
        if queue.has_ended() {
            return Ok(());
        }
        driver.enter(mailbox.take_woken().then_some(Duration::ZERO))?;
    }
}

fn begin(
    work: Work,
    mailbox: &Mailbox,
    ring: Option<&ring::HostedRing>,
) -> io::Result<(QueueRing, Queue)> {
    let Work { device, queue, depth, volume, limits } = work;
    let mut driver = QueueRing::new(device, queue, depth)?;
    driver.watch(mailbox.fd())?;
    if let Some(ring) = ring {
        driver.watch(ring.as_fd())?;
    }
    let mut queue = Queue::begin(volume, limits, depth, &mut driver)?;
    // If the driver refuses the tags, it does so at once.
    driver.enter(Some(Duration::ZERO))?;
    let waker = std::task::Waker::noop();
    queue.turn(&mut driver, &mut Context::from_waker(waker))?;
    Ok((driver, queue))
}
