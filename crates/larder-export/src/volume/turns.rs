//! Orders changes of overlapping ranges by arrival.
//!
//! Rules: a change waits for all earlier changes that overlap it, started or not. A change that overlaps no earlier
//! one runs at once. A turn ends when it is dropped, even if it never came. The holder of a turn that has come waits
//! for no other turn, and each change waits only for earlier ones, so there is no deadlock.

use std::future::poll_fn;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<List>);

#[derive(Debug, Default)]
struct List {
    next: u64,
    /// In order of arrival.
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    range: Range<u64>,
    /// The number of earlier changes that overlap and have not ended.
    before: usize,
    waker: Option<Waker>,
}

/// A place in the order; ends when dropped.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Arc<Turns>,
    number: u64,
}

impl Turns {
    /// Takes a place for a change of `range`, behind all changes up to now.
    pub(super) fn take(self: &Arc<Self>, range: Range<u64>) -> Turn {
        assert!(range.start < range.end, "nothing needs no turn");
        let mut list = self.lock();
        let before = list.entries.iter().filter(|entry| overlap(&entry.range, &range)).count();
        let number = list.next;
        list.next += 1;
        list.entries.push(Entry { number, range, before, waker: None });
        Turn { turns: Arc::clone(self), number }
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.lock().entries.len()
    }
}

impl Turn {
    /// Waits until all earlier overlapping changes have ended.
    pub(super) async fn comes(&self) {
        poll_fn(|cx| {
            let mut list = self.turns.lock();
            let entry = list.entries.iter_mut().find(|entry| entry.number == self.number);
            let entry = entry.expect("a turn is in the list until it is dropped");
            if entry.before == 0 {
                return Poll::Ready(());
            }
            entry.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut list = self.turns.lock();
        let at = list.entries.iter().position(|entry| entry.number == self.number);
        let at = at.expect("a turn is in the list until it is dropped");
        let ended = list.entries.remove(at);
        let mut woken = Vec::new();
        // Only later entries have counted this one.
        for entry in &mut list.entries[at..] {
            if overlap(&entry.range, &ended.range) {
                assert!(entry.before > 0, "it was counted");
                entry.before -= 1;
                if entry.before == 0 {
                    woken.extend(entry.waker.take());
                }
            }
        }
        drop(list);
        // Wake after unlocking: the woken tasks may take or drop turns at once.
        woken.into_iter().for_each(Waker::wake);
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::Context;

    fn has_come(turn: &Turn) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        std::future::Future::poll(pin!(turn.comes()), &mut cx).is_ready()
    }

    #[test]
    fn a_change_waits_for_all_earlier_ones_that_it_overlaps() {
        let turns = Arc::new(Turns::default());
        let (first, second) = (turns.take(0..8), turns.take(8..16));
        let third = turns.take(4..12);
        let fourth = turns.take(11..12);
        let aside = turns.take(16..20);
        assert!(has_come(&first) && has_come(&second) && has_come(&aside));
        assert!(!has_come(&third) && !has_come(&fourth));
        drop(second);
        assert!(!has_come(&third), "the first has not ended");
        assert!(!has_come(&fourth), "the third is before it, though it has not begun");
        drop(first);
        assert!(has_come(&third) && !has_come(&fourth));
        drop(third);
        assert!(has_come(&fourth));
        drop((fourth, aside));
        assert_eq!(turns.len(), 0);
    }

    #[test]
    fn a_change_that_gives_up_its_place_delays_no_other() {
        let turns = Arc::new(Turns::default());
        let first = turns.take(0..8);
        let second = turns.take(0..8);
        let third = turns.take(0..8);
        drop(second);
        assert!(!has_come(&third));
        drop(first);
        assert!(has_come(&third));
    }
}
