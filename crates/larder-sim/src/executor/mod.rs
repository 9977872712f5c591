//! Tasks under virtual time, on one thread: time advances when no task can proceed.
//!
//! [`Executor`] polls woken tasks in the order in which they were woken. If there are none, it advances its
//! [`VirtualClock`] to the next event: a timer, or a request of a
//! [`VirtualTimeDevice`](larder_device::VirtualTimeDevice). So a run depends only on its tasks, whose computations take
//! no virtual time, and thousands of clients take only as long as they compute.
//!
//! Tasks must not wait for the operating system, nor need another thread to proceed. A cache is opened with
//! [`Demotions::Callers`](larder::config::Demotions::Callers), and the work of its own thread is done by a background
//! task ([`Larder::send_demotions`](larder::Larder::send_demotions)).
//!
//! | module | content |
//! |---|---|
//! | `tasks` | futures by number, and which of them are ready; the soak picks one by its seed |

mod tasks;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use larder_device::{Clock, VirtualClock};

pub(crate) use tasks::{Running, Tasks};

/// Runs tasks under a virtual clock.
///
/// # Examples
/// A thousand clients that read from a drive, each after its own delay:
/// ```
/// use std::cell::Cell;
/// use std::sync::Arc;
/// use std::time::Duration;
/// use larder_device::model::virtual_time::{ShapedStorage, VirtualTimeDevice, shapes};
/// use larder_device::{Clock, Device, Io, IoBuffer, Payload, VirtualClock};
/// use larder_sim::executor::Executor;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let clock = Arc::new(VirtualClock::default());
/// let storage = ShapedStorage::new(shapes::SATA_SSD, 64 << 20)?;
/// let drive = VirtualTimeDevice::new(storage, Payload::None, Arc::clone(&clock))?;
/// let (drive, clock, done) = (&drive, &clock, &Cell::new(0));
///
/// let mut executor = Executor::new(Arc::clone(clock));
/// for client in 0..1000_u64 {
///     executor.spawn(async move {
///         clock.sleep_until(Duration::from_micros(client)).await;
///         let io = Io::Read { offset: client * 4096, buffer: IoBuffer::zeroed(4096) };
///         drive.submit(io).await.expect("it never fails");
///         done.set(done.get() + 1);
///     });
/// }
/// executor.run()?;
/// assert_eq!(done.get(), 1000);
/// // Eight at a time, 77 us each.
/// assert!(clock.now() > Duration::from_micros(1000 / 8 * 76));
/// # Ok(())
/// # }
/// ```
///
/// A task that will never be woken is an error, not a hang:
/// ```
/// use larder_sim::executor::Executor;
///
/// let mut executor = Executor::new(Default::default());
/// executor.spawn(std::future::pending());
/// let stalled = executor.run().unwrap_err();
/// assert_eq!(stalled.waiting, 1);
/// ```
pub struct Executor<'a> {
    clock: Arc<VirtualClock>,
    tasks: Tasks<'a, ()>,
    /// Kind of each task, by number.
    kinds: Vec<Kind>,
    /// Free task numbers.
    free: Vec<usize>,
    /// Number of tasks that the run waits for.
    wanted: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Wanted,
    Background,
}

/// No task can proceed and no event is due, so the waiting tasks will never be woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stalled {
    /// Tasks that wait forever.
    pub waiting: usize,
    /// Background tasks, in addition.
    pub in_background: usize,
    /// Time of the clock.
    pub at: Duration,
}

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { waiting, in_background, at } = self;
        write!(
            f,
            "{waiting} tasks wait, and {in_background} in the background, but nothing is due after {at:?} of \
             virtual time: they will never wake"
        )
    }
}

impl std::error::Error for Stalled {}

impl<'a> Executor<'a> {
    /// An executor without tasks, with `clock`.
    pub fn new(clock: Arc<VirtualClock>) -> Self {
        Self { clock, tasks: Tasks::new(0), kinds: Vec::new(), free: Vec::new(), wanted: 0 }
    }

    /// Adds a task. It starts with the next [`Executor::run`], after the tasks added before it.
    pub fn spawn(&mut self, task: impl Future<Output = ()> + 'a) {
        self.wanted += 1;
        self.add(Kind::Wanted, Box::pin(task));
    }

    /// Adds a background task: runs do not wait for it. It serves other tasks, and may never end.
    pub fn spawn_background(&mut self, task: impl Future<Output = ()> + 'a) {
        self.add(Kind::Background, Box::pin(task));
    }

    fn add(&mut self, kind: Kind, task: Running<'a, ()>) {
        let number = self.free.pop().unwrap_or_else(|| {
            self.kinds.push(kind);
            self.tasks.add_room()
        });
        self.kinds[number] = kind;
        self.tasks.spawn(number, task);
    }

    /// Number of tasks that have not ended, including background tasks.
    pub fn running(&self) -> usize {
        self.tasks.running()
    }

    /// Runs until all tasks have ended, except for background tasks, which continue in the next run.
    ///
    /// # Errors
    /// [`Stalled`] if tasks wait and no event is due.
    pub fn run(&mut self) -> Result<(), Stalled> {
        let mut now = self.clock.monotonic();
        while self.wanted > 0 {
            if let Some(number) = self.tasks.next_woken() {
                self.go_on(number);
                continue;
            }
            let Some(due) = self.clock.advance_to_next() else { return Err(self.stalled()) };
            assert!(due >= now, "something is due at {due:?}, before {now:?}: the clock went back");
            now = due;
        }
        Ok(())
    }

    fn go_on(&mut self, number: usize) {
        if self.tasks.poll(number).is_none() {
            return;
        }
        self.free.push(number);
        if self.kinds[number] == Kind::Wanted {
            self.wanted -= 1;
        }
        assert!(self.wanted <= self.running(), "a wanted task is running");
    }

    fn stalled(&self) -> Stalled {
        let in_background = self.running() - self.wanted;
        Stalled { waiting: self.wanted, in_background, at: self.clock.monotonic() }
    }
}

impl fmt::Debug for Executor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Executor");
        shown.field("running", &self.running()).field("wanted", &self.wanted);
        shown.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
