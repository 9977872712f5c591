//! Answers that come later: futures of the cache that one thread runs, and the count of those not done.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use async_task::Runnable;

/// The thread that runs futures, and how many there are.
pub(crate) struct Answers {
    tasks: Sender<Runnable>,
    pending: Arc<Pending>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Pending {
    count: Mutex<usize>,
    none: Condvar,
}

impl Pending {
    fn change(&self, by: impl FnOnce(&mut usize)) {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        by(&mut count);
        if *count == 0 {
            self.none.notify_all();
        }
    }
}

impl Answers {
    /// # Errors
    /// Those of the system, if it has no thread left.
    pub(crate) fn new() -> std::io::Result<Self> {
        let (tasks, runs): (_, Receiver<Runnable>) = channel();
        let run = move || {
            for task in runs {
                task.run();
            }
        };
        let thread = std::thread::Builder::new().name("larder-answers".to_owned()).spawn(run)?;
        Ok(Self { tasks, pending: Arc::default(), thread })
    }

    /// Runs a future.
    pub(crate) fn run(&self, future: impl Future<Output = ()> + Send + 'static) {
        let (tasks, pending) = (self.tasks.clone(), Arc::clone(&self.pending));
        pending.change(|count| *count += 1);
        let counted = async move {
            future.await;
            pending.change(|count| *count -= 1);
        };
        // The thread receives until all futures have ended.
        let schedule = move |task| drop(tasks.send(task));
        let (runnable, task) = async_task::spawn(counted, schedule);
        task.detach();
        runnable.schedule();
    }

    /// Waits until all have ended.
    pub(crate) fn wait(&self) {
        let mut count = self.pending.count.lock().unwrap_or_else(PoisonError::into_inner);
        while *count > 0 {
            count = self.pending.none.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the thread, when all have ended.
    pub(crate) fn end(self) {
        self.wait();
        drop(self.tasks);
        // It does not panic: panics of tasks end the process.
        let _ = self.thread.join();
    }

    /// Whether the caller is the thread that runs them.
    pub(crate) fn is_here(&self) -> bool {
        self.thread.thread().id() == std::thread::current().id()
    }
}
