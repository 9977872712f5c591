//! Changes of pages that wait for a batch.

use std::collections::VecDeque;

use larder_device::{Completer, IoBuffer};

/// A change of some pages, until batches have taken all of them.
#[derive(Debug)]
pub(super) struct PendingChange {
    pub(super) first: u32,
    pub(super) count: u32,
    /// Number of its pages that batches have taken.
    pub(super) taken: u32,
    /// `None`: zeros.
    pub(super) content: Option<IoBuffer>,
    /// The handle to write with; always one that the device has.
    pub(super) handle: u16,
    pub(super) completer: Completer,
}

impl PendingChange {
    fn overlaps(&self, other: &Self) -> bool {
        self.first < other.first + other.count && other.first < self.first + self.count
    }
}

/// The waiting changes, in order.
#[derive(Debug, Default)]
pub(super) struct Queue(VecDeque<PendingChange>);

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn push(&mut self, pending: PendingChange) {
        self.0.push_back(pending);
    }

    /// The handle of the oldest change.
    pub(super) fn first_handle(&self) -> Option<u16> {
        self.0.front().map(|pending| pending.handle)
    }

    /// Takes the oldest change if `is_wanted` says so.
    pub(super) fn take_first_if(
        &mut self,
        is_wanted: impl FnOnce(&PendingChange) -> bool,
    ) -> Option<PendingChange> {
        let is_it = self.0.front().is_some_and(is_wanted);
        if is_it { self.0.pop_front() } else { None }
    }

    /// Takes the next change with this handle from position `at` on, and moves `at` to its position: all changes before
    /// it have other handles. `None` also if the change would overtake one of those that overlaps it.
    pub(super) fn take(&mut self, handle: u16, at: &mut usize) -> Option<PendingChange> {
        *at += self.0.iter().skip(*at).take_while(|pending| pending.handle != handle).count();
        let next = self.0.get(*at)?;
        let overtakes = self.0.iter().take(*at).any(|older| older.overlaps(next));
        if overtakes { None } else { self.0.remove(*at) }
    }

    /// Takes all changes with this handle.
    pub(super) fn take_all(&mut self, handle: u16) -> Vec<PendingChange> {
        let (taken, rest) = self.0.drain(..).partition(|pending| pending.handle == handle);
        self.0 = rest;
        taken.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_device::IoFuture;

    fn pending(first: u32, handle: u16) -> PendingChange {
        let (_, completer) = IoFuture::pending();
        PendingChange { first, count: 2, taken: 0, content: None, handle, completer }
    }

    fn queue(waiting: &[(u32, u16)]) -> Queue {
        Queue(waiting.iter().map(|&(first, handle)| pending(first, handle)).collect())
    }

    fn taken(queue: &mut Queue, handle: u16) -> Vec<u32> {
        let mut at = 0;
        std::iter::from_fn(|| queue.take(handle, &mut at)).map(|pending| pending.first).collect()
    }

    #[test]
    fn those_of_a_handle_go_together_in_their_order() {
        let mut queue = queue(&[(0, 1), (10, 0), (20, 1), (30, 0), (40, 2)]);
        assert_eq!(queue.first_handle(), Some(1));
        assert_eq!(taken(&mut queue, 1), [0, 20]);
        assert_eq!((queue.first_handle(), taken(&mut queue, 2)), (Some(0), vec![40]));
        let rest: Vec<u32> = queue.take_all(0).iter().map(|pending| pending.first).collect();
        assert_eq!((rest, queue.is_empty()), (vec![10, 30], true));
    }

    #[test]
    fn none_overtakes_an_older_one_with_a_page_of_it() {
        let mut queue = queue(&[(0, 0), (10, 1), (1, 1), (20, 1)]);
        assert_eq!(taken(&mut queue, 1), [10], "page 1 is to be as the last of the two left it");
        assert_eq!(taken(&mut queue, 0), [0]);
        assert_eq!(taken(&mut queue, 1), [1, 20]);
    }
}
