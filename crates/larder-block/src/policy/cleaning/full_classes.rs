//! Destages for IO classes that have used up their share with only dirty data. Nothing of such a class can be evicted,
//! so its new data bypasses the cache. As in Open CAS, some of its data is destaged whatever the policy would do;
//! with [`CleaningPolicy::Nop`](super::CleaningPolicy::Nop) none is.
//!
//! A class that was refused room gets a part of its share destaged, in batches of what may be in flight at a time.
//! Only then may it ask again. One batch is in flight at a time. Its bytes count towards the limits of the cleaner.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use crate::layout::{ClassId, SECTOR_BYTES};

/// One part in this number of the share of a class is destaged before the class may ask for more.
const SHARE_PART: u64 = 16;
/// How long a class is skipped after no data to destage was found.
const FOUND_NONE: Duration = Duration::from_millis(10);

/// The class whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassTurn {
    /// Destage about this number of sectors of this class; answer with
    /// [`Cleaning::class_began`](super::Cleaning::class_began).
    Now(ClassId, u64),
    /// Ask again at this time.
    At(Duration),
    /// No class, until one is refused room or the batch in flight ends.
    NoClass,
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

    pub(super) fn is_batch_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// The shares have changed: a class that is refused room asks again.
    pub(super) fn forget_wishes(&mut self) {
        self.wishes.clear();
    }

    /// A class with a share of `share_sectors` was refused room.
    pub(super) fn refused(&mut self, class: ClassId, share_sectors: u64) {
        let wish = self.wishes.entry(class).or_default();
        if wish.sectors == 0 {
            wish.sectors = (share_sectors / SHARE_PART).max(1);
        }
    }

    /// The destage of `sectors` sectors of a class has begun; 0: no data was found. Returns its bytes.
    pub(super) fn began(&mut self, class: ClassId, sectors: u64, at: Duration) -> u64 {
        self.last = Some(class);
        let wish = self.wishes.entry(class).or_default();
        if sectors == 0 {
            *wish = Wish { sectors: 0, rests_until: at + FOUND_NONE };
            return 0;
        }
        wish.sectors = wish.sectors.saturating_sub(sectors);
        let bytes = sectors.saturating_mul(SECTOR_BYTES as u64);
        self.under_way = Some(bytes);
        bytes
    }

    /// The batch has ended. If it has failed, the class still wants it, and rests until `rests_until`.
    pub(super) fn destaged(&mut self, class: ClassId, was_well: bool, rests_until: Duration) {
        let bytes = self.under_way.take().unwrap_or(0);
        // The wish may have been forgotten while the batch was in flight.
        if !was_well && let Some(wish) = self.wishes.get_mut(&class) {
            wish.sectors += bytes / SECTOR_BYTES as u64;
            wish.rests_until = rests_until;
        }
    }

    /// The next class in turn that has a wish and does not rest.
    pub(super) fn next(&self, at: Duration) -> Option<(ClassId, u64)> {
        let behind = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let in_turn = self.wishes.range((behind, Bound::Unbounded)).chain(self.wishes.range(..));
        let mut awake = in_turn.filter(|(_, wish)| wish.sectors > 0 && wish.rests_until <= at);
        awake.next().map(|(class, wish)| (*class, wish.sectors))
    }

    /// Time until the first resting class with a wish is due.
    pub(super) fn until_rested(&self, at: Duration) -> Option<Duration> {
        let resting = self.wishes.values().filter(|wish| wish.sectors > 0);
        resting.map(|wish| wish.rests_until.saturating_sub(at)).min()
    }
}

#[cfg(test)]
mod tests;
