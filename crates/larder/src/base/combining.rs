//! Work that one task does for all waiters, one at a time: a block of the tombstone log, a flush of the device.
//!
//! A waiter does not queue for a turn of its own, because it seldom needs one. In a queue of sixty, each waiter would
//! have to run before the next one learns that its work was done together with theirs. Instead a waiter waits for the
//! end of any turn, checks, and takes the next turn only if it is free.
//!
//! A turn guards the work in flight (`T`), which outlives the task that began it: if that task is dropped, the work
//! stays there, and the next task that takes the turn continues it.

use std::ops::{Deref, DerefMut};

use async_lock::{Mutex, MutexGuard};
use event_listener::{Event, EventListener};

use crate::base::signal::ALL;

/// The turn to work; one task has it at a time.
#[derive(Default)]
pub(crate) struct Combining<T> {
    turn: Mutex<T>,
    ended: Event,
}

/// A turn that a task has taken. Dropping it wakes all waiters.
pub(crate) struct CombiningTurn<'a, T> {
    turn: Option<MutexGuard<'a, T>>,
    ended: &'a Event,
}

impl<T> Combining<T> {
    /// Waits for a turn.
    pub(crate) async fn lock(&self) -> CombiningTurn<'_, T> {
        CombiningTurn { turn: Some(self.turn.lock().await), ended: &self.ended }
    }

    /// Takes the turn, if it is free.
    pub(crate) fn try_lock(&self) -> Option<CombiningTurn<'_, T>> {
        self.turn.try_lock().map(|turn| CombiningTurn { turn: Some(turn), ended: &self.ended })
    }

    /// Completes at the next end of a turn. Listen first, check your condition afterwards.
    pub(crate) fn end(&self) -> EventListener {
        self.ended.listen()
    }
}

impl<T> Deref for CombiningTurn<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.turn.as_ref().expect("it is taken by its drop alone")
    }
}

impl<T> DerefMut for CombiningTurn<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.turn.as_mut().expect("it is taken by its drop alone")
    }
}

impl<T> Drop for CombiningTurn<'_, T> {
    fn drop(&mut self) {
        // Release the turn first, because a woken task may want it.
        drop(self.turn.take());
        self.ended.notify(ALL);
    }
}
