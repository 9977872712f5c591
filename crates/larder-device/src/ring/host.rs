//! The thread that hosts a ring: start, turns and end.

use std::cell::RefCell;
use std::future::Future;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Wake, Waker};
use std::time::Duration;

use super::hosted::{HostedCore, Role};
use super::linux::Linux;
use crate::driver::Driver;
use crate::error::{Error, ErrorKind};
use crate::park::{block_on, set_host};

/// Entries of the submission queue that no request takes: the wake-up event needs one.
const SPARE_ENTRIES: u32 = 8;

thread_local! {
    static HERE: RefCell<Hosting> = const { RefCell::new(Hosting(None)) };
}

/// The ring that a thread hosts. Dropping it, also when the thread ends, hands the requests in flight on.
struct Hosting(Option<Arc<HostedCore<Linux>>>);

/// Options for hosting a ring. [`RingOptions::default`] suits a worker of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RingOptions {
    /// Pieces of requests of all devices together that are in flight at a time, 1 to 16384. Further ones wait, and the
    /// devices take turns, one piece each. A device's own bound
    /// ([`FileOptions::queue_depth`](crate::FileOptions::queue_depth)) applies too. A piece takes about 200 bytes of
    /// memory that is shared with the kernel.
    pub in_flight_max: u16,
    /// Register buffers with the kernel, for devices that want it
    /// ([`FileOptions::registered_buffers`](crate::FileOptions::registered_buffers)).
    pub registered_buffers: bool,
}

impl Default for RingOptions {
    fn default() -> Self {
        Self { in_flight_max: 504, registered_buffers: true }
    }
}

/// Counters of a hosted ring since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct RingStats {
    /// Calls of the kernel (`io_uring_enter`).
    pub enters: u64,
    /// Calls that were to wait for a completion.
    pub sleeps: u64,
    /// Pieces of requests that have ended. A request is one piece if it is no longer than the device's
    /// [`max_transfer_bytes`](crate::DeviceInfo::max_transfer_bytes).
    pub ended_pieces: u64,
    /// Pieces that have not ended.
    pub pending_pieces: u64,
}

/// The ring that this thread hosts, as long as this value lives. See [`ring`](crate::ring).
///
/// Dropping it, also during a panic, hands the requests in flight to a thread of their own (`larder-heir`), which ends
/// when they have ended. No request is lost, and waiters on other threads still get their results.
pub struct HostedRing {
    hosted: Arc<HostedCore<Linux>>,
    /// The ring belongs to the thread, so this is not `Send`.
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

/// Like [`host`], with options.
///
/// # Errors
/// As [`host`]; also [`ErrorKind::Setup`] if an option is out of range.
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
    let (kernel, tables) = Linux::new(entries, options.registered_buffers)
        .map_err(|error| Error::new(ErrorKind::Setup, format!("io_uring is refused: {error}")))?;
    let hosted = HostedCore::new(kernel, tables, usize::from(slots));
    let seated = HERE.try_with(|here| here.borrow_mut().0 = Some(Arc::clone(&hosted)));
    if seated.is_err() {
        return Err(Error::new(ErrorKind::Setup, "this thread is about to end"));
    }
    set_host(Some(Arc::clone(&hosted) as Arc<dyn Driver>));
    Ok(HostedRing { hosted, _here: PhantomData })
}

/// The ring that this thread hosts.
pub(super) fn here() -> Option<Arc<HostedCore<Linux>>> {
    HERE.try_with(|here| here.borrow().0.clone()).ok().flatten()
}

/// Whether this thread hosts a ring. Blocking such a thread delays all requests of its devices.
pub(crate) fn is_hosted() -> bool {
    here().is_some()
}

/// The role of this thread towards `ring`.
pub(super) fn role_in(ring: &Arc<HostedCore<Linux>>) -> Role {
    match here().is_some_and(|here| Arc::ptr_eq(&here, ring)) {
        true => Role::Owner,
        false => Role::Visitor,
    }
}

/// [`HostedRing::submit`] of the ring that this thread hosts; does nothing on a thread without one. For hooks that have
/// no access to the ring, such as those that a runtime runs before it sleeps.
pub fn submit() {
    if let Some(ring) = here() {
        ring.tell_all(Role::Owner);
    }
}

/// [`HostedRing::reap`] of the ring that this thread hosts; 0 on a thread without one.
pub fn reap() -> usize {
    here().map_or(0, |ring| ring.reap(Role::Owner).ended)
}

impl HostedRing {
    /// Hands the kernel all requests that were begun since the last call, with one call, or with none if there are
    /// none. A loop that sleeps elsewhere must call it before it sleeps.
    pub fn submit(&self) {
        self.hosted.tell_all(Role::Owner);
    }

    /// Ends requests that the kernel has completed and wakes their waiters. It neither sleeps nor calls the kernel.
    /// Returns the number of pieces of requests that have ended.
    ///
    /// A loop that sleeps elsewhere must call it in each turn, whatever woke the loop. The kernel often interrupts the
    /// sleeper (`EINTR`) before it reports [`HostedRing::poll_fd`] as readable.
    pub fn reap(&self) -> usize {
        self.hosted.reap(Role::Owner).ended
    }

    /// Becomes readable when there is something to [`reap`](HostedRing::reap). For `epoll`, tokio's `AsyncFd` and the
    /// like. Do not read from it.
    pub fn poll_fd(&self) -> BorrowedFd<'_> {
        self.hosted.kernel().as_fd()
    }

    /// Hands the kernel all new requests, sleeps until a request of any device has ended, a
    /// [`waker`](HostedRing::waker) is woken or `timeout` is over (`None`: never), and wakes the waiters of ended
    /// requests. It does not sleep if a request has ended already. Returns the number of pieces of requests that have
    /// ended, which may be 0.
    pub fn turn(&self, timeout: Option<Duration>) -> usize {
        self.hosted.turn(timeout)
    }

    /// Runs `future` to its end on this thread, which sleeps for all its devices at once. The same as
    /// [`block_on`](crate::block_on()) on this thread.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        block_on(future)
    }

    /// A waker that ends the current or next sleep of [`HostedRing::turn`] when another thread wakes it. It is for an
    /// executor on this thread whose tasks other threads wake. Waking it on this thread does nothing.
    pub fn waker(&self) -> Waker {
        Waker::from(Arc::new(HostCall(Arc::clone(&self.hosted))))
    }

    /// The ring's counters.
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
    pub(super) fn hosted(&self) -> &Arc<HostedCore<Linux>> {
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
        // Take the ring out first: code that the drop runs looks up the thread's ring itself.
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
struct HostCall(Arc<HostedCore<Linux>>);

impl Wake for HostCall {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if role_in(&self.0) == Role::Visitor {
            self.0.signal();
        }
    }
}
