//! Tasks by number, and which of them were woken. The caller chooses which one to poll next.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// A future run by the simulation.
pub(crate) type Running<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Futures by number.
pub(crate) struct Tasks<'a, T> {
    ready: Arc<Ready>,
    wakers: Vec<(Arc<Woken>, Waker)>,
    tasks: Vec<Option<Running<'a, T>>>,
    running: usize,
}

#[derive(Default)]
struct Ready(Mutex<VecDeque<usize>>);

impl Ready {
    fn lock(&self) -> MutexGuard<'_, VecDeque<usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Woken {
    number: usize,
    /// Whether it is already in the list.
    listed: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        if !self.listed.swap(true, Ordering::Relaxed) {
            self.ready.lock().push_back(self.number);
        }
    }
}

impl<'a, T> Tasks<'a, T> {
    /// Creates space for `tasks` tasks.
    pub(crate) fn new(tasks: usize) -> Self {
        let mut made =
            Self { ready: Arc::default(), wakers: Vec::new(), tasks: Vec::new(), running: 0 };
        (0..tasks).for_each(|_| _ = made.add_room());
        made
    }

    /// Adds space for one more task. Returns its number.
    pub(crate) fn add_room(&mut self) -> usize {
        let (number, listed) = (self.tasks.len(), AtomicBool::new(false));
        let woken = Arc::new(Woken { number, listed, ready: Arc::clone(&self.ready) });
        self.wakers.push((Arc::clone(&woken), Waker::from(woken)));
        self.tasks.push(None);
        number
    }

    /// Number of tasks that have not ended.
    pub(crate) fn running(&self) -> usize {
        self.running
    }

    /// Whether any task was woken.
    pub(crate) fn is_any_ready(&self) -> bool {
        !self.ready.lock().is_empty()
    }

    pub(crate) fn is_running(&self, number: usize) -> bool {
        self.tasks[number].is_some()
    }

    /// Starts a task under a free number.
    pub(crate) fn spawn(&mut self, number: usize, future: Running<'a, T>) {
        assert!(self.tasks[number].is_none(), "task {number} is running already");
        self.tasks[number] = Some(future);
        self.running += 1;
        self.wakers[number].1.wake_by_ref();
    }

    /// Takes one of the woken tasks: `choose` gets their number, and returns an index.
    pub(crate) fn next(&mut self, mut choose: impl FnMut(usize) -> usize) -> Option<usize> {
        self.take(|ready| match ready.len() {
            0 => None,
            woken => ready.swap_remove_back(choose(woken)),
        })
    }

    /// Takes the task that was woken first.
    pub(crate) fn next_woken(&mut self) -> Option<usize> {
        self.take(VecDeque::pop_front)
    }

    fn take(
        &mut self,
        mut take: impl FnMut(&mut VecDeque<usize>) -> Option<usize>,
    ) -> Option<usize> {
        loop {
            let number = take(&mut self.ready.lock())?;
            self.wakers[number].0.listed.store(false, Ordering::Relaxed);
            if self.tasks[number].is_some() {
                return Some(number);
            }
        }
    }

    /// Polls a task. `Some` if it has ended.
    pub(crate) fn poll(&mut self, number: usize) -> Option<T> {
        let future = self.tasks[number].as_mut()?;
        let mut context = Context::from_waker(&self.wakers[number].1);
        let Poll::Ready(output) = future.as_mut().poll(&mut context) else { return None };
        self.tasks[number] = None;
        self.running -= 1;
        Some(output)
    }

    /// Drops a task. Returns whether there was one.
    pub(crate) fn drop_task(&mut self, number: usize) -> bool {
        let was_running = self.tasks[number].take().is_some();
        self.running -= usize::from(was_running);
        was_running
    }
}
