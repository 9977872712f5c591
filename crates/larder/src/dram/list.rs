//! Doubly linked lists threaded through one array, so that an item can move between queues without
//! being touched.

pub(crate) const NONE: u32 = u32::MAX;

/// What a policy knows of one slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node {
    previous: u32,
    next: u32,
    /// What the slot's item costs of the budget.
    pub(crate) bytes: u32,
    /// Hits that a policy remembers, saturating.
    pub(crate) visits: u8,
    /// Which of a policy's queues the slot is in.
    pub(crate) queue: u8,
}

impl Node {
    pub(crate) fn new(bytes: u32) -> Self {
        Self { previous: NONE, next: NONE, bytes, visits: 0, queue: 0 }
    }
}

/// A queue: new slots enter at the head, old ones wait at the tail.
#[derive(Debug)]
pub(crate) struct List {
    head: u32,
    tail: u32,
    bytes: u64,
    len: u32,
}

impl List {
    pub(crate) fn new() -> Self {
        Self { head: NONE, tail: NONE, bytes: 0, len: 0 }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn tail(&self) -> Option<u32> {
        (self.tail != NONE).then_some(self.tail)
    }

    pub(crate) fn push_head(&mut self, nodes: &mut [Node], slot: u32) {
        let node = &mut nodes[slot as usize];
        node.previous = NONE;
        node.next = self.head;
        self.bytes += u64::from(node.bytes);
        self.len += 1;
        match self.head {
            NONE => self.tail = slot,
            head => nodes[head as usize].previous = slot,
        }
        self.head = slot;
    }

    pub(crate) fn unlink(&mut self, nodes: &mut [Node], slot: u32) {
        let Node { previous, next, bytes, .. } = nodes[slot as usize];
        self.bytes -= u64::from(bytes);
        self.len -= 1;
        match previous {
            NONE => self.head = next,
            previous => nodes[previous as usize].next = next,
        }
        match next {
            NONE => self.tail = previous,
            next => nodes[next as usize].previous = previous,
        }
    }

    /// The item of a slot in this list costs `bytes` now.
    pub(crate) fn resize(&mut self, nodes: &mut [Node], slot: u32, bytes: u32) {
        let old = std::mem::replace(&mut nodes[slot as usize].bytes, bytes);
        self.bytes = self.bytes - u64::from(old) + u64::from(bytes);
    }

    pub(crate) fn move_to_head(&mut self, nodes: &mut [Node], slot: u32) {
        if self.head != slot {
            self.unlink(nodes, slot);
            self.push_head(nodes, slot);
        }
    }
}
