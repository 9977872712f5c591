//! The thread that hosts a ring: how it begins, turns and ends.

use std::cell::RefCell;
use std::future::Future;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Wake, Waker};
use std::time::Duration;

use super::hosted::{Hosted, Role};
use super::linux::Linux;
use crate::error::{Error, ErrorKind};
use crate::park::{Driver, block_on, set_host};

/// Entries of the submission queue that no request takes: the wake-up event needs one.
const SPARE_ENTRIES: u32 = 8;

thread_local! {
    static HERE: RefCell<Hosting> = const { RefCell::new(Hosting(None)) };
}

/// The ring that a thread hosts. Its end hands on what is under way, also that of the thread.
struct Hosting(Option<Arc<Hosted<Linux>>>);

/// How a thread hosts a ring. [`RingOptions::default`] suits a worker of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RingOptions {
    /// Pieces of requests of all devices together that the kernel has at a time, 1 to 16384; further
    /// ones wait their turn, a piece of each device after the other. A device's own bound
    /// ([`FileOptions::queue_depth`](crate::FileOptions::queue_depth)) counts besides. A
    /// piece takes about 200 bytes of memory that the kernel shares.
    pub in_flight_max: u16,
    /// Tell the kernel of buffers once and for all, for devices that want it
    /// ([`FileOptions::registered_buffers`](crate::FileOptions::registered_buffers)).
    pub registered_buffers: bool,
}

impl Default for RingOptions {
    fn default() -> Self {
        Self { in_flight_max: 504, registered_buffers: true }
    }
}

/// What a hosted ring has done since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct RingStats {
    /// Calls of the kernel (`io_uring_enter`).
    pub enters: u64,
    /// Those of them that were to wait for a completion.
    pub sleeps: u64,
    /// Pieces of requests that have ended. A request is one piece if it is no longer than the device's
    /// [`max_transfer_bytes`](crate::DeviceInfo::max_transfer_bytes).
    pub ended_pieces: u64,
    /// Pieces that have not.
    pub pending_pieces: u64,
}

/// The ring that this thread hosts, as long as this lives. See [`ring`](crate::ring).
///
/// Dropping it, also by a panic, hands on what is under way: a thread of its own (`larder-heir`) sees
/// to that and ends with it. Nothing is lost, and nobody who waits elsewhere waits in vain.
pub struct HostedRing {
    hosted: Arc<Hosted<Linux>>,
    /// It belongs to the thread.
    _here: PhantomData<*const ()>,
}

/// Makes this thread the host of a ring.
///
/// # Errors
/// [`ErrorKind::Setup`] if the kernel refuses io_uring or has no room for one more ring;
/// [`ErrorKind::InUse`] if this thread hosts one already.
pub fn host() -> Result<HostedRing, Error> {
    host_with(&RingOptions::default())
}

/// As [`host`].
///
/// # Errors
/// As [`host`]; [`ErrorKind::Setup`] too if an option is out of range.
pub fn host_with(options: &RingOptions) -> Result<HostedRing, Error> {
    let slots = options.in_flight_max;
    if !(1..=16384).contains(&slots) {
        let complaint = format!("in_flight_max of {slots}: must be 1 to 16384");
        return Err(Error::new(ErrorKind::Setup, complaint));
    }
    if here().is_some() {
        return Err(Error::new(ErrorKind::InUse, "this thread hosts a ring already"));
    }
    let entries = u32::from(slots) + SPARE_ENTRIES;
    let (kernel, books) = Linux::new(entries, options.registered_buffers)
        .map_err(|error| Error::new(ErrorKind::Setup, format!("io_uring is refused: {error}")))?;
    let hosted = Hosted::new(kernel, books, usize::from(slots));
    let seated = HERE.try_with(|here| here.borrow_mut().0 = Some(Arc::clone(&hosted)));
    if seated.is_err() {
        return Err(Error::new(ErrorKind::Setup, "this thread is about to end"));
    }
    set_host(Some(Arc::clone(&hosted) as Arc<dyn Driver>));
    Ok(HostedRing { hosted, _here: PhantomData })
}

/// The ring that this thread hosts.
pub(super) fn here() -> Option<Arc<Hosted<Linux>>> {
    HERE.try_with(|here| here.borrow().0.clone()).ok().flatten()
}

/// Whether this thread hosts a ring: whoever keeps it waiting keeps others waiting.
pub(crate) fn is_hosted() -> bool {
    here().is_some()
}

/// What this thread is to `ring`.
pub(super) fn role_in(ring: &Arc<Hosted<Linux>>) -> Role {
    match here().is_some_and(|here| Arc::ptr_eq(&here, ring)) {
        true => Role::Owner,
        false => Role::Visitor,
    }
}

/// [`HostedRing::submit`] of the ring that this thread hosts. Does nothing on one that hosts none. For
/// hooks that cannot have the ring, such as those of a runtime before it sleeps.
pub fn submit() {
    if let Some(ring) = here() {
        ring.tell_all(Role::Owner);
    }
}

/// [`HostedRing::reap`] of the ring that this thread hosts; 0 on one that hosts none.
pub fn reap() -> usize {
    here().map_or(0, |ring| ring.reap(Role::Owner).ended)
}

impl HostedRing {
    /// Tells the kernel of all requests that were begun since it was told last, with one call; with none
    /// if there are none. For loops that sleep elsewhere: before they do.
    pub fn submit(&self) {
        self.hosted.tell_all(Role::Owner);
    }

    /// Ends requests that the kernel has completed and wakes who waits for them. Neither sleeps nor calls
    /// the kernel. Returns how many pieces of requests have ended.
    ///
    /// For loops that sleep elsewhere: in each turn, whatever it was that woke them. The kernel often
    /// interrupts the sleeper (`EINTR`) before it reports [`HostedRing::poll_fd`] as readable.
    pub fn reap(&self) -> usize {
        self.hosted.reap(Role::Owner).ended
    }

    /// Becomes readable when there is something to [`reap`](HostedRing::reap). For `epoll`, tokio's
    /// `AsyncFd` and the like; nothing is to be read from it.
    pub fn poll_fd(&self) -> BorrowedFd<'_> {
        self.hosted.kernel().as_fd()
    }

    /// Tells the kernel of what is new, sleeps until a request of any device has ended, a
    /// [`waker`](HostedRing::waker) is woken or `timeout` is over (`None`: never), and wakes who waits for
    /// what has ended. Does not sleep if something has ended already. Returns how many pieces of requests
    /// have ended; it may be none.
    pub fn turn(&self, timeout: Option<Duration>) -> usize {
        self.hosted.turn(timeout)
    }

    /// Runs `future` to its end on this thread, which sleeps for all its devices at once. The same as
    /// [`block_on`](crate::block_on()) on this thread.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        block_on(future)
    }

    /// Ends the sleep of [`HostedRing::turn`], or the next one, when it is woken by another thread: for
    /// an executor on this thread, whose tasks others wake. On this thread it does nothing.
    pub fn waker(&self) -> Waker {
        Waker::from(Arc::new(Calls(Arc::clone(&self.hosted))))
    }

    /// What the ring has done.
    pub fn stats(&self) -> RingStats {
        let counts = self.hosted.counts();
        RingStats {
            enters: counts.enters.load(Ordering::Relaxed),
            sleeps: counts.sleeps.load(Ordering::Relaxed),
            ended_pieces: counts.ended.load(Ordering::Relaxed),
            pending_pieces: self.hosted.pending() as u64,
        }
    }

    #[cfg(all(test, not(shuttle)))]
    pub(super) fn hosted(&self) -> &Arc<Hosted<Linux>> {
        &self.hosted
    }
}

impl AsFd for HostedRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poll_fd()
    }
}

impl AsRawFd for HostedRing {
    fn as_raw_fd(&self) -> RawFd {
        self.poll_fd().as_raw_fd()
    }
}

impl std::fmt::Debug for HostedRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostedRing").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl Drop for HostedRing {
    fn drop(&mut self) {
        // What is dropped looks for the thread's ring itself.
        let hosting =
            HERE.try_with(|here| std::mem::replace(&mut *here.borrow_mut(), Hosting(None)));
        drop(hosting);
    }
}

impl Drop for Hosting {
    fn drop(&mut self) {
        let Some(ring) = self.0.take() else { return };
        set_host(None);
        if ring.close() {
            return;
        }
        let heirs = Arc::clone(&ring);
        let builder = std::thread::Builder::new().name("larder-heir".to_owned());
        if builder.spawn(move || heirs.see_out()).is_err() {
            ring.see_out();
        }
    }
}

/// See [`HostedRing::waker`].
struct Calls(Arc<Hosted<Linux>>);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if role_in(&self.0) == Role::Visitor {
            self.0.signal();
        }
    }
}
