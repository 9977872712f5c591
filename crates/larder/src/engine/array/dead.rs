//! Keys that have died while tables on flash do not know it yet.
//!
//! Each death gets the next index of a clock, and records and tables carry the clock as their stamp. So two numbers
//! decide what is dead: a record, or a table's statement about a hash, is dead if its hash has a death with an index of
//! at least its stamp. A death is kept until a table with a later stamp is on flash.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::engine::tombstones::{KeysIn, Receipt, Tombstones};

/// Without a tombstone log, this number of deaths per table is kept before tables are rewritten to work them off.
pub(super) const DEATHS_PER_TABLE: usize = 16;

/// A hash, and the index of its death.
pub(super) type Death = (u64, u64);

/// See the [module](self).
pub(super) enum Dead {
    /// With a tombstone log: deaths survive a crash.
    InLog(Arc<Tombstones>),
    /// Without one: after a crash, flash is empty.
    InMemory(Mutex<Deaths>, usize),
}

#[derive(Debug, Default)]
pub(super) struct Deaths {
    clock: u64,
    pending: BTreeMap<u64, u64>,
}

impl Dead {
    /// Creates an empty list. Without a log, deaths beyond `most` are worked off.
    pub(super) fn new(tombstones: Option<&Arc<Tombstones>>, most: usize) -> Self {
        match tombstones {
            Some(tombstones) => Self::InLog(Arc::clone(tombstones)),
            None => {
                let deaths = Deaths { clock: 1, pending: BTreeMap::new() };
                Self::InMemory(Mutex::new(deaths), most)
            }
        }
    }

    fn lock(deaths: &Mutex<Deaths>) -> MutexGuard<'_, Deaths> {
        deaths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The index of the next death: a record written now is newer than all earlier deaths.
    pub(super) fn clock(&self) -> u64 {
        match self {
            Self::InLog(tombstones) => tombstones.clock(),
            Self::InMemory(deaths, _) => Self::lock(deaths).clock,
        }
    }

    /// Marks everything of this hash dead. The receipt, if there is a log, must still be committed.
    pub(super) fn die(&self, hash: u64) -> Option<Receipt> {
        match self {
            Self::InLog(tombstones) => Some(tombstones.invalidate_key_again(KeysIn::Tables, hash)),
            Self::InMemory(deaths, _) => {
                let deaths = &mut *Self::lock(deaths);
                deaths.pending.insert(hash, deaths.clock);
                deaths.clock += 1;
                None
            }
        }
    }

    /// For a caller that finds everything dead already: those deaths may not be durable yet.
    pub(super) fn all_so_far(&self) -> Option<Receipt> {
        match self {
            Self::InLog(tombstones) => Some(tombstones.all_so_far()),
            Self::InMemory(..) => None,
        }
    }

    /// The index of the latest death of this hash, if its table may not know it.
    pub(super) fn index_of(&self, hash: u64) -> Option<u64> {
        match self {
            Self::InLog(tombstones) => tombstones.index_of(KeysIn::Tables, hash),
            Self::InMemory(deaths, _) => Self::lock(deaths).pending.get(&hash).copied(),
        }
    }

    /// Whether something with this hash and this stamp is dead.
    pub(super) fn has_died_since(&self, hash: u64, stamp: u64) -> bool {
        self.index_of(hash).is_some_and(|index| index >= stamp)
    }

    /// The deaths of these hashes.
    pub(super) fn within(&self, hashes: Range<u128>) -> Vec<Death> {
        match self {
            Self::InLog(tombstones) => tombstones.deaths_within(KeysIn::Tables, hashes),
            Self::InMemory(deaths, _) => {
                let Ok(start) = u64::try_from(hashes.start) else { return Vec::new() };
                let deaths = Self::lock(deaths);
                let behind = deaths.pending.range(start..);
                let within = behind.take_while(|(hash, _)| u128::from(**hash) < hashes.end);
                within.map(|(&hash, &index)| (hash, index)).collect()
            }
        }
    }

    /// Forgets these deaths: tables on flash know them.
    pub(super) fn known(&self, deaths: &[Death]) {
        if deaths.is_empty() {
            return;
        }
        match self {
            Self::InLog(tombstones) => tombstones.deaths_known(KeysIn::Tables, deaths),
            Self::InMemory(kept, _) => {
                let mut kept = Self::lock(kept);
                for (hash, index) in deaths {
                    if kept.pending.get(hash) == Some(index) {
                        kept.pending.remove(hash);
                    }
                }
            }
        }
    }

    /// If too many deaths are pending: a dead hash, starting at `from`, whose table should be written.
    pub(super) fn to_work_off(&self, from: u64) -> Option<u64> {
        match self {
            Self::InLog(tombstones) => tombstones.key_to_work_off(KeysIn::Tables, from),
            Self::InMemory(deaths, most) => {
                let deaths = Self::lock(deaths);
                let first =
                    |range: &mut dyn Iterator<Item = (&u64, &u64)>| range.next().map(|it| *it.0);
                let next = first(&mut deaths.pending.range(from..));
                let next = next.or_else(|| first(&mut deaths.pending.iter()));
                next.filter(|_| deaths.pending.len() > *most)
            }
        }
    }

    /// The clock, if there is no log; else 0.
    pub(super) fn clock_in_memory(&self) -> u64 {
        match self {
            Self::InLog(_) => 0,
            Self::InMemory(deaths, _) => Self::lock(deaths).clock,
        }
    }

    /// Continues with this clock: an earlier opening has left no death that its table does not know.
    pub(super) fn set_clock(&self, clock: u64) {
        if let Self::InMemory(deaths, _) = self {
            *Self::lock(deaths) = Deaths { clock, pending: BTreeMap::new() };
        }
    }

    /// Forgets all deaths: nothing that was written before is valid any more.
    pub(super) fn forget_all(&self) {
        if let Self::InMemory(deaths, _) = self {
            Self::lock(deaths).pending.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_tells_which_keys_died_since() {
        let dead = Dead::new(None, 2);
        let before = dead.clock();
        assert_eq!(dead.die(5), None);
        let after = dead.clock();
        assert!(dead.has_died_since(5, before) && !dead.has_died_since(5, after));
        assert!(!dead.has_died_since(6, before));
        let first = dead.within(0..10);
        assert_eq!(first, [(5, before)]);
        dead.die(5);
        dead.known(&first);
        assert!(dead.has_died_since(5, after), "it died again, which no table knows");
        dead.die(1 << 63);
        assert_eq!((dead.within(6..1 << 64).len(), dead.to_work_off(0)), (1, None));
        dead.die(7);
        assert_eq!(
            [0, 6, u64::MAX].map(|from| dead.to_work_off(from)),
            [Some(5), Some(7), Some(5)]
        );
        let again = Dead::new(None, 2);
        again.set_clock(dead.clock_in_memory());
        assert_eq!((again.clock(), again.index_of(5)), (dead.clock(), None));
    }
}
