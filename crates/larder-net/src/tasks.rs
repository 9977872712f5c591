//! The futures of a thread. Each runs when it was woken, on this thread only.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use async_task::{Runnable, Task};
use slab::Slab;

use crate::mailbox::Mailbox;

/// Rounds of woken tasks per turn, for tasks that wake each other.
const ROUNDS_A_TURN: usize = 4;
/// Tasks that have yielded and run in a turn: a task that moves much, piece by piece, is late behind what was woken in
/// the meantime by no more than this number of pieces, however many such tasks there are.
const YIELDED_A_TURN: usize = 2;

/// The tasks of a thread.
pub struct Tasks<L> {
    mailbox: Arc<Mailbox<L>>,
    /// All tasks that have not ended. A task that is dropped here is not polled again.
    tasks: RefCell<Slab<Task<()>>>,
    /// The places in `tasks` of tasks that have ended.
    ended: Rc<RefCell<Vec<usize>>>,
    /// Kept for its allocation.
    woken: RefCell<Vec<Runnable>>,
    /// How many of the woken tasks, the first in the mailbox, have yielded.
    yielded: Cell<usize>,
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
        let (tasks, ended, woken) = (RefCell::default(), Rc::default(), RefCell::default());
        Self { mailbox, tasks, ended, woken, yielded: Cell::new(0) }
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

    /// Runs all woken tasks, and those that they wake, for up to four rounds. A task that has woken itself, to let
    /// others run, ends the turn: sockets and drives are looked at before it runs again. Then it runs behind what they
    /// have woken, and with no more than one other task that has yielded.
    pub fn run_all(&self) {
        let mut woken = self.woken.borrow_mut();
        for _ in 0..ROUNDS_A_TURN {
            self.mailbox.take_tasks(&mut woken);
            if woken.is_empty() {
                return;
            }
            let yielded = self.yielded.take().min(woken.len());
            woken.rotate_left(yielded);
            let now = woken.len() - yielded + yielded.min(YIELDED_A_TURN);
            let mut again = woken.split_off(now);
            let (mut fresh, mut since) = (Vec::new(), Vec::new());
            for task in woken.drain(..) {
                // A panic of one connection must not end the others. The panic has dropped the task.
                if catch_unwind(AssertUnwindSafe(|| task.run())).unwrap_or(false) {
                    // It is the last of those that were woken, but for what another thread wakes at this moment.
                    self.mailbox.take_tasks(&mut since);
                    again.extend(since.pop());
                    fresh.append(&mut since);
                }
            }
            let mut tasks = self.tasks.borrow_mut();
            self.ended.borrow_mut().drain(..).for_each(|place| drop(tasks.remove(place)));
            if !again.is_empty() {
                self.yielded.set(again.len());
                again.append(&mut fresh);
                return self.mailbox.put_back(&mut again);
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sockets::yield_now;

    /// Tasks of this thread, and what has run.
    fn tasks() -> (Tasks<()>, Rc<RefCell<Vec<usize>>>) {
        let mailbox = Arc::new(Mailbox::new().unwrap());
        mailbox.belongs_here();
        (Tasks::new(mailbox), Rc::default())
    }

    /// Starts a task that runs in `turns` turns.
    fn spawn(tasks: &Tasks<()>, ran: &Rc<RefCell<Vec<usize>>>, (number, turns): (usize, usize)) {
        let ran = Rc::clone(ran);
        tasks.spawn(async move {
            for _ in 0..turns {
                ran.borrow_mut().push(number);
                yield_now().await;
            }
        });
    }

    #[test]
    fn tasks_that_yield_run_few_at_a_time_behind_what_is_woken_and_all_have_their_turns() {
        let (tasks, ran) = tasks();
        (0..10).for_each(|number| spawn(&tasks, &ran, (number, 20)));
        tasks.run_all();
        assert_eq!(ran.take(), (0..10).collect::<Vec<_>>(), "none has yielded before");
        for turn in 0..20 {
            spawn(&tasks, &ran, (100 + turn, 1));
            tasks.run_all();
            let ran = ran.take();
            assert_eq!(ran[0], 100 + turn, "what comes is first");
            assert!((2..=1 + YIELDED_A_TURN).contains(&ran.len()), "{ran:?}");
        }
        let mut left: Vec<usize> = Vec::new();
        while !tasks.tasks.borrow().is_empty() {
            tasks.run_all();
            let ran = ran.take();
            assert!(ran.len() <= YIELDED_A_TURN, "{ran:?}");
            left.extend(ran);
        }
        let turns = |number| left.iter().filter(|ran| **ran == number).count();
        let (fewest, most) = ((0..10).map(turns).min(), (0..10).map(turns).max());
        assert!(most.unwrap() - fewest.unwrap() <= 1, "they take turns: {left:?}");
    }

    #[test]
    fn what_a_task_starts_before_it_yields_has_not_yielded_itself() {
        let (tasks, ran) = tasks();
        let tasks = Rc::new(tasks);
        let (its, of) = (Rc::clone(&ran), Rc::clone(&tasks));
        tasks.spawn(async move {
            for turn in 0..3 {
                for number in 0..10 {
                    let its = Rc::clone(&its);
                    of.spawn(async move { its.borrow_mut().push(10 * turn + number) });
                }
                yield_now().await;
            }
        });
        for turn in 0..3 {
            tasks.run_all();
            let before = if turn == 0 { 0..0 } else { 10 * (turn - 1)..10 * turn };
            assert_eq!(ran.take(), before.collect::<Vec<_>>(), "all that was started runs");
        }
    }

    #[test]
    fn tasks_that_wake_each_other_run_in_the_same_turn() {
        let (tasks, ran) = tasks();
        let waker: Rc<RefCell<Option<std::task::Waker>>> = Rc::default();
        let (waits, its) = (Rc::clone(&waker), Rc::clone(&ran));
        tasks.spawn(async move {
            let mut is_first = true;
            std::future::poll_fn(|cx| {
                if !std::mem::replace(&mut is_first, false) {
                    return std::task::Poll::Ready(());
                }
                *waits.borrow_mut() = Some(cx.waker().clone());
                std::task::Poll::Pending
            })
            .await;
            its.borrow_mut().push(1);
        });
        tasks.run_all();
        let its = Rc::clone(&ran);
        tasks.spawn(async move {
            its.borrow_mut().push(0);
            waker.take().unwrap().wake();
        });
        tasks.run_all();
        assert_eq!(ran.take(), [0, 1]);
    }
}
