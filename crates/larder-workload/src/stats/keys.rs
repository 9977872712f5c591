//! The distinct keys of a workload and the facts about each, in columns.

use hashbrown::HashTable;

use crate::hash::finish;
use crate::{Error, Request};

/// Number of a key, in the order of first requests, from 0.
pub(super) type KeyId = u32;

/// All keys so far.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// Ids by the hash of their keys.
    ids: HashTable<KeyId>,
    keys: Vec<u64>,
    facts: Vec<Facts>,
}

/// The facts about a key.
#[derive(Clone, Copy, Debug)]
struct Facts {
    requests: u32,
    key_bytes: u32,
    value_bytes: u32,
}

impl Keys {
    /// Counts a request and returns its key's id.
    #[inline]
    pub(super) fn note(&mut self, request: &Request) -> Result<KeyId, Error> {
        let Self { ids, keys, facts } = self;
        let key = request.key;
        let found = ids.find(finish(key), |&id| keys[id as usize] == key);
        if let Some(&id) = found {
            let facts = &mut facts[id as usize];
            facts.requests = facts.requests.saturating_add(1);
            if request.value_bytes > 0 {
                facts.key_bytes = request.key_bytes;
                facts.value_bytes = request.value_bytes;
            }
            return Ok(id);
        }
        // The largest number marks the end of a list in the LRU caches.
        let id =
            KeyId::try_from(keys.len()).ok().filter(|&id| id < KeyId::MAX).ok_or_else(|| {
                Error::run(
                    "the workload has more keys than statistics can be made of: 4,294,967,295",
                )
            })?;
        keys.push(key);
        ids.insert_unique(finish(key), id, |&id| finish(keys[id as usize]));
        let (key_bytes, value_bytes) = (request.key_bytes, request.value_bytes);
        facts.push(Facts { requests: 1, key_bytes, value_bytes });
        Ok(id)
    }

    /// Distinct keys.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Size of key and value, as the last request that gave it.
    #[inline]
    pub(super) fn object_bytes(&self, id: KeyId) -> u64 {
        let facts = &self.facts[id as usize];
        u64::from(facts.key_bytes) + u64::from(facts.value_bytes)
    }

    /// Sum of all objects.
    pub(super) fn footprint_bytes(&self) -> u64 {
        (self.facts.iter())
            .map(|facts| u64::from(facts.key_bytes) + u64::from(facts.value_bytes))
            .fold(0, u64::saturating_add)
    }

    /// Keys that were requested once.
    pub(super) fn requested_once(&self) -> u64 {
        self.facts.iter().filter(|facts| facts.requests == 1).count() as u64
    }

    /// One size for every key, computed from the sizes of key and value.
    pub(super) fn sizes(&self, size: impl Fn(u32, u32) -> u32) -> Vec<u32> {
        self.facts.iter().map(|facts| size(facts.key_bytes, facts.value_bytes)).collect()
    }
}
