//! What has died, and tables on flash do not know yet.
//!
//! Whoever dies gets the next index of a clock, and records and tables bear the clock as their stamp. So what is dead
//! is a matter of two numbers: a record, or what a table says of a hash, is dead if somebody of that hash died with an
//! index of at least its stamp. A death is kept until a table with a later stamp is on flash.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::tombstones::{KeysIn, Receipt, Tombstones};

/// Without a log of deaths, so many for each table are kept until they are worked off.
pub(super) const DEATHS_PER_TABLE: usize = 16;

/// A hash, and the index that it died with.
pub(super) type Death = (u64, u64);

/// See the [module](self).
pub(super) enum Dead {
    /// A crash leaves what is dead.
    InLog(Arc<Tombstones>),
    /// A crash leaves nothing at all.
    InMemory(Mutex<Deaths>, usize),
}

#[derive(Debug, Default)]
pub(super) struct Deaths {
    clock: u64,
    pending: BTreeMap<u64, u64>,
}

impl Dead {
    /// Without a log, more than `most` deaths are to be worked off.
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

    /// The index of the next death: what is written now is alive after all earlier ones.
    pub(super) fn clock(&self) -> u64 {
        match self {
            Self::InLog(tombstones) => tombstones.clock(),
            Self::InMemory(deaths, _) => Self::lock(deaths).clock,
        }
    }

    /// All that there is of this hash dies. The receipt, if there is a log, is still to be committed.
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

    /// For who finds everything dead already: that may still be on its way.
    pub(super) fn all_so_far(&self) -> Option<Receipt> {
        match self {
            Self::InLog(tombstones) => Some(tombstones.all_so_far()),
            Self::InMemory(..) => None,
        }
    }

    /// The index of the latest death of this hash, if a table may not know of it.
    pub(super) fn index_of(&self, hash: u64) -> Option<u64> {
        match self {
            Self::InLog(tombstones) => tombstones.index_of(KeysIn::Tables, hash),
            Self::InMemory(deaths, _) => Self::lock(deaths).pending.get(&hash).copied(),
        }
    }

    /// Whether what has this stamp, and this hash, is dead.
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

    /// Tables on flash know of these.
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

    /// A hash at or behind this one whose table should be written, if too many wait for that.
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

    /// The clock, where there is no log.
    pub(super) fn clock_in_memory(&self) -> u64 {
        match self {
            Self::InLog(_) => 0,
            Self::InMemory(deaths, _) => Self::lock(deaths).clock,
        }
    }

    /// Goes on from there: an earlier opening has left nobody dead that a table does not know.
    pub(super) fn go_on_from(&self, clock: u64) {
        if let Self::InMemory(deaths, _) = self {
            *Self::lock(deaths) = Deaths { clock, pending: BTreeMap::new() };
        }
    }

    /// Nothing that was written before counts any more.
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
    fn a_stamp_tells_who_is_dead() {
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
        again.go_on_from(dead.clock_in_memory());
        assert_eq!((again.clock(), again.index_of(5)), (dead.clock(), None));
    }
}
