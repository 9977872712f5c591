//! Timed events, ordered by due time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An action to run at a time.
pub(super) type Event = Box<dyn FnOnce() + Send>;

/// Identifies an event on an agenda: its due time in nanoseconds, and its sequence number.
pub(super) type Number = (u64, u64);

/// Events ordered by due time, and by sequence number where the times are equal.
pub(super) struct Agenda {
    /// Due time of the next event, `u64::MAX` if there is none. Kept separately because most clocks have no event, and
    /// are asked often. Written under the lock of `events`.
    next_due_ns: AtomicU64,
    events: Mutex<Events>,
}

#[derive(Default)]
struct Events {
    by_due: BTreeMap<Number, Event>,
    noted: u64,
}

impl Events {
    /// Due time of the first event, `u64::MAX` if there is none.
    fn next_due_ns(&self) -> u64 {
        self.by_due.keys().next().map_or(u64::MAX, |(due_ns, _)| *due_ns)
    }
}

impl Default for Agenda {
    fn default() -> Self {
        Self { next_due_ns: AtomicU64::new(u64::MAX), events: Mutex::default() }
    }
}

impl Agenda {
    /// Adds an event at `due_ns`. A due time of `u64::MAX` means never, and nothing is added.
    pub(super) fn note(&self, due_ns: u64, event: Event) -> Option<Number> {
        if due_ns == u64::MAX {
            return None;
        }
        let mut events = self.lock();
        events.noted += 1;
        let number = (due_ns, events.noted);
        let before = events.by_due.insert(number, event);
        debug_assert!(before.is_none(), "numbers are given once");
        self.next_due_ns.fetch_min(due_ns, Ordering::SeqCst);
        Some(number)
    }

    /// Removes an event that is not needed any more, if it has not happened.
    pub(super) fn strike(&self, number: Number) {
        let mut events = self.lock();
        let struck = events.by_due.remove(&number);
        self.next_due_ns.store(events.next_due_ns(), Ordering::SeqCst);
        drop(events);
        // Dropped without the lock: the event may own something that removes another event.
        drop(struck);
    }

    /// Due time of the next event.
    pub(super) fn next_due_ns(&self) -> Option<u64> {
        match self.next_due_ns.load(Ordering::SeqCst) {
            u64::MAX => None,
            due_ns => Some(due_ns),
        }
    }

    /// Takes the first event, with its due time, if it is due at `now_ns` or earlier.
    pub(super) fn take_due(&self, now_ns: u64) -> Option<(u64, Event)> {
        if now_ns < self.next_due_ns.load(Ordering::SeqCst) {
            return None;
        }
        let mut events = self.lock();
        let first = events.by_due.first_entry().filter(|first| first.key().0 <= now_ns)?;
        let ((due_ns, _), event) = first.remove_entry();
        let next = events.next_due_ns();
        assert!(due_ns <= next, "events happen in the order of their times");
        self.next_due_ns.store(next, Ordering::SeqCst);
        Some((due_ns, event))
    }

    /// Takes all events that are due at `now_ns` or earlier, in the order in which they were added: the clock was set
    /// past all of them at once.
    pub(super) fn take_overdue(&self, now_ns: u64) -> Vec<Event> {
        if now_ns < self.next_due_ns.load(Ordering::SeqCst) {
            return Vec::new();
        }
        let mut events = self.lock();
        let later = events.by_due.split_off(&(now_ns.saturating_add(1), 0));
        let mut overdue: Vec<_> =
            std::mem::replace(&mut events.by_due, later).into_iter().collect();
        let next = events.next_due_ns();
        self.next_due_ns.store(next, Ordering::SeqCst);
        overdue.sort_unstable_by_key(|((_, number), _)| *number);
        overdue.into_iter().map(|(_, event)| event).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Agenda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agenda").field("next_due_ns", &self.next_due_ns()).finish_non_exhaustive()
    }
}
