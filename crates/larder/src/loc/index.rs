//! Where each large object lies: an index in DRAM, from the key's hash to region and offset.
//!
//! Keys themselves are on flash. Two keys of one hash would displace each other, which a cache may
//! do; the record that is read says whose it is.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::key::KeyHash;

/// Where an object lies, and how often it was asked for since it was written there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) region: u32,
    pub(crate) offset: u32,
    pub(crate) length: u32,
    pub(crate) hits: u8,
}

impl Location {
    fn is_at(&self, region: u32, offset: u32) -> bool {
        self.region == region && self.offset == offset
    }
}

#[derive(Debug, Default)]
pub(crate) struct Index {
    table: HashTable<(u64, Location)>,
}

impl Index {
    pub(crate) fn get_mut(&mut self, hash: KeyHash) -> Option<&mut Location> {
        self.table.find_mut(hash.0, |entry| entry.0 == hash.0).map(|entry| &mut entry.1)
    }

    pub(crate) fn get(&self, hash: KeyHash) -> Option<&Location> {
        self.table.find(hash.0, |entry| entry.0 == hash.0).map(|entry| &entry.1)
    }

    /// Whether the newest object of `hash` lies at this place.
    pub(crate) fn points_to(&self, hash: KeyHash, region: u32, offset: u32) -> bool {
        self.get(hash).is_some_and(|location| location.is_at(region, offset))
    }

    pub(crate) fn set(&mut self, hash: KeyHash, location: Location) {
        match self.table.entry(hash.0, |entry| entry.0 == hash.0, |entry| entry.0) {
            Entry::Occupied(mut entry) => entry.get_mut().1 = location,
            Entry::Vacant(entry) => _ = entry.insert((hash.0, location)),
        }
    }

    pub(crate) fn remove(&mut self, hash: KeyHash) -> bool {
        let entry = self.table.find_entry(hash.0, |entry| entry.0 == hash.0);
        entry.map(|entry| entry.remove()).is_ok()
    }

    /// Removes `hash` if its newest object lies at this place.
    pub(crate) fn remove_if_at(&mut self, hash: KeyHash, region: u32, offset: u32) -> bool {
        self.points_to(hash, region, offset) && self.remove(hash)
    }

    /// Removes everything in `region`, by looking at every entry: for when its footer cannot be
    /// read. Returns how many there were.
    pub(crate) fn remove_region(&mut self, region: u32) -> u64 {
        let before = self.table.len();
        self.table.retain(|entry| entry.1.region != region);
        (before - self.table.len()) as u64
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }
}
