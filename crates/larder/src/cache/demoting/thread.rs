//! The sender thread, and the other senders.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use larder_device::block_on;

use super::super::core::Core;
use crate::base::signal::ALL;
use crate::config::Demotions;

/// The sender of demotions.
pub(super) struct Sender {
    mode: Demotions,
    core: Arc<Core>,
    state: Arc<DemotingState>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct DemotingState {
    /// The thread has started and has not ended.
    runs: AtomicBool,
    /// The thread must not be started any more: it has ended, or could not be created.
    over: AtomicBool,
    stop: AtomicBool,
    /// Number of tasks in [`Larder::send_demotions`](crate::Larder::send_demotions).
    tasks: AtomicUsize,
}

impl Sender {
    pub(super) fn new(mode: Demotions, core: &Arc<Core>) -> Self {
        let (core, state) = (Arc::clone(core), Arc::default());
        Self { mode, core, state, thread: Mutex::default() }
    }

    /// Whether the thread sends by itself; `false` while another task wants the gate.
    pub(super) fn sends(&self) -> bool {
        self.state.runs.load(Ordering::SeqCst) && !self.core.gate.is_wanted()
    }

    /// Whether a thread or a task sends, so that a caller that brings something need not help. Starts the thread if
    /// records wait for it.
    pub(super) fn relieves(&self) -> bool {
        let is_over = self.state.over.load(Ordering::Relaxed);
        match self.mode {
            Demotions::Thread if !is_over => {
                self.state.runs.load(Ordering::Relaxed)
                    || !self.core.dram.demotions().wait()
                    || self.begin()
            }
            _ => self.state.tasks.load(Ordering::Relaxed) > 0,
        }
    }

    /// Starts the thread. `false` if it cannot be created.
    #[cold]
    fn begin(&self) -> bool {
        let mut thread = self.lock();
        if thread.is_some() || self.state.over.load(Ordering::SeqCst) {
            return thread.is_some();
        }
        let (core, state) = (Arc::clone(&self.core), Arc::clone(&self.state));
        let before = self.state.runs.swap(true, Ordering::SeqCst);
        assert!(!before, "a cache has one thread");
        let begun = Builder::new().name("larder-flash".to_owned()).spawn(move || {
            let _ends = Ends { core: &core, state: &state };
            block_on(core.send_until_closed(&state.stop, || ()));
        });
        match begun {
            Ok(begun) => *thread = Some(begun),
            // Without the thread callers send.
            Err(_) => drop(Ends { core: &self.core, state: &self.state }),
        }
        thread.is_some()
    }

    /// Sends until the cache is closed, with [`Demotions::Callers`].
    pub(super) async fn send_as_a_task(&self) {
        if self.mode == Demotions::Thread {
            return;
        }
        self.state.tasks.fetch_add(1, Ordering::SeqCst);
        self.core.dram.demotions().set_ahead(true);
        let task = Task(self);
        let stop = AtomicBool::new(false);
        let core = &self.core;
        core.send_until_closed(&stop, || core.counters.removals.tell()).await;
        drop(task);
    }

    fn lock(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs at the end of the thread, also after a panic: callers send what is left.
struct Ends<'a> {
    core: &'a Core,
    state: &'a DemotingState,
}

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::SeqCst);
        let ran = self.state.runs.swap(false, Ordering::SeqCst);
        debug_assert!(ran, "what ends had begun");
        self.core.dram.demotions().set_ahead(false);
        // Wake the callers that wait for room, so that they check for a sender.
        self.core.dram.demotions().unattended.notify(ALL);
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::SeqCst);
        self.state.stop.store(true, Ordering::SeqCst);
        self.core.dram.demotions().added.notify(ALL);
        if let Some(thread) = self.lock().take() {
            // The thread calls no code that could drop the cache, and does not wait once it is told to stop.
            assert_ne!(thread.thread().id(), std::thread::current().id(), "it drops no cache");
            // A panic of the thread has already printed its own message.
            let _ = thread.join();
        }
    }
}

/// A task in [`Larder::send_demotions`](crate::Larder::send_demotions).
struct Task<'a>(&'a Sender);

impl Drop for Task<'_> {
    fn drop(&mut self) {
        let before = self.0.state.tasks.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(before > 0, "a task that ends was counted");
        if before == 1 {
            self.0.core.dram.demotions().set_ahead(false);
        }
    }
}
