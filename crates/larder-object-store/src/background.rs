//! Where fetches run: on the tokio runtime of the caller, where the user says, or on a thread of the store.
//!
//! A fetch never runs inside the future of a reader. So a reader that is dropped, or that waits for something else,
//! holds up no other reader and keeps no slot of the store.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread;

use async_task::Runnable;

/// A fetch, to be polled to its end.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs tasks, for example on a runtime of the user.
///
/// ```
/// use larder_object_store::{Options, Spawn};
///
/// let spawn = Spawn::new(|task| {
///     std::thread::spawn(|| larder::block_on(task));
/// });
/// let options = Options { spawn: Some(spawn), ..Options::default() };
/// options.check()?;
/// # Ok::<(), larder_object_store::Error>(())
/// ```
#[derive(Clone)]
pub struct Spawn(Arc<dyn Fn(Task) + Send + Sync>);

impl Spawn {
    /// A function that takes a task and returns at once. If it drops the task, its readers ask the store again.
    pub fn new(spawn: impl Fn(Task) + Send + Sync + 'static) -> Self {
        Self(Arc::new(spawn))
    }
}

impl fmt::Debug for Spawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spawn")
    }
}

/// Where the fetches of a store run.
#[derive(Debug)]
pub(crate) struct Background {
    spawn: Option<Spawn>,
    /// The queue of the store's own thread, which starts with the first task and ends with the store.
    own: OnceLock<Option<Sender<Runnable>>>,
}

impl Background {
    pub(crate) fn new(spawn: Option<Spawn>) -> Self {
        Self { spawn, own: OnceLock::new() }
    }

    /// Runs a task.
    pub(crate) fn spawn(&self, task: Task) {
        if let Some(Spawn(spawn)) = &self.spawn {
            return spawn(task);
        }
        #[cfg(feature = "tokio")]
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            drop(runtime.spawn(task));
            return;
        }
        match self.own.get_or_init(start_thread) {
            Some(queue) => {
                let queue = queue.clone();
                // If the thread has ended, the task is dropped, and its readers ask again.
                let schedule = move |runnable| _ = queue.send(runnable);
                let (runnable, handle) = async_task::spawn(task, schedule);
                handle.detach();
                runnable.schedule();
            }
            None => larder::block_on(task),
        }
    }
}

/// A thread that runs what comes; `None` if the system has no thread left.
fn start_thread() -> Option<Sender<Runnable>> {
    let (sender, receiver) = channel::<Runnable>();
    let run = move || {
        for runnable in receiver {
            // A store that panics costs its own fetch.
            let _ = catch_unwind(AssertUnwindSafe(|| runnable.run()));
        }
    };
    thread::Builder::new().name("larder-objects".to_owned()).spawn(run).ok()?;
    Some(sender)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn without_a_runtime_a_thread_runs_tasks_and_outlives_a_panic() {
        let background = Background::new(None);
        background.spawn(Box::pin(async { panic!("a store panics") }));
        let (sender, receiver) = mpsc::channel();
        background.spawn(Box::pin(async move { sender.send(thread::current().id()).unwrap() }));
        let ran_on = receiver.recv_timeout(Duration::from_secs(30)).unwrap();
        assert_ne!(ran_on, thread::current().id());
    }

    #[test]
    fn tasks_go_where_the_user_says() {
        let (sender, receiver) = mpsc::channel();
        let background = Background::new(Some(Spawn::new(move |task| sender.send(task).unwrap())));
        background.spawn(Box::pin(async {}));
        larder::block_on(receiver.try_recv().unwrap());
    }
}
