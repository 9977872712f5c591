//! Tasks by number, and those of them that somebody has woken. Who is polled next is the caller's
//! choice.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// A future that the simulation runs.
pub(super) type Running<T> = Pin<Box<dyn Future<Output = T>>>;

/// Runs futures, each under a number.
pub(super) struct Executor<T> {
    ready: Arc<Ready>,
    wakers: Vec<(Arc<Woken>, Waker)>,
    tasks: Vec<Option<Running<T>>>,
    running: usize,
}

#[derive(Default)]
struct Ready(Mutex<Vec<usize>>);

impl Ready {
    fn lock(&self) -> MutexGuard<'_, Vec<usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Woken {
    number: usize,
    /// Whether it is in the list already.
    listed: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        if !self.listed.swap(true, Ordering::Relaxed) {
            self.ready.lock().push(self.number);
        }
    }
}

impl<T> Executor<T> {
    /// Room for so many tasks.
    pub(super) fn new(tasks: usize) -> Self {
        let ready = Arc::new(Ready::default());
        let waker = |number| {
            let listed = AtomicBool::new(false);
            let woken = Arc::new(Woken { number, listed, ready: Arc::clone(&ready) });
            (Arc::clone(&woken), Waker::from(woken))
        };
        let wakers = (0..tasks).map(waker).collect();
        let tasks = (0..tasks).map(|_| None).collect();
        Self { ready, wakers, tasks, running: 0 }
    }

    /// Tasks that have not ended.
    pub(super) fn running(&self) -> usize {
        self.running
    }

    pub(super) fn is_running(&self, number: usize) -> bool {
        self.tasks[number].is_some()
    }

    /// Starts a task where none is running.
    pub(super) fn spawn(&mut self, number: usize, future: Running<T>) {
        self.tasks[number] = Some(future);
        self.running += 1;
        self.wakers[number].1.wake_by_ref();
    }

    /// Takes one of those that can go on.
    pub(super) fn next(&mut self, rng: &mut fastrand::Rng) -> Option<usize> {
        loop {
            let mut ready = self.ready.lock();
            if ready.is_empty() {
                return None;
            }
            let at = rng.usize(..ready.len());
            let number = ready.swap_remove(at);
            drop(ready);
            self.wakers[number].0.listed.store(false, Ordering::Relaxed);
            if self.tasks[number].is_some() {
                return Some(number);
            }
        }
    }

    /// Goes on with a task. `Some` if it has ended.
    pub(super) fn poll(&mut self, number: usize) -> Option<T> {
        let future = self.tasks[number].as_mut()?;
        let mut context = Context::from_waker(&self.wakers[number].1);
        let Poll::Ready(output) = future.as_mut().poll(&mut context) else { return None };
        self.tasks[number] = None;
        self.running -= 1;
        Some(output)
    }

    /// Drops a task. Says whether there was one.
    pub(super) fn drop_task(&mut self, number: usize) -> bool {
        let was_running = self.tasks[number].take().is_some();
        self.running -= usize::from(was_running);
        was_running
    }
}
