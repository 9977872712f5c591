//! IO classes that have all of their share, and all of it dirty: nothing of theirs can be evicted, and what is new
//! passes by. So some of it is destaged for them, whatever the policy would do just now, as in Open CAS; but with
//! [`CleaningPolicy::Nop`] none is.
//!
//! A class that was refused room has a part of its share destaged, in batches of what may be under way at a time, and
//! asks again only when it has that. It is one batch at a time, within the limits of the cleaner, which has less then.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use super::cleaner::{BACK_OFF, Cleaning, WAIT_MIN};
use super::options::CleaningPolicy;
use crate::layout::{ClassId, SECTOR_BYTES};

/// This part of its share a class has destaged before it is looked whether it wants more.
const SHARE_PART: u64 = 16;
/// So long a class of which nothing was found is not looked at.
const FOUND_NONE: Duration = Duration::from_millis(10);

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassTurn {
    /// About so many sectors of this class are to be destaged; answer with [`Cleaning::class_began`].
    Now(ClassId, u64),
    /// Ask again then.
    At(Duration),
    /// Nobody's, before a class is refused room or what is under way has ended.
    Nobody,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct FullClasses {
    wishes: BTreeMap<ClassId, Wish>,
    last: Option<ClassId>,
    /// Bytes of the batch that is under way.
    under_way: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Wish {
    /// Sectors that are to be destaged still.
    sectors: u64,
    /// In elapsed time.
    rests_until: Duration,
}

impl FullClasses {
    pub(super) fn bytes_under_way(&self) -> u64 {
        self.under_way.unwrap_or(0)
    }

    pub(super) fn forget_wishes(&mut self) {
        self.wishes.clear();
    }

    /// The next one in turn that wants something and does not rest.
    fn next(&self, at: Duration) -> Option<(ClassId, u64)> {
        let behind = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let in_turn = self.wishes.range((behind, Bound::Unbounded)).chain(self.wishes.range(..));
        let mut awake = in_turn.filter(|(_, wish)| wish.sectors > 0 && wish.rests_until <= at);
        awake.next().map(|(class, wish)| (*class, wish.sectors))
    }

    /// How long those rest that want something.
    fn until_rested(&self, at: Duration) -> Option<Duration> {
        let resting = self.wishes.values().filter(|wish| wish.sectors > 0);
        resting.map(|wish| wish.rests_until.saturating_sub(at)).min()
    }
}

impl Cleaning {
    /// A class that may have so many sectors was refused room, for what it has is dirty.
    pub fn class_is_full(&mut self, class: ClassId, share_sectors: u64) {
        if self.options().policy == CleaningPolicy::Nop {
            return;
        }
        let wish = self.full_classes.wishes.entry(class).or_default();
        if wish.sectors == 0 {
            wish.sectors = (share_sectors / SHARE_PART).max(1);
        }
    }

    /// Classes have other shares: whoever is refused room asks anew.
    pub fn shares_change(&mut self) {
        self.full_classes.forget_wishes();
    }

    /// The class for which something is to be destaged now.
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

    /// So many sectors of a class set out; 0: none were found.
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

    /// They have ended. If a device has failed the class is left alone for five seconds, and wants them still.
    pub fn class_destaged(&mut self, class: ClassId, was_well: bool, now: Duration) {
        let at = self.elapsed.at(now);
        let bytes = self.full_classes.under_way.take().unwrap_or(0);
        // One that was forgotten meanwhile wants nothing.
        if !was_well && let Some(wish) = self.full_classes.wishes.get_mut(&class) {
            wish.sectors += bytes / SECTOR_BYTES as u64;
            wish.rests_until = at + BACK_OFF;
        }
    }
}

#[cfg(test)]
mod tests;
