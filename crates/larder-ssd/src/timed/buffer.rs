//! The write buffer: stripes until they are programmed.
//!
//! Host and garbage collection share it, as in pblk (Linux, `pblk-rl.c`): the more pages collection must move per page
//! of the host, the smaller the host's part of the buffer. A stripe is in the buffer from when it is complete until it
//! is programmed. The stripe that each handle is filling has separate room.

use std::collections::VecDeque;

use super::timing::Nanoseconds;

#[derive(Debug)]
pub(super) struct WriteBuffer {
    capacity_pages: u64,
    pages: u64,
    /// Stripes that wait or are being programmed, by die, in the order of their ends.
    stripes: Vec<VecDeque<Stripe>>,
    /// When the previous page was admitted: pages do not overtake each other.
    let_in: Nanoseconds,
}

#[derive(Debug, Clone, Copy)]
struct Stripe {
    pages: u64,
    /// When it will be programmed, as far as is known.
    end: Nanoseconds,
}

impl WriteBuffer {
    pub(super) fn new(capacity_pages: u64, dies: usize) -> Self {
        Self { capacity_pages, pages: 0, stripes: vec![VecDeque::new(); dies], let_in: 0 }
    }

    /// When a page that arrives at `now` is admitted. Pages are admitted in the order of the calls.
    pub(super) fn wait_for_room(&mut self, now: Nanoseconds) -> Nanoseconds {
        self.let_in = self.let_in.max(now);
        while self.pages >= self.capacity_pages {
            let first = |die: &usize| self.stripes[*die].front().map(|stripe| stripe.end);
            let dies = (0..self.stripes.len()).filter(|die| !self.stripes[*die].is_empty());
            let Some(die) = dies.min_by_key(first) else { break };
            if let Some(stripe) = self.stripes[die].pop_front() {
                self.let_in = self.let_in.max(stripe.end);
                self.pages -= stripe.pages;
            }
        }
        self.let_in
    }

    /// Adds a complete stripe of `pages`, which will be programmed at `end`.
    pub(super) fn enter(&mut self, die: usize, pages: u64, end: Nanoseconds) {
        self.pages += pages;
        self.stripes[die].push_back(Stripe { pages, end });
    }

    /// Delays all work of `die` that is unfinished at `now` by `by`.
    pub(super) fn delay(&mut self, die: usize, now: Nanoseconds, by: u64) {
        // In the order of their ends: those that are done are not looked at, for there may be many of them.
        let stripes = self.stripes[die].iter_mut().rev();
        stripes.take_while(|stripe| stripe.end > now).for_each(|stripe| stripe.end += by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full buffer with room for two stripes, which two dies program.
    fn full() -> WriteBuffer {
        let mut buffer = WriteBuffer::new(4, 2);
        buffer.enter(0, 2, 900);
        buffer.enter(1, 2, 500);
        buffer
    }

    #[test]
    fn a_full_buffer_waits_for_the_earliest_program() {
        let mut buffer = full();
        assert_eq!(buffer.wait_for_room(20), 500);
        buffer.enter(1, 2, 1400);
        assert_eq!(buffer.wait_for_room(520), 900);
        assert_eq!(buffer.wait_for_room(950), 950);
    }

    #[test]
    fn no_page_overtakes_another() {
        let mut buffer = full();
        assert_eq!(buffer.wait_for_room(20), 500);
        assert_eq!(buffer.wait_for_room(30), 500, "the room was not there before");
    }

    #[test]
    fn a_delayed_program_leaves_later() {
        let mut buffer = full();
        buffer.delay(1, 100, 50);
        assert_eq!(buffer.wait_for_room(200), 550);
        let mut buffer = full();
        buffer.delay(1, 500, 50);
        assert_eq!(buffer.wait_for_room(600), 600, "it was programmed by then");
    }
}
