//! Who writes the log: one at a time, for all who wait.
//!
//! Whoever waits for its tombstone does not queue for a turn of its own, which it seldom needs: in a queue of
//! sixty each would have to run before the next one learns that its tombstone was written with theirs. It waits for the
//! end of anybody's turn, looks, and takes the next turn only if nobody else has.

use std::ops::{Deref, DerefMut};

use async_lock::{Mutex, MutexGuard};
use event_listener::{Event, EventListener};

use super::Turn;
use crate::signal::ALL;

/// The turn to write.
#[derive(Default)]
pub(super) struct Turns {
    turn: Mutex<Turn>,
    ended: Event,
}

/// Somebody's turn. Dropping it tells all who wait.
pub(super) struct Writing<'a> {
    turn: Option<MutexGuard<'a, Turn>>,
    ended: &'a Event,
}

impl Turns {
    /// Waits for a turn.
    pub(super) async fn lock(&self) -> Writing<'_> {
        Writing { turn: Some(self.turn.lock().await), ended: &self.ended }
    }

    /// A turn, if it is nobody else's.
    pub(super) fn try_lock(&self) -> Option<Writing<'_>> {
        self.turn.try_lock().map(|turn| Writing { turn: Some(turn), ended: &self.ended })
    }

    /// Ends when a turn ends that has not ended yet. Listen first, and look afterwards.
    pub(super) fn end(&self) -> EventListener {
        self.ended.listen()
    }
}

impl Deref for Writing<'_> {
    type Target = Turn;

    fn deref(&self) -> &Turn {
        self.turn.as_ref().expect("it is taken by its drop alone")
    }
}

impl DerefMut for Writing<'_> {
    fn deref_mut(&mut self) -> &mut Turn {
        self.turn.as_mut().expect("it is taken by its drop alone")
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        // First this: whoever is told may want the turn.
        drop(self.turn.take());
        self.ended.notify(ALL);
    }
}
