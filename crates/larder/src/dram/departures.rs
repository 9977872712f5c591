//! Items that DRAM has evicted and that are not on flash yet.
//!
//! They stay visible until their flash write has ended: a `get` in between must neither miss nor
//! see an older version, and a `set` or `delete` in between makes the write pointless.

use std::collections::VecDeque;

use hashbrown::HashTable;

use crate::key::KeyHash;
use crate::value::Item;

#[derive(Debug, Default)]
pub(crate) struct Departures {
    by_key: HashTable<Item>,
    /// Who has not been picked up yet, oldest first; may name items that were withdrawn since.
    waiting: VecDeque<Item>,
}

impl Departures {
    /// Adds an item that was evicted just now. The key has no other departure: it would have been
    /// withdrawn.
    pub(crate) fn add(&mut self, item: Item) {
        debug_assert!(self.get(item.hash, item.key()).is_none());
        self.waiting.push_back(item.clone());
        self.by_key.insert_unique(item.hash.0, item, |item| item.hash.0);
    }

    pub(crate) fn get(&self, hash: KeyHash, key: &[u8]) -> Option<&Item> {
        if self.by_key.is_empty() {
            return None;
        }
        self.by_key.find(hash.0, |item| item.hash == hash && item.key() == key)
    }

    /// Takes back the departure of `key`, because it was replaced, deleted or brought back.
    pub(crate) fn withdraw(&mut self, hash: KeyHash, key: &[u8]) -> Option<Item> {
        if self.by_key.is_empty() {
            return None;
        }
        let entry = self.by_key.find_entry(hash.0, |item| item.hash == hash && item.key() == key);
        entry.ok().map(|entry| entry.remove().0)
    }

    /// The next item to write to flash; it stays visible until [`Departures::withdraw`].
    pub(crate) fn next(&mut self) -> Option<Item> {
        self.waiting.pop_front()
    }

    /// Puts an item back at the front.
    pub(crate) fn requeue(&mut self, item: Item) {
        self.waiting.push_front(item);
    }

    /// Whether [`Departures::next`] has something to give.
    pub(crate) fn are_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether this very version still departs.
    pub(crate) fn is_departing(&self, item: &Item) -> bool {
        self.get(item.hash, item.key()).is_some_and(|waiting| waiting.is_same_version(item))
    }
}
