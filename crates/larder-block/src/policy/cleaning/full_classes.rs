//! Destages for IO classes that have used up their share with only dirty data. Nothing of such a class can be evicted,
//! so its new data bypasses the cache. As in Open CAS, some of its data is destaged whatever the policy would do;
//! with [`CleaningPolicy::Nop`] none is.
//!
//! A class that was refused room gets a part of its share destaged, in batches of what may be in flight at a time.
//! Only then may it ask again. One batch is in flight at a time. Its bytes count towards the limits of the cleaner.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use super::cleaner::{BACK_OFF, Cleaning, WAIT_MIN};
use super::options::CleaningPolicy;
use crate::layout::{ClassId, SECTOR_BYTES};

/// One part in this number of the share of a class is destaged before the class may ask for more.
const SHARE_PART: u64 = 16;
/// How long a class is skipped after no data to destage was found.
const FOUND_NONE: Duration = Duration::from_millis(10);

/// The class whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassTurn {
    /// Destage about this number of sectors of this class; answer with [`Cleaning::class_began`].
    Now(ClassId, u64),
    /// Ask again at this time.
    At(Duration),
    /// No class, until one is refused room or the batch in flight ends.
    Nobody,
}

#[derive(Debug, Default)]
pub(super) struct FullClasses {
    wishes: BTreeMap<ClassId, Wish>,
    last: Option<ClassId>,
    /// Bytes of the batch in flight.
    under_way: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Wish {
    /// Sectors that remain to be destaged.
    sectors: u64,
    /// The end of the rest, in elapsed time.
    rests_until: Duration,
}

impl FullClasses {
    pub(super) fn bytes_under_way(&self) -> u64 {
        self.under_way.unwrap_or(0)
    }

    pub(super) fn forget_wishes(&mut self) {
        self.wishes.clear();
    }

    /// The next class in turn that has a wish and does not rest.
    fn next(&self, at: Duration) -> Option<(ClassId, u64)> {
        let behind = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let in_turn = self.wishes.range((behind, Bound::Unbounded)).chain(self.wishes.range(..));
        let mut awake = in_turn.filter(|(_, wish)| wish.sectors > 0 && wish.rests_until <= at);
        awake.next().map(|(class, wish)| (*class, wish.sectors))
    }

    /// Time until the first resting class with a wish is due.
    fn until_rested(&self, at: Duration) -> Option<Duration> {
        let resting = self.wishes.values().filter(|wish| wish.sectors > 0);
        resting.map(|wish| wish.rests_until.saturating_sub(at)).min()
    }
}

impl Cleaning {
    /// A class with a share of `share_sectors` was refused room because its data is dirty.
    pub fn class_is_full(&mut self, class: ClassId, share_sectors: u64) {
        if self.options().policy == CleaningPolicy::Nop {
            return;
        }
        let wish = self.full_classes.wishes.entry(class).or_default();
        if wish.sectors == 0 {
            wish.sectors = (share_sectors / SHARE_PART).max(1);
        }
    }

    /// The shares have changed: a class that is refused room asks again.
    pub fn shares_change(&mut self) {
        self.full_classes.forget_wishes();
    }

    /// The class for which data is to be destaged now.
    pub fn class_turn(&mut self, now: Duration) -> ClassTurn {
        if self.full_classes.under_way.is_some() {
            return ClassTurn::Nobody;
        }
        let at = self.elapsed.at(now);
        let later = |wait: Duration| ClassTurn::At(now.saturating_add(wait.max(WAIT_MIN)));
        let Some((class, wanted)) = self.full_classes.next(at) else {
            return self.full_classes.until_rested(at).map_or(ClassTurn::Nobody, later);
        };
        let (under_way, bytes_max) = (self.all_bytes_under_way(), self.bytes_max());
        if under_way > bytes_max / 2 {
            return ClassTurn::Nobody;
        }
        let wait = self.rate.wait(at);
        if !wait.is_zero() {
            return later(wait);
        }
        let budget = (bytes_max - under_way).min(self.rate.piece_bytes()) / SECTOR_BYTES as u64;
        ClassTurn::Now(class, wanted.min(budget).max(1))
    }

    /// The destage of `sectors` sectors of a class has begun; 0: no data was found.
    pub fn class_began(&mut self, class: ClassId, sectors: u64, now: Duration) {
        let at = self.elapsed.at(now);
        let full = &mut self.full_classes;
        full.last = Some(class);
        let wish = full.wishes.entry(class).or_default();
        if sectors == 0 {
            *wish = Wish { sectors: 0, rests_until: at + FOUND_NONE };
            return;
        }
        wish.sectors = wish.sectors.saturating_sub(sectors);
        let bytes = sectors.saturating_mul(SECTOR_BYTES as u64);
        full.under_way = Some(bytes);
        self.rate.spend(at, bytes);
    }

    /// The batch has ended. After a failure of a device the class is left alone for five seconds, and still wants the
    /// batch.
    pub fn class_destaged(&mut self, class: ClassId, was_well: bool, now: Duration) {
        let at = self.elapsed.at(now);
        let bytes = self.full_classes.under_way.take().unwrap_or(0);
        // The wish may have been forgotten while the batch was in flight.
        if !was_well && let Some(wish) = self.full_classes.wishes.get_mut(&class) {
            wish.sectors += bytes / SECTOR_BYTES as u64;
            wish.rests_until = at + BACK_OFF;
        }
    }
}

#[cfg(test)]
mod tests;
