//! The free slots of an array.

use std::collections::BTreeSet;

/// The slots of an array. Slots that were used before are used again first.
#[derive(Debug)]
pub(super) struct ArraySlots {
    free: Vec<u32>,
    /// Slots from here on were never used.
    end: u32,
    count: u32,
    /// Slots that more than one page names, which only damage causes. They never become free.
    shared: BTreeSet<u32>,
}

impl ArraySlots {
    /// `count` slots, of which those in `used` are taken.
    pub(super) fn new(count: u32, used: impl IntoIterator<Item = u32>) -> Self {
        let (mut seen, mut shared) = (BTreeSet::new(), BTreeSet::new());
        for slot in used.into_iter().filter(|slot| *slot < count) {
            if !seen.insert(slot) {
                shared.insert(slot);
            }
        }
        let end = seen.last().map_or(0, |last| last + 1);
        // Slots are taken from the end, so the lowest comes first.
        let free = (0..end).rev().filter(|slot| !seen.contains(slot)).collect();
        Self { free, end, count, shared }
    }

    /// Takes `count` free slots; `None` if there are fewer.
    pub(super) fn take(&mut self, count: usize) -> Option<Vec<u32>> {
        if self.free.len() + ((self.count - self.end) as usize) < count {
            return None;
        }
        let again = self.free.split_off(self.free.len() - count.min(self.free.len()));
        let new = u32::try_from(count - again.len()).unwrap_or(u32::MAX);
        let new = self.end..self.end + new;
        self.end = new.end;
        Some(again.into_iter().rev().chain(new).collect())
    }

    /// Releases slots that no page names any more. Returns those that are free now.
    pub(super) fn release(&mut self, slots: &[u32]) -> Vec<u32> {
        let free = slots.iter().copied().filter(|slot| *slot < self.end);
        let mut free: Vec<u32> = free.filter(|slot| !self.shared.contains(slot)).collect();
        free.sort_unstable();
        free.dedup();
        self.free.extend(free.iter().rev());
        free
    }

    /// Number of slots that more than one page names.
    pub(super) fn shared(&self) -> usize {
        self.shared.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_used_again_before_new_ones() {
        let mut slots = ArraySlots::new(8, [1, 3, 9]);
        assert_eq!(slots.take(3), Some(vec![0, 2, 4]));
        assert_eq!(slots.take(4), None);
        assert_eq!(slots.release(&[3, 1]), [1, 3]);
        assert_eq!(slots.take(5), Some(vec![1, 3, 5, 6, 7]));
        assert_eq!((slots.take(1), slots.take(0)), (None, Some(vec![])));
    }

    #[test]
    fn what_two_pages_name_is_never_free() {
        let mut slots = ArraySlots::new(8, [2, 2, 5]);
        assert_eq!((slots.shared(), slots.release(&[2, 5, 5])), (1, vec![5]));
        assert_eq!(slots.take(6), Some(vec![5, 0, 1, 3, 4, 6]));
    }
}
