//! What other threads send to a thread of a server: messages, woken tasks, and wakes.

use std::io;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use async_task::Runnable;

use crate::sockets::Inbox;

/// The mailbox of a thread. Messages are sent by its [`Inbox`].
#[derive(Debug)]
pub struct Mailbox<L> {
    inbox: Inbox<L>,
    tasks: Mutex<Vec<Runnable>>,
    /// Whether a waker was called since the thread last checked.
    is_woken: AtomicBool,
}

impl<L> Mailbox<L> {
    /// An empty mailbox.
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub fn new() -> io::Result<Self> {
        let (tasks, is_woken) = (Mutex::default(), AtomicBool::new(false));
        Ok(Self { inbox: Inbox::new()?, tasks, is_woken })
    }

    /// Queues a woken task; callable from any thread.
    pub(crate) fn push_task(&self, task: Runnable) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(task);
        self.inbox.signal_from_elsewhere();
    }

    /// Swaps the woken tasks into `none`, which must be empty.
    pub(crate) fn take_tasks(&self, none: &mut Vec<Runnable>) {
        debug_assert!(none.is_empty(), "nothing is lost");
        std::mem::swap(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner), none);
    }

    /// Puts tasks back, before those that were woken since they were taken.
    pub(crate) fn put_back(&self, woken: &mut Vec<Runnable>) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        woken.append(&mut tasks);
        std::mem::swap(&mut *tasks, woken);
    }

    /// Whether the thread must not sleep: there are woken tasks, or a waker was called since the last call. Messages
    /// end the sleep by themselves.
    pub(crate) fn take_woken(&self) -> bool {
        self.is_woken.swap(false, Ordering::SeqCst)
            || !self.tasks.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

impl<L: Send + 'static> Mailbox<L> {
    /// A waker that ends the current or next sleep of the thread, for clocks, rings and futures that it polls itself.
    pub fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }
}

impl<L> Deref for Mailbox<L> {
    type Target = Inbox<L>;

    fn deref(&self) -> &Self::Target {
        &self.inbox
    }
}

impl<L: Send + 'static> Wake for Mailbox<L> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        self.inbox.signal_from_elsewhere();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_of_the_own_thread_is_kept_until_it_looks_and_needs_no_signal() {
        let mailbox = Arc::new(Mailbox::<()>::new().unwrap());
        mailbox.belongs_here();
        assert!(!mailbox.take_woken());
        mailbox.waker().wake();
        assert!(mailbox.take_woken() && !mailbox.take_woken());
    }

    #[test]
    fn woken_tasks_forbid_sleep_until_they_are_taken() {
        let mailbox = Arc::new(Mailbox::<()>::new().unwrap());
        let schedule = {
            let mailbox = Arc::clone(&mailbox);
            move |task| mailbox.push_task(task)
        };
        let (runnable, task) = async_task::spawn(async {}, schedule);
        runnable.schedule();
        assert!(mailbox.take_woken() && mailbox.take_woken());
        let mut tasks = Vec::new();
        mailbox.take_tasks(&mut tasks);
        assert!(tasks.len() == 1 && !mailbox.take_woken());
        drop((tasks, task));
    }
}
