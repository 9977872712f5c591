//! LRU: evict what was used longest ago. One queue; a hit moves its slot to the head.

use super::list::{List, Node};
use crate::key::KeyHash;

#[derive(Debug)]
pub(crate) struct Lru {
    queue: List,
}

impl Lru {
    pub(crate) fn new() -> Self {
        Self { queue: List::new() }
    }

    pub(crate) fn inserted(&mut self, nodes: &mut [Node], slot: u32, _hash: KeyHash) {
        self.queue.push_head(nodes, slot);
    }

    pub(crate) fn hit(&mut self, nodes: &mut [Node], slot: u32) {
        self.queue.move_to_head(nodes, slot);
    }

    pub(crate) fn resized(&mut self, nodes: &mut [Node], slot: u32, bytes: u32) {
        self.queue.resize(nodes, slot, bytes);
    }

    pub(crate) fn removed(&mut self, nodes: &mut [Node], slot: u32) {
        self.queue.unlink(nodes, slot);
    }

    /// The slot to evict. It stays linked until [`Lru::removed`].
    pub(crate) fn victim(&mut self) -> Option<u32> {
        self.queue.tail()
    }
}
