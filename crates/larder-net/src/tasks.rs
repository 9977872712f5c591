//! The futures of a thread. Each runs when it was woken, on this thread only.

use std::cell::RefCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use async_task::{Runnable, Task};
use slab::Slab;

use crate::mailbox::Mailbox;

/// Rounds of woken tasks per turn: a task that keeps waking itself does not keep the loop from its sockets.
const ROUNDS_A_TURN: usize = 4;

/// The tasks of a thread.
pub struct Tasks<L> {
    mailbox: Arc<Mailbox<L>>,
    /// All tasks that have not ended. A task that is dropped here is not polled again.
    tasks: RefCell<Slab<Task<()>>>,
    /// The places in `tasks` of tasks that have ended.
    ended: Rc<RefCell<Vec<usize>>>,
    /// Kept for its allocation.
    woken: RefCell<Vec<Runnable>>,
}

/// Records that a task has ended, even by a panic.
struct TaskEndGuard(usize, Rc<RefCell<Vec<usize>>>);

impl Drop for TaskEndGuard {
    fn drop(&mut self) {
        self.1.borrow_mut().push(self.0);
    }
}

impl<L: Send + 'static> Tasks<L> {
    /// No tasks. The mailbox is that of the calling thread.
    pub fn new(mailbox: Arc<Mailbox<L>>) -> Self {
        Self { mailbox, tasks: RefCell::default(), ended: Rc::default(), woken: RefCell::default() }
    }

    /// Starts a task, which runs to its end whether or not anything waits for it.
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        let mailbox = Arc::clone(&self.mailbox);
        let mut tasks = self.tasks.borrow_mut();
        let place = tasks.vacant_entry();
        let ends = TaskEndGuard(place.key(), Rc::clone(&self.ended));
        // A future that awaits another has room for it twice: as its argument, and as what it awaits. Boxed, there is
        // one.
        let mut future = Box::pin(future);
        let future = async move {
            future.as_mut().await;
            drop(ends);
        };
        let (runnable, task) = async_task::spawn_local(future, move |task| mailbox.push_task(task));
        place.insert(task);
        runnable.schedule();
    }

    /// Runs all woken tasks, and those that they wake, for up to four rounds.
    pub fn run_all(&self) {
        let mut woken = self.woken.borrow_mut();
        for _ in 0..ROUNDS_A_TURN {
            self.mailbox.take_tasks(&mut woken);
            if woken.is_empty() {
                return;
            }
            for task in woken.drain(..) {
                // A panic of one connection must not end the others. The panic has dropped the task.
                let _ = catch_unwind(AssertUnwindSafe(|| task.run()));
            }
            let mut tasks = self.tasks.borrow_mut();
            self.ended.borrow_mut().drain(..).for_each(|place| drop(tasks.remove(place)));
        }
    }

    /// Drops all tasks, and with them what they hold.
    pub fn drop_all(&self) {
        let tasks = std::mem::take(&mut *self.tasks.borrow_mut());
        drop(tasks);
        // Dropping a task schedules it once more; dropping that `Runnable` frees it, and nothing is polled.
        let mut woken = Vec::new();
        self.mailbox.take_tasks(&mut woken);
        drop(woken);
        self.ended.borrow_mut().clear();
    }
}
