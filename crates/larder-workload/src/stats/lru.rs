//! An exact LRU cache of sizes: the misses of a simple cache.

use serde::Serialize;

use crate::Op;

use super::keys::KeyId;
use super::ratio;

/// Neither a neighbour nor a size: marks the end of the list, or an object that is not cached.
const NONE: u32 = u32::MAX;

/// The results of an LRU cache of one capacity.
///
/// It starts cold, inserts on every miss, and counts keys and values without overhead. It does not cache an object
/// larger than the cache.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LruStats {
    /// Its capacity, in bytes.
    pub capacity_bytes: u64,
    /// Requests of any kind whose object was not cached, as a share of all requests.
    pub miss_ratio: f64,
    /// The same, each request weighted by the size of its object.
    pub byte_miss_ratio: f64,
    /// GETs whose object was not cached, as a share of all GETs.
    pub get_miss_ratio: f64,
}

/// An LRU cache: a doubly linked list over the ids of all keys, the most recent first.
#[derive(Debug)]
pub(super) struct Lru {
    capacity_bytes: u64,
    used_bytes: u64,
    nodes: Vec<Node>,
    newest: u32,
    oldest: u32,
    counts: LruCounts,
}

#[derive(Debug, Default)]
struct LruCounts {
    requests: u64,
    misses: u64,
    bytes: u64,
    missed_bytes: u64,
    gets: u64,
    get_misses: u64,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    newer: u32,
    older: u32,
    /// Size in the cache; [`NONE`] if the object is not cached.
    bytes: u32,
}

const ABSENT: Node = Node { newer: NONE, older: NONE, bytes: NONE };

impl Lru {
    pub(super) fn new(capacity_bytes: u64) -> Self {
        Self {
            capacity_bytes,
            used_bytes: 0,
            nodes: Vec::new(),
            newest: NONE,
            oldest: NONE,
            counts: LruCounts::default(),
        }
    }

    /// Takes one request. Objects above 4 GiB count as 4 GiB.
    #[inline]
    pub(super) fn request(&mut self, id: KeyId, object_bytes: u64, op: Op) {
        let bytes = u32::try_from(object_bytes).unwrap_or(NONE).min(NONE - 1);
        if self.nodes.len() <= id as usize {
            self.nodes.resize(id as usize + 1, ABSENT);
        }
        let cached = self.nodes[id as usize].bytes != NONE;
        self.count(!cached, object_bytes, op);
        if cached {
            self.unlink(id);
        }
        if op != Op::Delete && u64::from(bytes) <= self.capacity_bytes {
            self.push_newest(id, bytes);
            while self.used_bytes > self.capacity_bytes {
                self.unlink(self.oldest);
            }
        }
    }

    fn count(&mut self, missed: bool, bytes: u64, op: Op) {
        let counts = &mut self.counts;
        counts.requests += 1;
        counts.misses += u64::from(missed);
        counts.bytes = counts.bytes.saturating_add(bytes);
        counts.gets += u64::from(op == Op::Get);
        if missed {
            counts.missed_bytes = counts.missed_bytes.saturating_add(bytes);
            counts.get_misses += u64::from(op == Op::Get);
        }
    }

    fn push_newest(&mut self, id: KeyId, bytes: u32) {
        self.nodes[id as usize] = Node { newer: NONE, older: self.newest, bytes };
        match self.newest {
            NONE => self.oldest = id,
            newest => self.nodes[newest as usize].newer = id,
        }
        self.newest = id;
        self.used_bytes += u64::from(bytes);
    }

    fn unlink(&mut self, id: KeyId) {
        let node = std::mem::replace(&mut self.nodes[id as usize], ABSENT);
        debug_assert!(node.bytes != NONE, "only what is cached is taken out");
        match node.newer {
            NONE => self.newest = node.older,
            newer => self.nodes[newer as usize].older = node.older,
        }
        match node.older {
            NONE => self.oldest = node.newer,
            older => self.nodes[older as usize].newer = node.newer,
        }
        self.used_bytes -= u64::from(node.bytes);
    }

    pub(super) fn finish(self) -> LruStats {
        let counts = self.counts;
        LruStats {
            capacity_bytes: self.capacity_bytes,
            miss_ratio: ratio(counts.misses, counts.requests),
            byte_miss_ratio: ratio(counts.missed_bytes, counts.bytes),
            get_miss_ratio: ratio(counts.get_misses, counts.gets),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_least_recent_goes_first() {
        let mut cache = Lru::new(30);
        for id in [0, 1, 2, 0, 3, 0, 1] {
            cache.request(id, 10, Op::Get);
        }
        // 3 evicted 1, and 0 was still cached.
        let stats = cache.finish();
        assert_eq!(stats.miss_ratio, 5.0 / 7.0);
        assert_eq!((stats.get_miss_ratio, stats.byte_miss_ratio), (5.0 / 7.0, 5.0 / 7.0));
    }

    #[test]
    fn deleted_and_oversized_objects_are_not_cached() {
        let mut cache = Lru::new(100);
        cache.request(0, 50, Op::Set);
        cache.request(0, 50, Op::Delete);
        cache.request(0, 50, Op::Get);
        cache.request(0, 101, Op::Set);
        assert_eq!(cache.used_bytes, 0);
        cache.request(0, 50, Op::Get);
        assert_eq!(cache.finish().get_miss_ratio, 1.0);
    }

    proptest! {
        #[test]
        fn agrees_with_a_list(
            capacity in 0_u64..60,
            requests in prop::collection::vec((0_u32..12, 0_u64..20, 0_u8..8), 0..200),
        ) {
            let mut cache = Lru::new(capacity);
            let mut list: Vec<(u32, u64)> = Vec::new();
            let mut misses = 0_u32;
            for &(id, bytes, op) in &requests {
                let op = if op == 0 { Op::Delete } else { Op::Get };
                cache.request(id, bytes, op);
                let before = list.len();
                list.retain(|(other, _)| *other != id);
                misses += u32::from(list.len() == before);
                if op == Op::Get && bytes <= capacity {
                    list.push((id, bytes));
                }
                while list.iter().map(|(_, bytes)| bytes).sum::<u64>() > capacity {
                    list.remove(0);
                }
                prop_assert_eq!(cache.used_bytes, list.iter().map(|(_, bytes)| bytes).sum::<u64>());
            }
            let expected = f64::from(misses) / (requests.len() as f64).max(1.0);
            prop_assert_eq!(cache.finish().miss_ratio, expected);
        }
    }
}
