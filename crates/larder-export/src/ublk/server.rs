//! Starts and ends a device.

use std::fs::{File, OpenOptions};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use larder_device::{Error, ErrorKind};
use rustix::io::Errno;

use super::choice::{Choice, UblkId, choose, removal};
use super::control::{Control, ExistingDevice, is, is_running};
use super::owner::Owner;
use super::shape::Shape;
use super::wire::{DEPTH_MAX, ID_MAX, QUEUES_MAX};
use super::worker::{self, Mailbox, Work};
use crate::volume::Volume;

/// How long a killed process may take until the driver has seen its end.
const LAST_SERVER_WAIT: Duration = Duration::from_secs(30);
/// How long udev may take to make the node of a new device.
const NODE_WAIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

/// Called once, with the reason, if a device ends without a request to end it.
pub type OnEnd = Box<dyn Fn(String) + Send + Sync>;

/// The volume of a device, and how it is served.
pub struct UblkConfig {
    /// The volume to export.
    pub volume: Arc<dyn Volume>,
    /// Its owner: a device of the same owner without a server is taken over.
    pub owner: Owner,
    /// The number of the device.
    pub id: UblkId,
    /// Queues, 1 to 4096, with a thread each; at most as many as there are processors. A device that is taken over
    /// keeps its number of queues.
    pub queues: u16,
    /// Requests of a queue in flight, 1 to 4096. A device that is taken over keeps its depth.
    pub queue_depth: u16,
    /// The block size that all users must respect, in bytes: a power of two, 512 to 4096.
    pub logical_block_bytes: u32,
    /// The preferred granularity of requests, in bytes: a power of two.
    pub optimal_bytes: u32,
    /// Whether the device refuses changes.
    pub is_read_only: bool,
    /// Called if the device ends unexpectedly; see [`OnEnd`].
    pub on_end: Option<OnEnd>,
}

impl UblkConfig {
    /// A configuration for `volume`, with one queue of depth 128.
    pub fn new(volume: Arc<dyn Volume>, owner: Owner) -> Self {
        Self {
            volume,
            owner,
            id: UblkId::Auto,
            queues: 1,
            queue_depth: 128,
            logical_block_bytes: 512,
            optimal_bytes: 4096,
            is_read_only: false,
            on_end: None,
        }
    }

    fn shape(&self) -> Result<Shape, Error> {
        let ranges =
            [("queues", self.queues, QUEUES_MAX), ("queue_depth", self.queue_depth, DEPTH_MAX)];
        for (name, number, max) in ranges {
            if !(1..=max).contains(&number) {
                let why = format!("{name} of {number}: must be 1 to {max}");
                return Err(Error::new(ErrorKind::Setup, why));
            }
        }
        if let UblkId::Number(id) = self.id
            && id > ID_MAX
        {
            let why = format!("ublk device {id}: must be 0 to {ID_MAX}");
            return Err(Error::new(ErrorKind::Setup, why));
        }
        let info = self.volume.info();
        Shape::of(info, self.logical_block_bytes, self.optimal_bytes, self.is_read_only)
    }
}

impl std::fmt::Debug for UblkConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("UblkConfig");
        shown.field("owner", &self.owner).field("id", &self.id).finish_non_exhaustive()
    }
}

/// A volume as a disk of the kernel, `/dev/ublkbN`, until it is ended ([`UblkDevice::end`]).
///
/// If the process is killed, the disk stays, and requests wait for the next server of the same owner. If this is
/// dropped without an end, a disk that it has made is removed, and one that it has taken over stays and waits.
pub struct UblkDevice {
    control: Control,
    id: u32,
    owner: Owner,
    volume: Arc<dyn Volume>,
    is_read_only: bool,
    /// It existed before, so it is not deleted unless it is ended.
    was_taken_over: bool,
    mailboxes: Vec<Arc<Mailbox>>,
    threads: Vec<JoinHandle<()>>,
    is_over: bool,
    /// Notified by threads that end.
    ends: Arc<ThreadEnds>,
}

/// Handles the end of threads.
struct ThreadEnds {
    on_end: Option<OnEnd>,
    /// Threads were told to end.
    is_expected: AtomicBool,
    /// Why a thread has failed.
    failure: Mutex<Option<String>>,
}

impl UblkDevice {
    /// Makes a disk, or takes over the disk of a server of the same owner that is gone.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if the configuration is invalid, if the kernel has no ublk or this user may not use it, if
    /// the number belongs to a device of another owner, or if the device of this owner does not match.
    /// [`ErrorKind::InUse`] if it is served.
    pub fn start(config: UblkConfig) -> Result<Self, Error> {
        let shape = config.shape()?;
        let mut control = Control::open()?;
        let (known, was_taken_over) = place(&mut control, &config, &shape)?;
        let UblkConfig { volume, owner, is_read_only, on_end, .. } = config;
        let ends = Arc::new(ThreadEnds {
            on_end,
            is_expected: AtomicBool::new(false),
            failure: Mutex::default(),
        });
        let mut device = Self {
            control,
            id: known.id,
            owner,
            volume,
            is_read_only,
            was_taken_over,
            mailboxes: Vec::new(),
            threads: Vec::new(),
            is_over: false,
            ends,
        };
        device.serve(&known, &shape)?;
        Ok(device)
    }

    /// The number of the device.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The path of the disk.
    pub fn path(&self) -> PathBuf {
        format!("/dev/ublkb{}", self.id).into()
    }

    /// Whether an earlier server has made it.
    pub fn was_taken_over(&self) -> bool {
        self.was_taken_over
    }

    fn failed(&self, doing: &str, error: io::Error) -> Error {
        Error::from_os(format!("ublk device {}: {doing}", self.id), error)
    }

    /// Starts a thread for each queue, and starts the device when all tags were fetched.
    fn serve(&mut self, known: &ExistingDevice, shape: &Shape) -> Result<(), Error> {
        let node = open_node(known.id).map_err(|error| self.failed("its node", error))?;
        let (begun, begins) = mpsc::sync_channel(usize::from(known.queues));
        for queue in 0..known.queues {
            let mailbox =
                Mailbox::new().map(Arc::new).map_err(|error| self.failed("an event", error))?;
            self.mailboxes.push(Arc::clone(&mailbox));
            let work = Work {
                device: Arc::clone(&node),
                queue,
                depth: known.queue_depth,
                volume: Arc::clone(&self.volume),
                limits: shape.limits(),
            };
            let (begun, ends) = (begun.clone(), Arc::clone(&self.ends));
            let run = move || {
                let run = AssertUnwindSafe(|| worker::run(work, &mailbox, &begun));
                let panicked = |_| Err(io::Error::other("a thread has panicked"));
                ends.tell(catch_unwind(run).unwrap_or_else(panicked));
            };
            let name = format!("larder-ublk-{}-{queue}", self.id);
            let thread = std::thread::Builder::new().name(name).spawn(run);
            self.threads.push(thread.map_err(|error| self.failed("a thread", error))?);
        }
        drop((begun, node));
        for _ in 0..known.queues {
            let panicked = |_| io::Error::other("a thread has ended");
            let ready = begins.recv().map_err(panicked).and_then(|told| told);
            ready.map_err(|error| self.failed("a queue", error))?;
        }
        if self.was_taken_over {
            let ended = self.control.end_recovery(self.id);
            return ended.map_err(|error| self.failed("taking it over", error));
        }
        self.control.start(self.id).map_err(|error| self.failed("starting it", error))
    }

    /// Removes the disk, after the kernel has written back its cached data. A file system that is mounted on it then
    /// has no device. If a thread has failed, the disk stays, and waits for the next server.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the driver or a thread has failed; the error of the volume's flush.
    pub fn end(mut self) -> Result<(), Error> {
        let failure = self.ends.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(why) = failure {
            self.is_over = true;
            self.abandon();
            let path = self.path();
            let why = format!("{why}; {} waits for its next server", path.display());
            return Err(Error::new(ErrorKind::Io, why));
        }
        self.halt()?;
        if self.is_read_only {
            return Ok(());
        }
        self.volume.flush().wait().map(drop).map_err(|failure| failure.error)
    }

    /// Stops and deletes the device.
    fn halt(&mut self) -> Result<(), Error> {
        self.is_over = true;
        self.ends.is_expected.store(true, Ordering::SeqCst);
        // If another process has deleted it, its number may now belong to another device.
        let known = self.control.look(self.id)?;
        if known.is_none_or(|known| known.owner != Some(self.owner)) {
            self.abandon();
            return Ok(());
        }
        // The threads serve until it has returned: until then the kernel writes back its cached data.
        let stopped = self.control.stop(self.id);
        self.abandon();
        stopped.map_err(|error| self.failed("stopping it", error))?;
        self.control.give_up(self.id).map_err(|error| self.failed("deleting it", error))
    }

    /// Ends the threads, whatever tags the driver has.
    fn abandon(&mut self) {
        self.ends.is_expected.store(true, Ordering::SeqCst);
        self.mailboxes.iter().for_each(|mailbox| mailbox.send(()));
        for thread in self.threads.drain(..) {
            // A panic was already reported.
            let _ = thread.join();
        }
    }
}

impl Drop for UblkDevice {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        if self.was_taken_over {
            return self.abandon();
        }
        // Errors are lost here; to see them, call `end`.
        let _ = self.halt();
    }
}

impl std::fmt::Debug for UblkDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("UblkDevice");
        shown.field("id", &self.id).field("was_taken_over", &self.was_taken_over);
        shown.finish_non_exhaustive()
    }
}

impl ThreadEnds {
    /// Reports why a thread has ended, unless it was told to.
    fn tell(&self, ended: io::Result<()>) {
        if self.is_expected.load(Ordering::SeqCst) {
            return;
        }
        let why = match ended {
            Ok(()) => "another process has stopped it".to_owned(),
            Err(error) => {
                let why = error.to_string();
                *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.clone());
                why
            }
        };
        tracing::warn!(why, "a ublk device has ended");
        if let Some(on_end) = &self.on_end {
            on_end(why);
        }
    }
}

/// The device, made or with its recovery begun, and whether it existed before.
fn place(
    control: &mut Control,
    config: &UblkConfig,
    shape: &Shape,
) -> Result<(ExistingDevice, bool), Error> {
    let deadline = Instant::now() + LAST_SERVER_WAIT;
    loop {
        let known = control.list()?;
        let wanted = (config.owner, shape.size_bytes());
        let choice = choose(&known, config.id, wanted, is_running)
            .map_err(|why| Error::new(ErrorKind::Setup, why))?;
        let waits_for = match choice {
            Choice::New { id, first_delete } => {
                for id in first_delete {
                    let failed =
                        |error| Error::from_os(format!("deleting ublk device {id}"), error);
                    control.delete(id).map_err(failed)?;
                }
                let depths = (config.queues, config.queue_depth);
                let made = control.add(id, config.owner, depths, shape);
                return made.map_err(|error| not_made(id, error)).map(|made| (made, false));
            }
            Choice::TakeOver(known) => match control.begin_recovery(known.id) {
                Ok(()) => return Ok((known, true)),
                // A killed server had begun the recovery: older drivers count that as done.
                Err(error) if is(&error, Errno::INVAL) => return Ok((known, true)),
                Err(error) if is(&error, Errno::BUSY) => known.id,
                Err(error) => {
                    let doing = format!("taking over ublk device {}", known.id);
                    return Err(Error::from_os(doing, error));
                }
            },
            Choice::Wait(id) => id,
        };
        if Instant::now() > deadline {
            let why = format!(
                "/dev/ublkb{waits_for} is this export, and the driver does not let go of its last server; {}",
                removal(waits_for)
            );
            return Err(Error::new(ErrorKind::InUse, why));
        }
        std::thread::sleep(PAUSE);
    }
}

fn not_made(id: Option<u32>, error: io::Error) -> Error {
    match id {
        Some(id) if is(&error, Errno::EXIST) => {
            let why = format!(
                "ublk device {id}: a disk of that number has ended, but a program still has it open: \
                 unmount it, or give another number, or auto"
            );
            Error::new(ErrorKind::InUse, why)
        }
        _ => Error::from_os("making a ublk device", error),
    }
}

/// Opens the character device, which only one process may have open.
fn open_node(id: u32) -> io::Result<Arc<File>> {
    let deadline = Instant::now() + NODE_WAIT;
    loop {
        let opened = OpenOptions::new().read(true).write(true).open(format!("/dev/ublkc{id}"));
        match opened {
            Err(error)
                if Instant::now() < deadline
                    && (error.kind() == io::ErrorKind::NotFound || is(&error, Errno::BUSY)) =>
            {
                std::thread::sleep(PAUSE);
            }
            opened => return opened.map(Arc::new),
        }
    }
}
