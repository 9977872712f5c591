//! What the eviction of classes remembers between requests: where each class searches, and what is at stake.
//! [`evicting`](super::evicting) has the rules.

use super::written::Place;
use crate::layout::{ClassId, Shares};

/// Number of refusals because of other classes' data in a segment after which that data is searched again.
const REFUSALS_MAX: u32 = 1000;

/// The position at which a class searches for data to evict.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    pub(super) next: Place,
    /// The first place before `next` where the class may have data: it could not be evicted, or has arrived later.
    pub(super) left: Option<Place>,
}

impl Cursor {
    pub(super) fn leaves(&mut self, place: Place) {
        self.left = Some(self.left.map_or(place, |left| left.min(place)));
    }
}

/// Data that the cache loses when the next segment is filled.
#[derive(Clone, Copy, Debug, Default)]
struct AtStake {
    /// Generation of its current filling; 0: none.
    generation: u64,
    /// Bit set of the classes with data in it, as of the last search.
    classes: u64,
    /// Refusals since then.
    refusals: u32,
}

/// What a class has evicted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evicted {
    pub(super) sectors: u64,
    /// Whether data was found that is dirty, or in flight to the core.
    pub(super) has_seen_dirty: bool,
}

/// Where classes search for data to evict, and which of them lack room.
#[derive(Debug)]
pub(super) struct Evicting {
    cursors: [Cursor; ClassId::COUNT],
    /// Where each class searches for its oldest dirty data.
    pub(super) oldest_dirty: [Place; ClassId::COUNT],
    /// Bit set of the classes that were refused room because of dirty data.
    full_of_dirty: u64,
    at_stake: AtStake,
    /// Whether shares were set. Data from before was found by a start and is all of class 0. If it exceeds the share
    /// of class 0, this is no lowered share, because requests have yet to assign the data to classes.
    has_shares: bool,
    /// Bit set of the classes whose share was lowered, and that exceed it.
    lowered: u64,
}

impl Default for Evicting {
    fn default() -> Self {
        let cursors = [Cursor::default(); ClassId::COUNT];
        Self {
            cursors,
            oldest_dirty: [Place::default(); ClassId::COUNT],
            full_of_dirty: 0,
            at_stake: AtStake::default(),
            has_shares: false,
            lowered: 0,
        }
    }
}

impl Evicting {
    /// Fillings from `generation` on may have data of a class that was not there when they were searched.
    pub(super) fn look_again(&mut self, class: ClassId, generation: u64) {
        let cursor = &mut self.cursors[class.index()];
        if generation <= cursor.next.generation {
            cursor.leaves(Place { generation, line: 0 });
        }
    }

    /// The data of a class from `place` on is clean now: it is evicted first.
    pub(super) fn look_from(&mut self, class: ClassId, place: Place) {
        let cursor = &mut self.cursors[class.index()];
        if place > cursor.next {
            cursor.leaves(cursor.next);
        }
        cursor.next = place;
    }

    pub(super) fn take_full_of_dirty(&mut self) -> Option<ClassId> {
        let class = ClassId::all().find(|class| self.full_of_dirty & class.bit() != 0)?;
        self.full_of_dirty &= !class.bit();
        Some(class)
    }

    /// The shares change. Classes whose share is lowered shrink from now on.
    pub(super) fn shares_change(&mut self, before: &Shares, after: &Shares) {
        let is_lowered = |class: &ClassId| after.get(*class).percent < before.get(*class).percent;
        for class in ClassId::all().filter(is_lowered).filter(|_| self.has_shares) {
            self.lowered |= class.bit();
        }
        (self.has_shares, self.full_of_dirty) = (true, 0);
    }

    pub(super) fn cursor(&self, class: ClassId) -> Cursor {
        self.cursors[class.index()]
    }

    pub(super) fn set_cursor(&mut self, class: ClassId, cursor: Cursor) {
        self.cursors[class.index()] = cursor;
    }

    /// A class was refused room because of dirty data.
    pub(super) fn note_full_of_dirty(&mut self, class: ClassId) {
        self.full_of_dirty |= class.bit();
    }

    /// Whether it knows well enough what is at stake in the filling of this generation.
    pub(super) fn knows_stake(&self, generation: u64) -> bool {
        self.at_stake.generation == generation && self.at_stake.refusals < REFUSALS_MAX
    }

    /// The classes with data in the filling of this generation, which is the next to be lost.
    pub(super) fn learn_stake(&mut self, generation: u64, classes: u64) {
        self.at_stake = AtStake { generation, classes, refusals: 0 };
    }

    /// Whether no other class has data at stake. If not, this counts as a refusal.
    pub(super) fn takes_from_no_other(&mut self, class: ClassId) -> bool {
        let takes_none = self.at_stake.classes & !class.bit() == 0;
        self.at_stake.refusals += u32::from(!takes_none);
        takes_none
    }

    /// Whether a class exceeds a lowered share.
    pub(super) fn has_lowered(&self) -> bool {
        self.lowered != 0
    }

    /// The classes that exceed a lowered share.
    pub(super) fn lowered(&self) -> impl Iterator<Item = ClassId> + use<> {
        let lowered = self.lowered;
        ClassId::all().filter(move |class| lowered & class.bit() != 0)
    }

    /// A class no longer exceeds its lowered share.
    pub(super) fn has_shrunk(&mut self, class: ClassId) {
        self.lowered &= !class.bit();
    }
}
