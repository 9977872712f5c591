//! Somebody who looks at entries of the index, and how it learns that one is not what it was.
//!
//! Between an entry that a reader without a lock has seen and the pin that keeps its record, the record may
//! be gone: the segment is used again as soon as no entry names it and nobody pins it, and waits for no
//! reader. So whoever has pinned looks once more: at the entry, which whoever uses a segment again has
//! taken out before it looks for pins, and at the moves of the shard, which whoever overwrites a record has
//! counted before it looks for pins. Each has two steps, says what it does and looks at what the other
//! does, and all four are `SeqCst`, or have such a fence between them: so at least one of the two sees
//! the other. A pin that came too early is of a segment, but of no record, and is given back.

use std::cell::Cell;

use super::readers::Held;
use super::table::{Entry, Place};
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Entries were moved, or records overwritten, while somebody looked for one, who has found none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moved;

/// Somebody who looks at an entry, with the shard's lock or without.
#[derive(Debug)]
pub(crate) struct Looking<'a> {
    held: &'a Held,
    /// `None` is with the lock.
    unlocked: Option<Unlocked<'a>>,
}

#[derive(Debug)]
struct Unlocked<'a> {
    since: Since<'a>,
    place: &'a Place,
    entry: Entry,
    /// Whether it was seen that something moved.
    moved: Cell<bool>,
}

/// The moves of a shard, and how many there were before the first look.
#[derive(Debug, Clone, Copy)]
pub(super) struct Since<'a> {
    moves: &'a AtomicUsize,
    before: usize,
}

impl<'a> Since<'a> {
    pub(super) fn now(moves: &'a AtomicUsize) -> Self {
        Self { moves, before: moves.load(Ordering::SeqCst) }
    }

    /// Whether no entry went to another place since then, and no record was overwritten.
    #[inline]
    pub(super) fn nothing_moved(self) -> bool {
        self.before & 1 == 0 && self.moves.load(Ordering::SeqCst) == self.before
    }
}

impl<'a> Looking<'a> {
    pub(super) fn locked(held: &'a Held) -> Self {
        Self { held, unlocked: None }
    }

    /// The entry was seen at this place after `since`.
    pub(super) fn unlocked(
        held: &'a Held,
        since: Since<'a>,
        place: &'a Place,
        entry: Entry,
    ) -> Self {
        let moved = Cell::new(false);
        Self { held, unlocked: Some(Unlocked { since, place, entry, moved }) }
    }

    pub(crate) fn held(&self) -> &Held {
        self.held
    }

    /// Whether the entry still names the record that it named, and nothing was overwritten. Asked with the
    /// segment pinned: then the record stays what it is as long as the pin lives.
    #[inline]
    pub(crate) fn is_as_it_was(&self) -> bool {
        let Some(Unlocked { since, place, entry, moved }) = &self.unlocked else { return true };
        let as_it_was = place.names_what(*entry) && since.nothing_moved();
        moved.set(!as_it_was);
        as_it_was
    }

    /// Whether it was seen that something moved.
    pub(super) fn has_moved(&self) -> bool {
        self.unlocked.as_ref().is_some_and(|unlocked| unlocked.moved.get())
    }
}
