//! The write buffer: a page enters when it arrives and leaves when its stripe is programmed.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::Nanoseconds;

#[derive(Debug)]
pub(super) struct WriteBuffer {
    capacity_pages: u64,
    pages: u64,
    /// Host pages of stripes that are not complete yet, by stripe.
    open: HashMap<u32, u64>,
    /// When pages leave, earliest first, and how many.
    leaving: BinaryHeap<Reverse<(Nanoseconds, u64)>>,
}

impl WriteBuffer {
    pub(super) fn new(capacity_pages: u64) -> Self {
        Self { capacity_pages, pages: 0, open: HashMap::new(), leaving: BinaryHeap::new() }
    }

    /// When there is room for a page that arrives at `now`.
    pub(super) fn wait_for_room(&mut self, now: Nanoseconds) -> Nanoseconds {
        let mut time = now;
        while let Some(Reverse((end, pages))) = self.leaving.peek().copied() {
            if end > time && self.pages < self.capacity_pages {
                break;
            }
            time = time.max(end);
            self.pages -= pages;
            self.leaving.pop();
        }
        time
    }

    pub(super) fn enter(&mut self) {
        self.pages += 1;
    }

    /// A page of the host is part of this stripe.
    pub(super) fn joins_stripe(&mut self, stripe: u32) {
        *self.open.entry(stripe).or_insert(0) += 1;
    }

    /// The stripe is programmed at `end`; its host pages leave then.
    pub(super) fn stripe_programmed(&mut self, stripe: u32, end: Nanoseconds) {
        if let Some(pages) = self.open.remove(&stripe) {
            self.leaving.push(Reverse((end, pages)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_buffer_waits_for_the_earliest_program() {
        let mut buffer = WriteBuffer::new(4);
        for page in 0..4 {
            assert_eq!(buffer.wait_for_room(10), 10);
            buffer.enter();
            buffer.joins_stripe(page / 2);
        }
        buffer.stripe_programmed(1, 500);
        buffer.stripe_programmed(0, 900);
        assert_eq!(buffer.wait_for_room(20), 500);
        buffer.enter();
        assert_eq!(buffer.wait_for_room(510), 510);
        buffer.enter();
        assert_eq!(buffer.wait_for_room(520), 900);
    }
}
