//! The tasks of a worker: each runs when it was woken, on this thread only.

use std::cell::RefCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use async_task::{Runnable, Task};
use slab::Slab;

use super::mailbox::Mailbox;

/// A task that goes on waking itself does not keep the loop from its sockets: so often it is run in a turn.
const ROUNDS_A_TURN: usize = 4;

/// See the module.
pub(crate) struct Tasks {
    mailbox: Arc<Mailbox>,
    /// All that have not ended. What is dropped here is not polled again.
    tasks: RefCell<Slab<Task<()>>>,
    /// Where in `tasks` those were that have.
    ended: Rc<RefCell<Vec<usize>>>,
    /// Kept for its memory.
    woken: RefCell<Vec<Runnable>>,
}

/// Says that a task has ended, also by a panic.
struct Ends(usize, Rc<RefCell<Vec<usize>>>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.1.borrow_mut().push(self.0);
    }
}

impl Tasks {
    pub(crate) fn new(mailbox: Arc<Mailbox>) -> Self {
        mailbox.belongs_here();
        Self { mailbox, tasks: RefCell::default(), ended: Rc::default(), woken: RefCell::default() }
    }

    /// Begins a task, which runs to its end whether or not somebody waits for it.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        let mailbox = Arc::clone(&self.mailbox);
        let mut tasks = self.tasks.borrow_mut();
        let place = tasks.vacant_entry();
        let ends = Ends(place.key(), Rc::clone(&self.ended));
        // A future that awaits another has room for it twice: as what it was given, and as what it waits for. Behind a
        // pointer there is one.
        let mut future = Box::pin(future);
        let future = async move {
            future.as_mut().await;
            drop(ends);
        };
        let (runnable, task) = async_task::spawn_local(future, move |task| mailbox.wake(task));
        place.insert(task);
        runnable.schedule();
    }

    /// Runs all tasks that were woken, and those that they wake, for a few rounds.
    pub(crate) fn run_all(&self) {
        let mut woken = self.woken.borrow_mut();
        for _ in 0..ROUNDS_A_TURN {
            self.mailbox.take_woken(&mut woken);
            if woken.is_empty() {
                return;
            }
            for task in woken.drain(..) {
                // One connection's mistake is no other's end. It was dropped by its panic.
                let _ = catch_unwind(AssertUnwindSafe(|| task.run()));
            }
            let mut tasks = self.tasks.borrow_mut();
            self.ended.borrow_mut().drain(..).for_each(|place| drop(tasks.remove(place)));
        }
    }

    /// Drops all tasks, and with them what they hold.
    pub(crate) fn drop_all(&self) {
        let tasks = std::mem::take(&mut *self.tasks.borrow_mut());
        drop(tasks);
        // Whoever was dropped is run once more, which drops it; nothing is polled.
        let mut woken = Vec::new();
        self.mailbox.take_woken(&mut woken);
        drop(woken);
        self.ended.borrow_mut().clear();
    }
}
