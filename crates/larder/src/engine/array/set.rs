//! A set: the four DRAM entries among which a key's entry may be, in one cache line.
//!
//! Entries that their table does not know yet are dirty and stay; of the others, the least recently used one is
//! displaced.

use super::entry::{Fingerprint, SetEntry, Shape};

/// Entries of a set.
pub(crate) const WAYS: usize = 4;

/// See the [module](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C, align(64))]
pub(crate) struct IndexSet([SetEntry; WAYS]);

const _: () = assert!(size_of::<IndexSet>() == 64);

/// All four entries are dirty: their table has to learn them first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AllDirty;

impl IndexSet {
    /// The entry of this key, if it is here.
    pub(crate) fn get(&self, shape: Shape, fingerprint: Fingerprint) -> Option<SetEntry> {
        self.0.iter().copied().find(|&entry| shape.is_of(entry, fingerprint))
    }

    /// The same, and marks it as used now.
    pub(crate) fn hit(&mut self, shape: Shape, fingerprint: Fingerprint) -> Option<SetEntry> {
        let way = self.way_of(shape, fingerprint)?;
        self.0[way] = self.0[way].with_hit();
        self.used(way);
        Some(self.0[way])
    }

    fn way_of(&self, shape: Shape, fingerprint: Fingerprint) -> Option<usize> {
        self.0.iter().position(|&entry| shape.is_of(entry, fingerprint))
    }

    /// Whether an entry of this key could be put here at once.
    pub(crate) fn has_room_for(&self, shape: Shape, fingerprint: Fingerprint) -> bool {
        self.way_for(shape, fingerprint).is_some()
    }

    fn way_for(&self, shape: Shape, fingerprint: Fingerprint) -> Option<usize> {
        let own = self.way_of(shape, fingerprint);
        let free = || self.0.iter().position(|entry| entry.is_none());
        let clean = || {
            let ways = (0..WAYS).filter(|&way| !self.0[way].is_dirty());
            ways.max_by_key(|&way| self.0[way].rank())
        };
        own.or_else(free).or_else(clean)
    }

    /// Whether all entries are dirty, so that none can be displaced.
    pub(crate) fn is_all_dirty(&self) -> bool {
        self.0.iter().all(|entry| !entry.is_none() && entry.is_dirty())
    }

    /// Puts an entry here in place of its key's older entry, an empty slot, or the least recently used clean entry.
    ///
    /// # Errors
    /// If all are dirty and none belongs to the key.
    pub(crate) fn put(&mut self, shape: Shape, entry: SetEntry) -> Result<(), AllDirty> {
        let way = self.way_for(shape, shape.fingerprint_of(entry)).ok_or(AllDirty)?;
        self.put_at(way, entry);
        Ok(())
    }

    /// The same if all are dirty: the least recently used entry is lost. Returns it.
    pub(crate) fn put_over(&mut self, entry: SetEntry) -> SetEntry {
        let oldest = (0..WAYS).max_by_key(|&way| self.0[way].rank()).expect("there are four");
        let lost = self.0[oldest];
        self.put_at(oldest, entry);
        lost
    }

    fn put_at(&mut self, way: usize, entry: SetEntry) {
        let rank = self.rank(way);
        self.0[way] = entry.with_rank(rank);
        self.used(way);
    }

    /// Removes the entry of this key.
    pub(crate) fn remove(&mut self, shape: Shape, fingerprint: Fingerprint) -> Option<SetEntry> {
        let way = self.way_of(shape, fingerprint)?;
        let entry = std::mem::take(&mut self.0[way]);
        // Keep the ranks of the remaining entries without gaps.
        for other in self.0.iter_mut().filter(|other| other.rank() > entry.rank()) {
            *other = other.with_rank(other.rank() - 1);
        }
        Some(entry)
    }

    /// The entries that their table does not know.
    pub(crate) fn dirty(&self) -> impl Iterator<Item = SetEntry> {
        self.0.iter().copied().filter(|entry| !entry.is_none() && entry.is_dirty())
    }

    /// Marks all entries clean: their table knows them.
    pub(crate) fn all_known(&mut self) {
        for entry in self.0.iter_mut().filter(|entry| !entry.is_none()) {
            *entry = entry.with_dirty(false);
        }
    }

    /// All entries.
    pub(crate) fn entries(&self) -> impl Iterator<Item = SetEntry> {
        self.0.iter().copied().filter(|entry| !entry.is_none())
    }

    /// The rank of a slot; 3, the last rank, for an empty one.
    fn rank(&self, way: usize) -> u32 {
        if self.0[way].is_none() { 3 } else { self.0[way].rank() }
    }

    /// Marks a slot as used now: the entries that were used more recently age by one.
    fn used(&mut self, way: usize) {
        let before = self.rank(way);
        for other in 0..WAYS {
            let rank = self.0[other].rank();
            if other != way && !self.0[other].is_none() && rank < before {
                self.0[other] = self.0[other].with_rank(rank + 1);
            }
        }
        self.0[way] = self.0[way].with_rank(0);
    }
}

#[cfg(test)]
mod tests {
    use larder_log::RegionId;
    use proptest::prelude::*;

    use super::super::entry::RecordPlace;
    use super::*;

    fn shape() -> Shape {
        Shape::new(1000, 1 << 20)
    }

    fn entry(key: u64, dirty: bool) -> SetEntry {
        let place = RecordPlace { region: RegionId::new(3), offset: 0, span: 1024 };
        shape().entry(Fingerprint(key), (place, 9), 0).with_dirty(dirty)
    }

    proptest! {
        /// Compares with a list in the order of use.
        #[test]
        fn the_clean_one_used_longest_ago_gives_way(
            steps in prop::collection::vec((0..8_u64, 0..4_u8), 0..80)
        ) {
            let (mut set, mut model) = (IndexSet::default(), Vec::<(u64, bool)>::new());
            for (key, step) in steps {
                let at = model.iter().position(|&(it, _)| it == key);
                match step {
                    0 => {
                        prop_assert_eq!(set.hit(shape(), Fingerprint(key)).is_some(), at.is_some());
                        if let Some(at) = at {
                            let used = model.remove(at);
                            model.insert(0, used);
                        }
                    }
                    1 => {
                        prop_assert_eq!(set.remove(shape(), Fingerprint(key)).is_some(), at.is_some());
                        at.map(|at| model.remove(at));
                    }
                    step => {
                        let put = set.put(shape(), entry(key, step == 2));
                        if let Some(at) = at {
                            model.remove(at);
                        } else if model.len() == WAYS {
                            let clean = model.iter().rposition(|&(_, dirty)| !dirty);
                            prop_assert_eq!(put.is_ok(), clean.is_some());
                            let Some(clean) = clean else {
                                prop_assert!(set.is_all_dirty());
                                continue;
                            };
                            model.remove(clean);
                        }
                        model.insert(0, (key, step == 2));
                    }
                }
                for key in 0..8 {
                    let known = model.iter().find(|&&(it, _)| it == key);
                    let found = set.get(shape(), Fingerprint(key));
                    prop_assert_eq!(found.map(SetEntry::is_dirty), known.map(|&(_, dirty)| dirty));
                }
            }
            set.all_known();
            prop_assert_eq!(set.dirty().count(), 0);
            prop_assert_eq!(set.entries().count(), model.len());
        }
    }

    #[test]
    fn where_all_are_dirty_one_can_be_lost() {
        let mut set = IndexSet::default();
        (0..4).for_each(|key| set.put(shape(), entry(key, true)).unwrap());
        assert_eq!(set.put(shape(), entry(9, true)), Err(AllDirty));
        let lost = set.put_over(entry(9, true));
        assert_eq!(shape().fingerprint_of(lost), Fingerprint(0));
        assert!(set.get(shape(), Fingerprint(9)).is_some());
    }
}
