//! Slots in LRU order: a linked list in arrays.

/// The end of the list.
const NONE: u32 = u32::MAX;

/// See the module.
#[derive(Debug)]
pub(super) struct Recency {
    /// Neighbours of each slot: the next more recent one, and the next less recent one.
    links: Vec<[u32; 2]>,
    newest: u32,
    oldest: u32,
}

impl Recency {
    /// Room for `slots` slots. The list is empty at first.
    pub(super) fn new(slots: usize) -> Self {
        assert!(slots < NONE as usize, "slots have numbers of 32 bits");
        Self { links: vec![[NONE; 2]; slots], newest: NONE, oldest: NONE }
    }

    /// Adds a slot that is not in the list, as the most recent.
    pub(super) fn add(&mut self, slot: u32) {
        self.links[slot as usize] = [NONE, self.newest];
        match self.newest {
            NONE => self.oldest = slot,
            newest => self.links[newest as usize][0] = slot,
        }
        self.newest = slot;
    }

    /// Makes a slot of the list the most recent.
    pub(super) fn touch(&mut self, slot: u32) {
        if slot != self.newest {
            self.take(slot);
            self.add(slot);
        }
    }

    /// Removes the least recently used slot.
    pub(super) fn take_oldest(&mut self) -> Option<u32> {
        let oldest = self.oldest;
        (oldest != NONE).then(|| {
            self.take(oldest);
            oldest
        })
    }

    fn take(&mut self, slot: u32) {
        let [later, earlier] = self.links[slot as usize];
        match later {
            NONE => self.newest = earlier,
            later => self.links[later as usize][1] = earlier,
        }
        match earlier {
            NONE => self.oldest = later,
            earlier => self.links[earlier as usize][0] = later,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_the_one_that_was_used_longest_ago() {
        let mut recency = Recency::new(3);
        assert_eq!(recency.take_oldest(), None);
        for slot in 0..3 {
            recency.add(slot);
        }
        recency.touch(0);
        recency.touch(0);
        recency.touch(2);
        assert_eq!([recency.take_oldest(), recency.take_oldest()], [Some(1), Some(0)]);
        recency.add(1);
        assert_eq!([recency.take_oldest(), recency.take_oldest()], [Some(2), Some(1)]);
        assert_eq!(recency.take_oldest(), None);
    }
}
