//! Work that one does for all who wait for it, one at a time: a block of the log of tombstones, a flush of the device.
//!
//! Whoever waits does not queue for a turn of its own, which it seldom needs: in a queue of sixty each would have to
//! run before the next one learns that its work was done with theirs. It waits for the end of anybody's turn, looks,
//! and takes the next turn only if nobody else has.
//!
//! A turn guards what is under way (`T`), which outlives the one who began it: who is dropped leaves it there, and
//! whoever takes the next turn goes on with it.

use std::ops::{Deref, DerefMut};

use async_lock::{Mutex, MutexGuard};
use event_listener::{Event, EventListener};

use crate::signal::ALL;

/// The turn to work.
#[derive(Default)]
pub(crate) struct Turns<T> {
    turn: Mutex<T>,
    ended: Event,
}

/// Somebody's turn. Dropping it tells all who wait.
pub(crate) struct Taken<'a, T> {
    turn: Option<MutexGuard<'a, T>>,
    ended: &'a Event,
}

impl<T> Turns<T> {
    /// Waits for a turn.
    pub(crate) async fn lock(&self) -> Taken<'_, T> {
        Taken { turn: Some(self.turn.lock().await), ended: &self.ended }
    }

    /// A turn, if it is nobody else's.
    pub(crate) fn try_lock(&self) -> Option<Taken<'_, T>> {
        self.turn.try_lock().map(|turn| Taken { turn: Some(turn), ended: &self.ended })
    }

    /// Ends when a turn ends that has not ended yet. Listen first, and look afterwards.
    pub(crate) fn end(&self) -> EventListener {
        self.ended.listen()
    }
}

impl<T> Deref for Taken<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.turn.as_ref().expect("it is taken by its drop alone")
    }
}

impl<T> DerefMut for Taken<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.turn.as_mut().expect("it is taken by its drop alone")
    }
}

impl<T> Drop for Taken<'_, T> {
    fn drop(&mut self) {
        // First this: whoever is told may want the turn.
        drop(self.turn.take());
        self.ended.notify(ALL);
    }
}
