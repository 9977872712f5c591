//! A thread over one queue of a device, and its ring to the devices below.
//!
//! In each turn it ends what the devices have completed, begins what the kernel asks for, answers what has ended, tells
//! both rings of it, and sleeps once for all.

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
use crate::export::mailbox;
use crate::volume::Volume;

/// The one letter: end at once, for nothing will come of the driver.
pub(super) type Mailbox = mailbox::Mailbox<()>;

/// Which queue of what.
pub(super) struct Work {
    pub(super) device: Arc<File>,
    pub(super) queue: u16,
    pub(super) depth: u16,
    pub(super) volume: Arc<dyn Volume>,
    pub(super) limits: Limits,
}

/// Runs until the driver has ended all tags. Says once that it has them all, or why not.
pub(super) fn run(
    work: Work,
    mailbox: &Arc<Mailbox>,
    is_ready: &SyncSender<io::Result<()>>,
) -> io::Result<()> {
    mailbox.belongs_here();
    // Memory that this thread wants must not wait for pages to be written to the device that it serves.
    let _ = rustix::process::configure_io_flusher_behavior(true);
    // Where the kernel refuses a ring, requests of devices are ended by threads of theirs, which wake this one.
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
            // Whatever it was that ended the sleep: the kernel interrupts it before it reports the ring.
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
    // What the driver refuses, it refuses at once.
    driver.enter(Some(Duration::ZERO))?;
    let waker = std::task::Waker::noop();
    queue.turn(&mut driver, &mut Context::from_waker(waker))?;
    Ok((driver, queue))
}
