//! S3-FIFO (Yang, Zhang, Qiu, Yue, Vinayak: "FIFO queues are all you need for cache eviction",
//! SOSP'23).
//!
//! Three FIFO queues: `small` (a tenth of the budget) for new items, `main` for proven ones, and
//! `ghost`, which remembers the hashes that `small` evicted. An item that is hit twice in `small`
//! is promoted to `main` when its turn comes, others leave. In `main` an item with hits goes round
//! again with one hit less. A newcomer that `ghost` remembers goes to `main` directly. A hit only
//! counts; no list changes.

use super::ghost::Ghost;
use super::list::{List, Node};
use crate::key::KeyHash;

/// `small` gets this part of the budget.
const SMALL_PART: u64 = 10;
/// The ghost gets this part of the budget: a mark of 8 bytes for every 128.
const GHOST_PART: u64 = 16;
/// Hits in `small` that earn a place in `main`.
const PROMOTION_VISITS: u8 = 2;
const VISITS_MAX: u8 = 3;

const SMALL: u8 = 0;
const MAIN: u8 = 1;

#[derive(Debug)]
pub(crate) struct S3Fifo {
    small: List,
    main: List,
    ghost: Ghost,
    small_bytes: u64,
}

impl S3Fifo {
    pub(crate) fn new(budget_bytes: u64) -> Self {
        Self {
            small: List::new(),
            main: List::new(),
            ghost: Ghost::of_bytes(budget_bytes / GHOST_PART),
            small_bytes: budget_bytes / SMALL_PART,
        }
    }

    /// Bytes that the ghost takes, ever.
    pub(crate) fn overhead_bytes(&self) -> u64 {
        self.ghost.memory_bytes()
    }

    pub(crate) fn inserted(&mut self, nodes: &mut [Node], slot: u32, hash: KeyHash) {
        let window = self.small.len().saturating_add(self.main.len());
        let known = self.ghost.recalls(hash, window);
        let (queue, list) = if known { (MAIN, &mut self.main) } else { (SMALL, &mut self.small) };
        nodes[slot as usize].queue = queue;
        list.push_head(nodes, slot);
    }

    pub(crate) fn hit(&mut self, nodes: &mut [Node], slot: u32) {
        let node = &mut nodes[slot as usize];
        node.visits = (node.visits + 1).min(VISITS_MAX);
    }

    pub(crate) fn resized(&mut self, nodes: &mut [Node], slot: u32, bytes: u32) {
        self.list_of(nodes, slot).resize(nodes, slot, bytes);
    }

    pub(crate) fn removed(&mut self, nodes: &mut [Node], slot: u32) {
        self.list_of(nodes, slot).unlink(nodes, slot);
    }

    fn list_of(&mut self, nodes: &[Node], slot: u32) -> &mut List {
        if nodes[slot as usize].queue == SMALL { &mut self.small } else { &mut self.main }
    }

    /// The slot to evict; `hash_of` tells whose it is. It stays linked until [`S3Fifo::removed`].
    ///
    /// Ends: each step takes a slot out of `small` for good or uses up a hit in `main`.
    pub(crate) fn victim(
        &mut self,
        nodes: &mut [Node],
        hash_of: impl Fn(u32) -> KeyHash,
    ) -> Option<u32> {
        loop {
            if self.small.bytes() > self.small_bytes || self.main.len() == 0 {
                let slot = self.small.tail()?;
                if nodes[slot as usize].visits < PROMOTION_VISITS {
                    self.ghost.remember(hash_of(slot));
                    return Some(slot);
                }
                self.small.unlink(nodes, slot);
                nodes[slot as usize].visits = 0;
                nodes[slot as usize].queue = MAIN;
                self.main.push_head(nodes, slot);
            } else {
                let slot = self.main.tail()?;
                if nodes[slot as usize].visits == 0 {
                    return Some(slot);
                }
                nodes[slot as usize].visits -= 1;
                self.main.move_to_head(nodes, slot);
            }
        }
    }
}
