//! Full segments in the order in which they filled, and who leaves first.
//!
//! S3-FIFO (Yang, Zhang, Qiu, Yue, Vinayak: "FIFO queues are all you need for cache eviction",
//! SOSP'23) over segments: new items go to `small` (a tenth of the budget). When a segment's turn
//! comes, items that were hit twice are copied to `main`, others leave and are remembered by the
//! ghost; a newcomer that the ghost recalls goes to `main` directly. In `main` an item with hits is
//! copied to the end with one hit less. A hit only counts; nothing moves.
//!
//! LRU is approximated with one queue and a second chance: an item that was hit since it was
//! written is copied to the end once.

use std::collections::VecDeque;

use super::pins::Share;
use crate::config::DramPolicy;

/// A segment of which this share is dead, in eighths, is compacted: what lives in it is copied, and
/// nothing leaves. Less dead bytes would not be worth the copying.
const COMPACTED_EIGHTHS: usize = 3;
/// `small` gets this part of the budget.
const SMALL_PART: usize = 10;
/// Hits in `small` that earn a place in `main`.
const PROMOTION_VISITS: u64 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queue {
    Small,
    Main,
}

/// What happens to the segment whose turn it is.
#[derive(Debug)]
pub(crate) enum Turn {
    /// What has no hits leaves.
    Evict(Sealed),
    /// Nothing leaves.
    Compact(Sealed),
}

/// A segment to which nothing is added any more.
#[derive(Debug)]
pub(crate) struct Sealed {
    pub(crate) segment: Share,
    pub(crate) slot: u32,
    pub(crate) queue: Queue,
    /// When the last of its items expires; the largest number if one never does.
    pub(crate) last_expiry_s: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Queues {
    small: VecDeque<Sealed>,
    main: VecDeque<Sealed>,
    small_bytes: usize,
}

impl Queues {
    pub(crate) fn push(&mut self, sealed: Sealed) {
        match sealed.queue {
            Queue::Small => {
                self.small_bytes += sealed.segment.capacity();
                self.small.push_back(sealed);
            }
            Queue::Main => self.main.push_back(sealed),
        }
    }

    /// The segment whose turn it is, out of its queue: one that has expired whole before any other,
    /// then one that is dead in large part.
    pub(crate) fn next_turn(&mut self, budget_bytes: usize, now_s: u32) -> Option<Turn> {
        let expired = |sealed: &Sealed| sealed.last_expiry_s <= now_s;
        if let Some(sealed) = self.take(expired) {
            return Some(Turn::Evict(sealed));
        }
        if let Some(slot) = self.deadest() {
            return self.take(|sealed| sealed.slot == slot).map(Turn::Compact);
        }
        self.next_victim(budget_bytes).map(Turn::Evict)
    }

    /// The segment to evict by age.
    pub(crate) fn next_victim(&mut self, budget_bytes: usize) -> Option<Sealed> {
        let small_is_due = self.small_bytes > budget_bytes / SMALL_PART || self.main.is_empty();
        if small_is_due { self.take_at(Queue::Small, 0) } else { self.main.pop_front() }
    }

    /// The slot of the segment with the most dead bytes, if they are enough.
    fn deadest(&self) -> Option<u32> {
        let worth = |sealed: &&Sealed| {
            sealed.segment.dead_bytes() * 8 >= sealed.segment.capacity() * COMPACTED_EIGHTHS
        };
        let all = self.small.iter().chain(&self.main).filter(worth);
        all.max_by_key(|sealed| sealed.segment.dead_bytes()).map(|sealed| sealed.slot)
    }

    fn take(&mut self, is_it: impl Fn(&Sealed) -> bool) -> Option<Sealed> {
        if let Some(at) = self.small.iter().position(&is_it) {
            return self.take_at(Queue::Small, at);
        }
        let at = self.main.iter().position(is_it)?;
        self.take_at(Queue::Main, at)
    }

    fn take_at(&mut self, queue: Queue, at: usize) -> Option<Sealed> {
        match queue {
            Queue::Main => self.main.remove(at),
            Queue::Small => {
                let sealed = self.small.remove(at)?;
                self.small_bytes -= sealed.segment.capacity();
                Some(sealed)
            }
        }
    }
}

/// Where a newcomer begins.
pub(crate) fn first_queue(policy: DramPolicy, known: bool) -> Queue {
    match policy {
        DramPolicy::S3Fifo if !known => Queue::Small,
        DramPolicy::S3Fifo | DramPolicy::Lru => Queue::Main,
    }
}

/// With how many visits an item goes on when its turn comes. `None`: it leaves.
pub(crate) fn visits_to_go_on_with(policy: DramPolicy, queue: Queue, visits: u64) -> Option<u64> {
    match (policy, queue) {
        (DramPolicy::S3Fifo, Queue::Small) => (visits >= PROMOTION_VISITS).then_some(0),
        (DramPolicy::S3Fifo, Queue::Main) => visits.checked_sub(1),
        (DramPolicy::Lru, _) => (visits > 0).then_some(0),
    }
}
