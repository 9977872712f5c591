//! A leaf of the index: up to 64 extents in order, 12 bytes each.

/// Most extents of a leaf.
pub(super) const CAPACITY: usize = 64;

/// First sectors are offsets from a base that the owner of the leaf stores.
#[derive(Debug)]
pub(super) struct Leaf {
    len: usize,
    offsets: [u32; CAPACITY],
    packed: [u64; CAPACITY],
}

impl Leaf {
    pub(super) fn new() -> Self {
        Self { len: 0, offsets: [0; CAPACITY], packed: [0; CAPACITY] }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_full(&self) -> bool {
        self.len == CAPACITY
    }

    /// Number of the first extent at or after `offset`.
    pub(super) fn position(&self, offset: u64) -> usize {
        self.offsets[..self.len].partition_point(|&at| u64::from(at) < offset)
    }

    pub(super) fn offset(&self, number: usize) -> u32 {
        self.offsets[..self.len][number]
    }

    pub(super) fn packed(&self, number: usize) -> u64 {
        self.packed[..self.len][number]
    }

    pub(super) fn set(&mut self, number: usize, packed: u64) {
        self.packed[..self.len][number] = packed;
    }

    /// # Panics
    /// If the leaf is full.
    pub(super) fn insert(&mut self, number: usize, offset: u32, packed: u64) {
        assert!(!self.is_full() && number <= self.len, "a leaf is divided before it overflows");
        self.offsets.copy_within(number..self.len, number + 1);
        self.packed.copy_within(number..self.len, number + 1);
        (self.offsets[number], self.packed[number]) = (offset, packed);
        self.len += 1;
    }

    pub(super) fn remove(&mut self, number: usize) {
        debug_assert!(number < self.len);
        self.offsets.copy_within(number + 1..self.len, number);
        self.packed.copy_within(number + 1..self.len, number);
        self.len -= 1;
    }

    /// Splits the leaf: moves all extents after the first `middle` to a new leaf, whose base is the first of them.
    /// Returns the distance of the bases, and the new leaf.
    pub(super) fn divide(&mut self, middle: usize) -> (u32, Self) {
        let shift = self.offset(middle);
        let mut upper = Self::new();
        for number in middle..self.len {
            upper.insert(number - middle, self.offsets[number] - shift, self.packed[number]);
        }
        self.len = middle;
        (shift, upper)
    }

    /// Appends the extents of `next`, whose base is `shift` after its own, if there is room and all offsets fit.
    /// Returns whether it did.
    pub(super) fn absorb(&mut self, next: &Self, shift: u64, room: usize) -> bool {
        let last = if next.len == 0 { 0 } else { u64::from(next.offset(next.len - 1)) };
        if self.len + next.len > room || u32::try_from(shift + last).is_err() {
            return false;
        }
        for number in 0..next.len {
            let offset = u64::from(next.offset(number)) + shift;
            self.insert(self.len, u32::try_from(offset).expect("checked"), next.packed[number]);
        }
        true
    }
}
