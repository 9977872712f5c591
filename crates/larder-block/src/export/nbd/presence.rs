//! Who is connected to an export, and what of theirs may still change it.
//!
//! A client that has lost its connection and comes back must not find that a request of the old one, stalled on the
//! device or unread in a socket, lands on what it has written since. So:
//!
//! 1. Whoever is [gone](Presence::is_gone) begins no more changes: what of its requests has not begun never will.
//! 2. A change counts as under way from before it was begun until the volume has ended it, whoever waits for that.
//! 3. A connection begins no change before those of all connections have ended that were gone when it came: it looks
//!    at each socket itself, since the worker of another may not have seen yet that its client has closed it.
//! 4. It looks at its own socket too: what it says may have lain there while its client came back by another.
//!
//! A client whose end nobody was told of, as where a network is cut, cannot be told from one that is slow. Of those it
//! is left to the volume that changes of the same place end in the order in which they came.

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
    /// Its socket, to look at, until it leaves: then it closes with whoever sends its last replies.
    socket: Mutex<Option<OwnedFd>>,
    is_gone: AtomicBool,
    /// Changes under way.
    changes: AtomicUsize,
    /// Who waits for it to have none, once it is gone.
    waiting: Mutex<Vec<Waker>>,
}

/// A change under way, until it is dropped.
#[derive(Debug)]
pub(super) struct Change(Arc<Presence>);

impl Presences {
    /// Adds a connection. Returns it, and those that were gone before it.
    pub(super) fn enter(&self, socket: OwnedFd) -> (Arc<Presence>, Vec<Arc<Presence>>) {
        let presence = Presence {
            socket: Mutex::new(Some(socket)),
            is_gone: AtomicBool::new(false),
            changes: AtomicUsize::new(0),
            waiting: Mutex::default(),
        };
        let presence = Arc::new(presence);
        let mut all = lock(&self.0);
        // Under the lock: whoever comes later finds this one, and who came before has been looked at.
        presence.look();
        let gone = all.iter().filter(|other| other.look()).cloned().collect();
        all.push(Arc::clone(&presence));
        (presence, gone)
    }

    /// Takes a connection away. One that still has changes under way stays in mind.
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
    /// Its client has closed the connection: it begins no more changes.
    pub(super) fn goes(&self) {
        self.is_gone.store(true, Ordering::SeqCst);
    }

    /// Looks whether its client has closed the connection. If so, it is gone from now on.
    fn look(&self) -> bool {
        if !self.is_gone() {
            let closed = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
            let socket = lock(&self.socket);
            let mut fds: Vec<_> =
                socket.iter().map(|fd| PollFd::new(fd, PollFlags::RDHUP)).collect();
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            // Where the system does not say, it is taken for one that is there.
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

    /// Begins a change, unless it is gone.
    pub(super) fn begin(self: &Arc<Self>) -> Option<Change> {
        // Counted before it is looked: whoever finds it gone finds this change too, or it is not begun.
        self.changes.fetch_add(1, Ordering::SeqCst);
        let change = Change(Arc::clone(self));
        (!self.is_gone()).then_some(change)
    }

    /// Whether nothing is left of it.
    fn has_left(&self) -> bool {
        self.is_gone() && lock(&self.socket).is_none() && self.has_settled()
    }

    fn has_settled(&self) -> bool {
        self.changes.load(Ordering::SeqCst) == 0
    }

    /// Whether it has no changes under way. It is gone.
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

/// Whether all of those who are gone have no changes under way; then they are forgotten.
pub(super) fn poll_all_settled(gone: &mut Vec<Arc<Presence>>, cx: &Context<'_>) -> Poll<()> {
    gone.retain(|presence| presence.poll_settled(cx).is_pending());
    if gone.is_empty() { Poll::Ready(()) } else { Poll::Pending }
}

impl Drop for Change {
    fn drop(&mut self) {
        let presence = &self.0;
        // Under the lock: who finds a change left is in the list before it is the last.
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
    fn who_comes_back_waits_for_what_it_left_under_way() {
        let presences = Presences::default();
        let (client, server) = UnixStream::pair().unwrap();
        let (first, mut gone) = presences.enter(server.into());
        assert!(settled(&mut gone));
        let changes = [first.begin().unwrap(), first.begin().unwrap()];
        drop(client);

        let (_other_client, server) = UnixStream::pair().unwrap();
        let (second, mut gone) = presences.enter(server.into());
        assert!(first.is_gone(), "though nobody has told it");
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

    /// Its requests lay in its socket while its client came back by another, and was served.
    #[test]
    fn who_is_gone_before_it_comes_changes_nothing() {
        let presences = Presences::default();
        let (client, server) = UnixStream::pair().unwrap();
        drop(client);
        let (late, _) = presences.enter(server.into());
        assert!(late.begin().is_none());
        presences.leave(&late);
        assert_eq!(presences.count(), 0);
    }

    #[test]
    fn who_is_there_holds_nobody_back() {
        let presences = Presences::default();
        let (_client, server) = UnixStream::pair().unwrap();
        let (first, _) = presences.enter(server.into());
        let _change = first.begin().unwrap();
        let (_other_client, server) = UnixStream::pair().unwrap();
        let (_second, mut gone) = presences.enter(server.into());
        assert!(settled(&mut gone) && !first.is_gone());
    }
}
