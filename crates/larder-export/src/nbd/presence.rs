//! Tracks the connections to an export, and the changes that they may still make.
//!
//! If a client loses its connection and comes back, a request of the old connection, stalled on the device or unread
//! in a socket, must not overwrite what the client has written since. So:
//!
//! 1. A connection that [is gone](Presence::is_gone) begins no more changes: its requests that have not begun never
//!    will.
//! 2. A change counts as in flight from before it begins until the volume has ended it, even if its reply is not
//!    awaited.
//! 3. A connection begins no change before the changes of all connections have ended that were gone when it arrived.
//!    It polls each of their sockets itself, because the worker of another connection may not have seen yet that its
//!    client has closed it.
//! 4. It polls its own socket too: its requests may have been in the socket while its client came back on another one.
//!
//! If a client disappears without a notification, for example because a network was cut, it cannot be distinguished
//! from a slow one. In this case the volume must complete changes of the same place in order of arrival.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// All connections to an export.
#[derive(Debug, Default)]
pub(super) struct Presences(Mutex<Vec<Arc<Presence>>>);

/// A connection to an export.
#[derive(Debug)]
pub(super) struct Presence {
    /// Its socket, for polling, until it leaves. Then the sender of its last replies closes the socket.
    socket: Mutex<Option<OwnedFd>>,
    is_gone: AtomicBool,
    /// Changes in flight.
    changes: AtomicUsize,
    /// Wakers of tasks that wait until it has no changes in flight; it is gone.
    waiting: Mutex<Vec<Waker>>,
}

/// A change in flight; ends when dropped.
#[derive(Debug)]
pub(super) struct Change(Arc<Presence>);

impl Presences {
    /// Adds a connection. Returns it, and the connections that were gone before it.
    pub(super) fn enter(&self, socket: OwnedFd) -> (Arc<Presence>, Vec<Arc<Presence>>) {
        let presence = Presence {
            socket: Mutex::new(Some(socket)),
            is_gone: AtomicBool::new(false),
            changes: AtomicUsize::new(0),
            waiting: Mutex::default(),
        };
        let presence = Arc::new(presence);
        let mut all = lock(&self.0);
        // Under the lock: a later connection finds this one, and all earlier ones have been polled.
        presence.look();
        let gone = all.iter().filter(|other| other.look()).cloned().collect();
        all.push(Arc::clone(&presence));
        (presence, gone)
    }

    /// Removes a connection. It stays listed while it has changes in flight.
    pub(super) fn leave(&self, presence: &Arc<Presence>) {
        presence.goes();
        *lock(&presence.socket) = None;
        lock(&self.0).retain(|other| !other.has_left());
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        lock(&self.0).len()
    }
}

impl Presence {
    /// The client has closed the connection, so the connection begins no more changes.
    pub(super) fn goes(&self) {
        self.is_gone.store(true, Ordering::SeqCst);
    }

    /// Polls whether its client has closed the connection. If so, it is gone from now on.
    fn look(&self) -> bool {
        if !self.is_gone() {
            let closed = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
            let socket = lock(&self.socket);
            let mut fds: Vec<_> =
                socket.iter().map(|fd| PollFd::new(fd, PollFlags::RDHUP)).collect();
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            // If the poll fails, it is treated as present.
            let _ = poll(&mut fds, Some(&at_once));
            if fds.iter().any(|fd| fd.revents().intersects(closed)) {
                self.goes();
            }
        }
        self.is_gone()
    }

    pub(super) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::SeqCst)
    }

    /// Begins a change, unless the connection is gone.
    pub(super) fn begin(self: &Arc<Self>) -> Option<Change> {
        // Count before the check: a thread that finds it gone then also finds this change, or the change is not begun.
        self.changes.fetch_add(1, Ordering::SeqCst);
        let change = Change(Arc::clone(self));
        (!self.is_gone()).then_some(change)
    }

    /// Whether the connection is gone, its socket has been taken, and its changes have ended.
    fn has_left(&self) -> bool {
        self.is_gone() && lock(&self.socket).is_none() && self.has_settled()
    }

    fn has_settled(&self) -> bool {
        self.changes.load(Ordering::SeqCst) == 0
    }

    /// Whether it has no changes in flight. It must be gone.
    fn poll_settled(&self, cx: &Context<'_>) -> Poll<()> {
        debug_assert!(self.is_gone(), "others begin new ones");
        let mut waiting = lock(&self.waiting);
        if self.has_settled() {
            return Poll::Ready(());
        }
        if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

/// Whether none of these gone connections has changes in flight. Removes those without changes.
pub(super) fn poll_all_settled(gone: &mut Vec<Arc<Presence>>, cx: &Context<'_>) -> Poll<()> {
    gone.retain(|presence| presence.poll_settled(cx).is_pending());
    if gone.is_empty() { Poll::Ready(()) } else { Poll::Pending }
}

impl Drop for Change {
    fn drop(&mut self) {
        let presence = &self.0;
        // Under the lock: a task that sees a change left is in the list before the last change ends.
        let mut waiting = lock(&presence.waiting);
        if presence.changes.fetch_sub(1, Ordering::SeqCst) == 1 && presence.is_gone() {
            let woken = std::mem::take(&mut *waiting);
            drop(waiting);
            woken.into_iter().for_each(Waker::wake);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn settled(gone: &mut Vec<Arc<Presence>>) -> bool {
        poll_all_settled(gone, &Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn a_client_that_comes_back_waits_for_its_earlier_requests() {
        let presences = Presences::default();
        let (client, server) = UnixStream::pair().unwrap();
        let (first, mut gone) = presences.enter(server.into());
        assert!(settled(&mut gone));
        let changes = [first.begin().unwrap(), first.begin().unwrap()];
        drop(client);

        let (_other_client, server) = UnixStream::pair().unwrap();
        let (second, mut gone) = presences.enter(server.into());
        assert!(first.is_gone(), "though no call has told it");
        assert!(first.begin().is_none(), "what was not begun never is");
        let [one, other] = changes;
        assert!(!settled(&mut gone));
        drop(one);
        assert!(!settled(&mut gone));
        drop(other);
        assert!(settled(&mut gone));
        presences.leave(&first);
        assert!(second.begin().is_some());
        presences.leave(&second);
        assert_eq!(presences.count(), 0);
    }

    /// Its requests were in its socket while its client came back on another one and was served.
    #[test]
    fn a_client_that_is_gone_before_it_enters_changes_nothing() {
        let presences = Presences::default();
        let (client, server) = UnixStream::pair().unwrap();
        drop(client);
        let (late, _) = presences.enter(server.into());
        assert!(late.begin().is_none());
        presences.leave(&late);
        assert_eq!(presences.count(), 0);
    }

    #[test]
    fn a_connected_client_does_not_delay_other_clients() {
        let presences = Presences::default();
        let (_client, server) = UnixStream::pair().unwrap();
        let (first, _) = presences.enter(server.into());
        let _change = first.begin().unwrap();
        let (_other_client, server) = UnixStream::pair().unwrap();
        let (_second, mut gone) = presences.enter(server.into());
        assert!(settled(&mut gone) && !first.is_gone());
    }
}
