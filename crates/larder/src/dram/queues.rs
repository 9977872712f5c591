//! Full segments in the order in which they were filled, and the choice of the next one to evict.
//!
//! There are two queues, `small` (a tenth of the budget) and `main`. When the turn comes to a segment, records that
//! the policy (`policy/`) reinserts are copied to the end of `main`, and the rest leaves. A hit only counts; nothing
//! moves.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::segment::Share;
use super::sparse::{COMPACTED_EIGHTHS, EIGHTHS, dead_eighths};

/// `small` gets this fraction of the budget (reciprocal).
const SMALL_PART: usize = 10;
/// Maximum number of tickets in a list per segment, before stale ones are removed.
const TICKETS: usize = 4;
/// Lists up to this length are not cleaned.
const TICKETS_MIN: usize = 64;
const _: () = assert!(0 < COMPACTED_EIGHTHS && COMPACTED_EIGHTHS < EIGHTHS);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queue {
    Small,
    Main,
}

/// What happens to the segment whose turn it is.
#[derive(Debug)]
pub(crate) enum Victim {
    /// Records without hits leave.
    Evict(SealedSegment),
    /// Live records are copied; none leaves.
    Compact(SealedSegment),
}

/// A segment to which no more is appended.
#[derive(Debug)]
pub(crate) struct SealedSegment {
    pub(crate) segment: Share,
    pub(crate) slot: u32,
    pub(crate) queue: Queue,
}

impl SealedSegment {
    /// Whether pins prevent the reuse of its memory. A segment of unusual size is never reused, so it can leave at
    /// once and is freed with its last pin.
    fn is_pinned(&self, segment_bytes: usize) -> bool {
        self.segment.is_usual(segment_bytes) && self.segment.is_pinned()
    }

    fn dead_eighths(&self) -> usize {
        dead_eighths(self.segment.dead_bytes(), self.segment.capacity())
    }
}

/// A place in a list. It is stale once the segment was taken out, even if the segment is back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Ticket {
    number: u64,
    slot: u32,
}

/// The segments, and lists of tickets to find the next one. Taking a segment leaves its other tickets in place. So
/// each choice looks at only a few tickets, however many there are.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    /// By slot.
    sealed: Vec<Option<(u64, SealedSegment)>>,
    len: usize,
    next_number: u64,
    small: VecDeque<Ticket>,
    main: VecDeque<Ticket>,
    small_bytes: usize,
    /// Segments that expire, by the time known when they came.
    expiring: BinaryHeap<Reverse<(u32, Ticket)>>,
    /// By dead eighths, from [`COMPACTED_EIGHTHS`] on.
    sparse: [VecDeque<Ticket>; EIGHTHS + 1],
}

impl Queues {
    pub(crate) fn push(&mut self, sealed: SealedSegment) {
        let ticket = Ticket { number: self.next_number, slot: sealed.slot };
        self.next_number += 1;
        match sealed.queue {
            Queue::Small => {
                self.small_bytes += sealed.segment.capacity();
                self.small.push_back(ticket);
            }
            Queue::Main => self.main.push_back(ticket),
        }
        let expiry_s = sealed.segment.last_expiry_s();
        if expiry_s < u32::MAX {
            self.expiring.push(Reverse((expiry_s, ticket)));
        }
        let at = sealed.slot as usize;
        if self.sealed.len() <= at {
            self.sealed.resize_with(at + 1, || None);
        }
        debug_assert!(self.sealed[at].is_none(), "a slot is of one segment");
        debug_assert_eq!(sealed.slot, sealed.segment.slot(), "a segment is known by its number");
        self.sealed[at] = Some((ticket.number, sealed));
        self.len += 1;
        self.note_sparser(ticket.slot);
        self.throw_away_tickets();
        debug_assert!(self.are_counted(), "bytes and segments are counted as they come");
    }

    /// A segment, which may be in the queues, has become more worthwhile to compact.
    pub(crate) fn note_sparser(&mut self, slot: u32) {
        let Some(Some((number, sealed))) = self.sealed.get(slot as usize) else { return };
        let (number, eighths) = (*number, sealed.dead_eighths());
        debug_assert!(eighths <= EIGHTHS, "no more is dead than there is");
        if eighths >= COMPACTED_EIGHTHS {
            self.sparse[eighths].push_back(Ticket { number, slot });
        }
    }

    /// Takes the segment whose turn it is: first one in which everything has expired, then one that is dead in large
    /// part. Skips pinned segments of the usual size, which would free nothing.
    pub(crate) fn next_turn(
        &mut self,
        budget_bytes: usize,
        segment_bytes: usize,
        now_s: u32,
    ) -> Option<Victim> {
        if let Some(expired) = self.next_expired(segment_bytes, now_s) {
            return Some(Victim::Evict(expired));
        }
        if let Some(sparse) = self.next_sparse(segment_bytes) {
            return Some(Victim::Compact(sparse));
        }
        self.next_victim(budget_bytes, segment_bytes).map(Victim::Evict)
    }

    /// The segment to evict by age.
    fn next_victim(&mut self, budget_bytes: usize, segment_bytes: usize) -> Option<SealedSegment> {
        let small_is_due = self.small_bytes > budget_bytes / SMALL_PART;
        let [first, second] =
            if small_is_due { [Queue::Small, Queue::Main] } else { [Queue::Main, Queue::Small] };
        self.oldest(first, segment_bytes).or_else(|| self.oldest(second, segment_bytes))
    }

    /// Any segment, pinned or not.
    pub(crate) fn next_of_all(&mut self) -> Option<SealedSegment> {
        while let Some(ticket) = self.small.pop_front().or_else(|| self.main.pop_front()) {
            if let Some(sealed) = self.take(ticket) {
                return Some(sealed);
            }
        }
        None
    }

    /// The oldest segment of a queue without pins. Pinned ones go to the end of the queue.
    fn oldest(&mut self, queue: Queue, segment_bytes: usize) -> Option<SealedSegment> {
        for _ in 0..self.tickets(queue).len() {
            let ticket = self.tickets(queue).pop_front()?;
            match self.peek(ticket).map(|sealed| sealed.is_pinned(segment_bytes)) {
                Some(true) => self.tickets(queue).push_back(ticket),
                Some(false) => return self.take(ticket),
                None => {}
            }
        }
        None
    }

    /// A segment whose last item has expired.
    fn next_expired(&mut self, segment_bytes: usize, now_s: u32) -> Option<SealedSegment> {
        let (mut pinned, mut next) = (Vec::new(), None);
        while next.is_none()
            && let Some(&Reverse((expiry_s, ticket))) = self.expiring.peek()
            && expiry_s <= now_s
        {
            self.expiring.pop();
            let Some(sealed) = self.peek(ticket) else { continue };
            let later_s = sealed.segment.last_expiry_s();
            if later_s > now_s {
                // A record in it was overwritten by one that lives longer.
                self.expiring.push(Reverse((later_s, ticket)));
            } else if sealed.is_pinned(segment_bytes) {
                pinned.push(Reverse((expiry_s, ticket)));
            } else {
                next = self.take(ticket);
            }
        }
        self.expiring.extend(pinned);
        next
    }

    /// The segment with the most dead bytes, if that is enough.
    fn next_sparse(&mut self, segment_bytes: usize) -> Option<SealedSegment> {
        for eighths in (COMPACTED_EIGHTHS..=EIGHTHS).rev() {
            for _ in 0..self.sparse[eighths].len() {
                let ticket = self.sparse[eighths].pop_front()?;
                let Some(sealed) = self.peek(ticket) else { continue };
                if sealed.dead_eighths() != eighths {
                    continue; // it has a ticket in another list
                }
                if !sealed.is_pinned(segment_bytes) {
                    return self.take(ticket);
                }
                self.sparse[eighths].push_back(ticket);
            }
        }
        None
    }

    fn tickets(&mut self, queue: Queue) -> &mut VecDeque<Ticket> {
        match queue {
            Queue::Small => &mut self.small,
            Queue::Main => &mut self.main,
        }
    }

    fn peek(&self, ticket: Ticket) -> Option<&SealedSegment> {
        let (number, sealed) = self.sealed.get(ticket.slot as usize)?.as_ref()?;
        (*number == ticket.number).then_some(sealed)
    }

    fn take(&mut self, ticket: Ticket) -> Option<SealedSegment> {
        self.peek(ticket)?;
        let (_, sealed) = self.sealed[ticket.slot as usize].take()?;
        self.len -= 1;
        if sealed.queue == Queue::Small {
            self.small_bytes -= sealed.segment.capacity();
        }
        debug_assert!(self.are_counted(), "bytes and segments are counted as they go");
        Some(sealed)
    }

    /// Whether the counts are correct.
    fn are_counted(&self) -> bool {
        let (mut len, mut small_bytes) = (0, 0);
        for (_, sealed) in self.sealed.iter().flatten() {
            len += 1;
            let is_small = sealed.queue == Queue::Small;
            small_bytes += if is_small { sealed.segment.capacity() } else { 0 };
        }
        (len, small_bytes) == (self.len, self.small_bytes)
    }

    /// Keeps the length of the lists proportional to the number of segments.
    fn throw_away_tickets(&mut self) {
        let most = self.len * TICKETS + TICKETS_MIN;
        let Self { sealed, small, main, expiring, sparse, .. } = self;
        let is_of_use = |ticket: &Ticket| {
            let there = sealed.get(ticket.slot as usize).and_then(Option::as_ref);
            there.is_some_and(|(number, _)| *number == ticket.number)
        };
        for list in sparse.iter_mut().chain([small, main]) {
            if list.len() > most {
                list.retain(is_of_use);
            }
        }
        if expiring.len() > most {
            expiring.retain(|Reverse((_, ticket))| is_of_use(ticket));
        }
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::super::memory::Blocks;
    use super::super::permits::Permits;
    use super::super::segment::Writer;
    use super::*;
    use std::sync::Arc;

    const SEGMENT_BYTES: usize = 800;

    fn sealed(slot: u32, queue: Queue, expiry_s: u32) -> SealedSegment {
        let permits = Arc::new(Permits::default());
        let writer = Writer::allocate_in(&mut Blocks::default(), SEGMENT_BYTES, permits);
        writer.segment().note_slot(slot);
        writer.segment().note_expiry(expiry_s);
        SealedSegment { segment: writer.segment().clone(), slot, queue }
    }

    fn queues_of(slots: std::ops::Range<u32>) -> Queues {
        let mut queues = Queues::default();
        slots.for_each(|slot| queues.push(sealed(slot, Queue::Main, 0)));
        queues
    }

    fn next(queues: &mut Queues, now_s: u32) -> Option<(char, u32)> {
        queues.next_turn(8000, SEGMENT_BYTES, now_s).map(|turn| match turn {
            Victim::Evict(sealed) => ('e', sealed.slot),
            Victim::Compact(sealed) => ('c', sealed.slot),
        })
    }

    fn die(queues: &mut Queues, slot: u32, bytes: usize) {
        let (_, sealed) = queues.sealed[slot as usize].as_ref().unwrap();
        if sealed.segment.note_dead(bytes) {
            queues.note_sparser(slot);
        }
    }

    #[test]
    fn the_expired_go_first_then_the_deadest_then_the_oldest() {
        let mut queues = queues_of(1..4);
        (10..13).for_each(|slot| queues.push(sealed(slot, Queue::Main, 200 - slot)));
        die(&mut queues, 2, 300);
        die(&mut queues, 3, 299);
        die(&mut queues, 3, 300);
        let turns: Vec<_> = (0..6).map_while(|_| next(&mut queues, 188)).collect();
        assert_eq!(turns, [('e', 12), ('c', 3), ('c', 2), ('e', 1), ('e', 10), ('e', 11)]);
        assert_eq!((queues.len, next(&mut queues, 188)), (0, None));
    }

    #[test]
    fn what_lives_for_longer_by_now_is_not_expired() {
        let mut queues = Queues::default();
        queues.push(sealed(1, Queue::Main, 100));
        queues.push(sealed(2, Queue::Main, 150));
        queues.sealed[1].as_ref().unwrap().1.segment.note_expiry(200);
        assert_eq!(
            [next(&mut queues, 160), next(&mut queues, 160)],
            [Some(('e', 2)), Some(('e', 1))]
        );
    }

    #[test]
    fn the_small_queue_gives_way_when_it_has_more_than_its_share() {
        let mut queues = queues_of(1..3);
        (3..5).for_each(|slot| queues.push(sealed(slot, Queue::Small, 0)));
        let turns: Vec<_> = (0..4).map_while(|_| next(&mut queues, 0)).collect();
        assert_eq!(turns, [('e', 3), ('e', 1), ('e', 2), ('e', 4)]);
    }

    #[test]
    fn pinned_segments_wait() {
        let mut queues = queues_of(1..4);
        queues.push(sealed(4, Queue::Main, 50));
        die(&mut queues, 2, 800);
        let pin = |slot: usize| queues.sealed[slot].as_ref().unwrap().1.segment.pin(0);
        let (sparse, old, expired) = (pin(2), pin(1), pin(4));
        assert_eq!([next(&mut queues, 60), next(&mut queues, 60)], [Some(('e', 3)), None]);
        drop((sparse, old, expired));
        let turns: Vec<_> = (0..3).map_while(|_| next(&mut queues, 60)).collect();
        assert_eq!(turns, [('e', 4), ('c', 2), ('e', 1)]);
    }

    #[test]
    fn an_expired_segment_that_is_pinned_hides_no_other() {
        let mut queues = queues_of(1..2);
        (2..4).for_each(|slot| queues.push(sealed(slot, Queue::Main, slot)));
        let pin = queues.sealed[2].as_ref().unwrap().1.segment.pin(0);
        assert_eq!(next(&mut queues, 60), Some(('e', 3)));
        drop(pin);
        assert_eq!(next(&mut queues, 60), Some(('e', 2)));
    }

    /// A pinned segment of unusual size frees as much as one without pins.
    #[test]
    fn a_segment_of_another_length_is_evicted_despite_pins() {
        let mut queues = queues_of(1..3);
        let pin = queues.sealed[1].as_ref().unwrap().1.segment.pin(0);
        let turn = queues.next_turn(8000, SEGMENT_BYTES + 1, 0);
        assert!(matches!(turn, Some(Victim::Evict(SealedSegment { slot: 1, .. }))));
        drop(pin);
    }

    #[test]
    fn lists_stay_as_short_as_there_are_segments() {
        let mut queues = queues_of(1..4); // 1 is the oldest, and is never evicted
        for turn in 0..10_000 {
            die(&mut queues, 2 + turn % 2, 800);
            let (kind, slot) = next(&mut queues, 0).unwrap();
            assert_eq!((kind, slot), ('c', 2 + turn % 2));
            queues.push(sealed(slot, Queue::Main, 1000));
        }
        let lists = queues.main.len() + queues.expiring.len();
        let sparse: usize = queues.sparse.iter().map(VecDeque::len).sum();
        assert!(lists < 200 && sparse < 200, "{lists} and {sparse}");
    }
}
