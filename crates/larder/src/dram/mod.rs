//! The DRAM tier: an index, a byte budget, and a policy that says who leaves when the budget is
//! spent.

mod departures;
mod ghost;
mod list;
mod lru;
mod s3fifo;

use hashbrown::HashTable;

use crate::config::DramPolicy;
use crate::key::KeyHash;
use crate::value::{ALLOCATION_BYTES, Item};
use departures::Departures;
use list::Node;
use lru::Lru;
use s3fifo::S3Fifo;

/// What an item costs of the budget besides key and value: its slot, its node, its entry in the
/// index (4 bytes and a control byte, at most 7/8 full), the counts of its allocation.
pub(crate) const ITEM_OVERHEAD_BYTES: usize =
    size_of::<Option<Item>>() + size_of::<Node>() + 8 + ALLOCATION_BYTES;

/// Items in memory. The caller locks.
#[derive(Debug)]
pub(crate) struct DramTier {
    index: HashTable<u32>,
    slots: Vec<Option<Item>>,
    nodes: Vec<Node>,
    free_slots: Vec<u32>,
    policy: Policy,
    budget_bytes: u64,
    /// What the policy takes of the budget, whatever the items.
    policy_bytes: u64,
    used_bytes: u64,
    departures: Departures,
}

#[derive(Debug)]
enum Policy {
    Lru(Lru),
    S3Fifo(S3Fifo),
}

/// What the tier knows about a key.
#[derive(Debug)]
pub(crate) enum Lookup {
    /// It is here.
    Hit(Item),
    /// It was here, but its time is over. Flash may hold an older version, which is over too.
    Expired,
    /// The tier knows nothing; flash may.
    Absent,
}

impl DramTier {
    pub(crate) fn new(budget_bytes: u64, policy: DramPolicy) -> Self {
        let policy = match policy {
            DramPolicy::Lru => Policy::Lru(Lru::new()),
            DramPolicy::S3Fifo => Policy::S3Fifo(S3Fifo::new(budget_bytes)),
        };
        let policy_bytes = match &policy {
            Policy::Lru(_) => 0,
            Policy::S3Fifo(s3fifo) => s3fifo.overhead_bytes(),
        };
        Self {
            index: HashTable::new(),
            slots: Vec::new(),
            nodes: Vec::new(),
            free_slots: Vec::new(),
            policy,
            // What the policy needs is spent from the start.
            used_bytes: policy_bytes,
            budget_bytes,
            policy_bytes,
            departures: Departures::default(),
        }
    }

    /// Looks `key` up and counts the use.
    pub(crate) fn get(&mut self, hash: KeyHash, key: &[u8], now_s: u32) -> Lookup {
        if let Some(slot) = self.find(hash, key) {
            let Some(item) = &self.slots[slot as usize] else { return Lookup::Absent };
            if item.is_expired(now_s) {
                return Lookup::Expired;
            }
            let item = item.clone();
            match &mut self.policy {
                Policy::Lru(lru) => lru.hit(&mut self.nodes, slot),
                Policy::S3Fifo(s3fifo) => s3fifo.hit(&mut self.nodes, slot),
            }
            return Lookup::Hit(item);
        }
        match self.departures.get(hash, key) {
            Some(item) if item.is_expired(now_s) => Lookup::Expired,
            Some(item) => Lookup::Hit(item.clone()),
            None => Lookup::Absent,
        }
    }

    /// Whether an item of this size can be kept at all.
    pub(crate) fn can_hold(&self, object_bytes: usize) -> bool {
        cost(object_bytes) <= self.budget_bytes - self.policy_bytes
    }

    /// Puts `item` in, in place of an older version. What has to leave for it becomes a departure;
    /// so does the item itself if it is larger than the whole tier. Says whether anything waits to
    /// depart.
    pub(crate) fn insert(&mut self, item: Item) -> bool {
        let cost = cost(item.object_bytes());
        if cost > self.budget_bytes - self.policy_bytes {
            self.remove(item.hash, item.key());
            self.departures.add(item);
            return true;
        }
        if let Some(slot) = self.find(item.hash, item.key()) {
            self.replace(slot, item, cost);
            return self.departures.are_waiting();
        }
        self.departures.withdraw(item.hash, item.key());
        // Room is made before the newcomer enters, so that it cannot be its own victim.
        while self.used_bytes + cost > self.budget_bytes {
            if !self.evict_one() {
                break;
            }
        }
        self.enter(item, cost);
        self.departures.are_waiting()
    }

    /// Puts a newer version in the place of an older one, which counts as a use. What has to leave for
    /// it may be the item itself.
    fn replace(&mut self, slot: u32, item: Item, cost: u64) {
        let old_cost = u64::from(self.nodes[slot as usize].bytes);
        self.slots[slot as usize] = Some(item);
        match &mut self.policy {
            Policy::Lru(lru) => {
                lru.resized(&mut self.nodes, slot, narrow(cost));
                lru.hit(&mut self.nodes, slot);
            }
            Policy::S3Fifo(s3fifo) => {
                s3fifo.resized(&mut self.nodes, slot, narrow(cost));
                s3fifo.hit(&mut self.nodes, slot);
            }
        }
        self.used_bytes = self.used_bytes - old_cost + cost;
        while self.used_bytes > self.budget_bytes {
            if !self.evict_one() {
                break;
            }
        }
    }

    /// Takes `key` out of the tier, departing or not.
    pub(crate) fn remove(&mut self, hash: KeyHash, key: &[u8]) -> Option<Item> {
        match self.find(hash, key) {
            Some(slot) => Some(self.leave(slot)),
            None => self.departures.withdraw(hash, key),
        }
    }

    /// The next evicted item that has to be written to flash or forgotten there. It stays visible
    /// until [`DramTier::departed`].
    pub(crate) fn next_departure(&mut self) -> Option<Item> {
        self.departures.next()
    }

    /// Puts back an item that [`DramTier::next_departure`] gave out and nobody dealt with.
    pub(crate) fn requeue_departure(&mut self, item: Item) {
        self.departures.requeue(item);
    }

    /// Whether this very version is still on its way out.
    pub(crate) fn is_departing(&self, item: &Item) -> bool {
        self.departures.is_departing(item)
    }

    /// Flash has dealt with `item`; it need not be visible here any longer.
    pub(crate) fn departed(&mut self, item: &Item) {
        if self.departures.is_departing(item) {
            self.departures.withdraw(item.hash, item.key());
        }
    }

    /// Makes every item depart, for shutdown.
    pub(crate) fn evict_all(&mut self) {
        while self.evict_one() {}
    }

    /// Items that the tier holds.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// Bytes of the budget that are in use.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    fn find(&self, hash: KeyHash, key: &[u8]) -> Option<u32> {
        let is_it = |&slot: &u32| {
            self.slots[slot as usize]
                .as_ref()
                .is_some_and(|item| item.hash == hash && item.key() == key)
        };
        self.index.find(hash.0, is_it).copied()
    }

    fn enter(&mut self, item: Item, cost: u64) {
        self.used_bytes += cost;
        let hash = item.hash;
        let slot = match self.free_slots.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                self.nodes.push(Node::new(0));
                u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 items fit any memory")
            }
        };
        self.slots[slot as usize] = Some(item);
        self.nodes[slot as usize] = Node::new(narrow(cost));
        let slots = &self.slots;
        self.index.insert_unique(hash.0, slot, |&slot| hash_of(slots, slot).0);
        match &mut self.policy {
            Policy::Lru(lru) => lru.inserted(&mut self.nodes, slot, hash),
            Policy::S3Fifo(s3fifo) => s3fifo.inserted(&mut self.nodes, slot, hash),
        }
    }

    fn leave(&mut self, slot: u32) -> Item {
        let item = self.slots[slot as usize].take().expect("an indexed slot is filled");
        match self.index.find_entry(item.hash.0, |&other| other == slot) {
            Ok(entry) => drop(entry.remove()),
            Err(_) => unreachable!("a filled slot is indexed"),
        }
        match &mut self.policy {
            Policy::Lru(lru) => lru.removed(&mut self.nodes, slot),
            Policy::S3Fifo(s3fifo) => s3fifo.removed(&mut self.nodes, slot),
        }
        self.used_bytes -= u64::from(self.nodes[slot as usize].bytes);
        self.free_slots.push(slot);
        item
    }

    fn evict_one(&mut self) -> bool {
        let slots = &self.slots;
        let victim = match &mut self.policy {
            Policy::Lru(lru) => lru.victim(),
            Policy::S3Fifo(s3fifo) => s3fifo.victim(&mut self.nodes, |slot| hash_of(slots, slot)),
        };
        let Some(slot) = victim else { return false };
        let item = self.leave(slot);
        self.departures.add(item);
        true
    }
}

fn cost(object_bytes: usize) -> u64 {
    (object_bytes + ITEM_OVERHEAD_BYTES) as u64
}

fn narrow(cost: u64) -> u32 {
    u32::try_from(cost).expect("object sizes fit 32 bits")
}

fn hash_of(slots: &[Option<Item>], slot: u32) -> KeyHash {
    slots[slot as usize].as_ref().expect("an indexed slot is filled").hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn item(key: u64, value_bytes: usize, expiry_s: u32) -> Item {
        let key = key.to_le_bytes();
        Item::new(KeyHash::of(&key), &key, &vec![7; value_bytes], expiry_s)
    }

    fn get(tier: &mut DramTier, key: u64, now_s: u32) -> Lookup {
        let key = key.to_le_bytes();
        tier.get(KeyHash::of(&key), &key, now_s)
    }

    fn room_for(items: u64, value_bytes: usize) -> u64 {
        items * cost(8 + value_bytes)
    }

    #[test]
    fn lru_evicts_the_least_recently_used() {
        let mut tier = DramTier::new(room_for(3, 100), DramPolicy::Lru);
        (0..3).for_each(|key| _ = tier.insert(item(key, 100, 0)));
        assert!(matches!(get(&mut tier, 0, 0), Lookup::Hit(_)));
        tier.insert(item(3, 100, 0));
        assert_eq!(tier.next_departure().unwrap().key(), 1_u64.to_le_bytes());
        assert!(tier.next_departure().is_none());
        assert_eq!(tier.len(), 3);
    }

    #[test]
    fn s3_fifo_keeps_what_was_hit_through_a_scan() {
        let budget = room_for(1000, 100);
        let mut tier = DramTier::new(budget, DramPolicy::S3Fifo);
        (0..50).for_each(|key| _ = tier.insert(item(key, 100, 0)));
        for _ in 0..2 {
            (0..50).for_each(|key| assert!(matches!(get(&mut tier, key, 0), Lookup::Hit(_))));
        }
        (1000..6000).for_each(|key| _ = tier.insert(item(key, 100, 0)));
        while let Some(item) = tier.next_departure() {
            tier.departed(&item);
        }
        let kept = (0..50).filter(|&key| matches!(get(&mut tier, key, 0), Lookup::Hit(_))).count();
        assert_eq!(kept, 50);
    }

    #[test]
    fn a_departing_item_stays_visible_until_it_has_departed() {
        let mut tier = DramTier::new(room_for(1, 100), DramPolicy::Lru);
        tier.insert(item(0, 100, 0));
        tier.insert(item(1, 100, 0));
        assert!(matches!(get(&mut tier, 0, 0), Lookup::Hit(_)));
        let leaving = tier.next_departure().unwrap();
        assert!(tier.is_departing(&leaving));
        tier.departed(&leaving);
        assert!(matches!(get(&mut tier, 0, 0), Lookup::Absent));
    }

    #[test]
    fn a_replaced_item_no_longer_departs() {
        let mut tier = DramTier::new(room_for(1, 100), DramPolicy::Lru);
        tier.insert(item(0, 100, 0));
        tier.insert(item(1, 100, 0));
        let leaving = tier.next_departure().unwrap();
        tier.insert(item(0, 50, 0));
        assert!(!tier.is_departing(&leaving));
        tier.departed(&leaving);
        assert!(matches!(get(&mut tier, 0, 0), Lookup::Hit(found) if found.value().len() == 50));
    }

    #[test]
    fn what_is_larger_than_the_tier_departs_at_once() {
        let mut tier = DramTier::new(1000, DramPolicy::Lru);
        assert!(!tier.can_hold(2000));
        tier.insert(item(0, 2000, 0));
        assert_eq!(tier.len(), 0);
        assert!(matches!(get(&mut tier, 0, 0), Lookup::Hit(_)));
    }

    #[test]
    fn expiry_is_told_apart_from_absence() {
        let mut tier = DramTier::new(10_000, DramPolicy::S3Fifo);
        tier.insert(item(0, 10, 5));
        assert!(matches!(get(&mut tier, 0, 4), Lookup::Hit(_)));
        assert!(matches!(get(&mut tier, 0, 5), Lookup::Expired));
        assert!(matches!(get(&mut tier, 1, 5), Lookup::Absent));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever happens, the tier never shows an old version and never spends more than its
        /// budget.
        #[test]
        fn agrees_with_a_map(
            ops in prop::collection::vec((0_u8..10, 0_u64..40, 0_usize..300), 1..500),
            lru in any::<bool>(),
        ) {
            let policy = if lru { DramPolicy::Lru } else { DramPolicy::S3Fifo };
            let mut tier = DramTier::new(20_000, policy);
            let mut newest: HashMap<u64, usize> = HashMap::new();
            for (op, key, value_bytes) in ops {
                match op {
                    0..5 => {
                        tier.insert(item(key, value_bytes, 0));
                        newest.insert(key, value_bytes);
                    }
                    5..9 => match get(&mut tier, key, 0) {
                        Lookup::Hit(found) => prop_assert_eq!(Some(&found.value().len()), newest.get(&key)),
                        _ => prop_assert!(true),
                    },
                    _ => {
                        let bytes = key.to_le_bytes();
                        tier.remove(KeyHash::of(&bytes), &bytes);
                        newest.remove(&key);
                        prop_assert!(matches!(get(&mut tier, key, 0), Lookup::Absent));
                    }
                }
                if key % 3 == 0 && let Some(item) = tier.next_departure() {
                    tier.departed(&item);
                }
                prop_assert!(tier.used_bytes() <= 20_000);
            }
        }
    }
}
