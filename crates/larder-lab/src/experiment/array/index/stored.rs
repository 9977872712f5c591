//! The set of stored keys, for models that do not keep the keys themselves. Its memory is not part of the modelled
//! index.

use hashbrown::HashTable;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Stored(HashTable<u64>);

impl Stored {
    pub(super) fn add(&mut self, key: u64) {
        if !self.has(key) {
            self.0.insert_unique(key, key, |&key| key);
        }
    }

    pub(super) fn has(&self, key: u64) -> bool {
        self.0.find(key, |&known| known == key).is_some()
    }
}
