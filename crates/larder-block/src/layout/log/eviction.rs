//! A class that has used up its share makes room for new data by evicting its oldest data.
//!
//! The eviction happens in memory, without an I/O, and frees no segment: the log advances with what is written. The
//! record stays on the device until its segment is filled again, so a start would find it. Therefore the index
//! remembers it as evicted ([`Extent::is_evicted`](super::index::Extent)), and a write past it to the core makes it
//! void first, as with cached data. Nothing else is written for it.
//!
//! The log advances by what such a class writes. So the class gets more room only while no other class has data in the
//! segment that is filled next. Otherwise a scan within a small share would evict everything of all classes.
//!
//! Dirty data cannot be evicted. A class that is refused for this reason is recorded, so that its oldest dirty data
//! may be destaged ([`oldest_dirty`](super::oldest_dirty)); but only where it would then get room.
//!
//! Each class searches the lines written for it, segment by segment in the order in which they were opened, and
//! remembers its position. The number of lines that one request searches is bounded.

use super::record_log::RecordLog;
use super::written::Place;
use crate::layout::{ClassId, Shares};

/// Most segments that one request searches.
const SEGMENTS_MAX: u32 = 256;
/// Most lines that one request searches, beyond the lines that it needs.
const LINES_MAX: u32 = 64;

/// Number of refusals because of other classes' data in a segment after which that data is searched again.
const REFUSALS_MAX: u32 = 1000;

/// The position at which a class searches for data to evict.
#[derive(Clone, Copy, Debug, Default)]
struct EvictionCursor {
    next: Place,
    /// The first place before `next` where the class may have data: it could not be evicted, or has arrived later.
    left: Option<Place>,
}

impl EvictionCursor {
    fn leaves(&mut self, place: Place) {
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
struct EvictionTally {
    sectors: u64,
    /// Whether data was found that is dirty, or in flight to the core.
    has_seen_dirty: bool,
}

/// Where classes search for data to evict, and which of them lack room.
#[derive(Debug)]
pub(super) struct Eviction {
    cursors: [EvictionCursor; ClassId::COUNT],
    /// Bit set of the classes that were refused room because of dirty data.
    full_of_dirty: u64,
    at_stake: AtStake,
    /// Whether shares were set. Data from before was found by a start and is all of class 0. If it exceeds the share
    /// of class 0, this is no lowered share, because requests have yet to assign the data to classes.
    has_shares: bool,
    /// Bit set of the classes whose share was lowered, and that exceed it.
    lowered: u64,
}

impl Default for Eviction {
    fn default() -> Self {
        let cursors = [EvictionCursor::default(); ClassId::COUNT];
        Self {
            cursors,
            full_of_dirty: 0,
            at_stake: AtStake::default(),
            has_shares: false,
            lowered: 0,
        }
    }
}

impl Eviction {
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

    /// Makes room for `sectors` more sectors of a class that then has `too_many`. Returns whether there is room.
    pub(super) fn make_room(
        &mut self,
        log: &mut RecordLog,
        class: ClassId,
        sectors: u32,
        too_many: u64,
    ) -> bool {
        // A class that exceeds its share, because a start has found its data, evicts twice the amount that it gets.
        let (wanted, needed) =
            (too_many.min(2 * u64::from(sectors)), too_many.min(u64::from(sectors)));
        if !self.takes_from_no_other(log, class) {
            return false;
        }
        let evicted = self.evict(log, class, wanted);
        if evicted.sectors < needed && evicted.has_seen_dirty {
            self.full_of_dirty |= class.bit();
        }
        evicted.sectors >= needed
    }

    /// Whether no other class has data in the segment that is filled next. If not, this counts as a refusal.
    fn takes_from_no_other(&mut self, log: &RecordLog, class: ClassId) -> bool {
        let Some((generation, segment)) = log.segments.next_filled() else { return true };
        let stake = &mut self.at_stake;
        if stake.generation != generation || stake.refusals >= REFUSALS_MAX {
            let found = log.found_in(segment);
            let classes = found.iter().fold(0, |all, one| all | one.extent.class.bit());
            *stake = AtStake { generation, classes, refusals: 0 };
        }
        let takes_none = stake.classes & !class.bit() == 0;
        stake.refusals += u32::from(!takes_none);
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

    /// Evicts a little of a class that exceeds its lowered share by `too_many` sectors.
    pub(super) fn shrink(&mut self, log: &mut RecordLog, class: ClassId, too_many: u64) {
        if too_many == 0 {
            self.lowered &= !class.bit();
        } else {
            let few = u64::from(LINES_MAX * log.line_sectors());
            self.evict(log, class, too_many.min(few));
        }
    }

    /// Evicts `wanted` sectors of a class, or a few more, the oldest first, as far as they are clean and found soon.
    fn evict(&mut self, log: &mut RecordLog, class: ClassId, wanted: u64) -> EvictionTally {
        if log.take_has_loaded() {
            self.look_again(ClassId::UNCLASSIFIED, 0);
        }
        let mut cursor = self.cursors[class.index()];
        let (began, mut has_turned) = (cursor.next, false);
        let needed = u32::try_from(wanted / u64::from(log.line_sectors()));
        let mut lines = needed.unwrap_or(u32::MAX).saturating_mul(2).saturating_add(LINES_MAX);
        let (mut segments, mut evicted) = (SEGMENTS_MAX, EvictionTally::default());
        while evicted.sectors < wanted && lines > 0 && segments > 0 {
            let Some((generation, segment)) = log.segments.filling_from(cursor.next.generation)
            else {
                // After the last segment: go once more through what was left.
                match cursor.left.take() {
                    Some(left) if !has_turned => (cursor.next, has_turned) = (left, true),
                    left => {
                        cursor.left = left;
                        break;
                    }
                }
                continue;
            };
            if generation > cursor.next.generation {
                cursor.next = Place { generation, line: 0 };
            }
            if has_turned && cursor.next >= began {
                break;
            }
            let written = log.segments.get(segment).written();
            let Some(line) = written.next_of(class, cursor.next.line) else {
                let end = Place { generation, line: written.lines().len() };
                if log.segments.get(segment).is_open() {
                    cursor.leaves(end);
                }
                cursor.next = Place { generation: generation + 1, line: 0 };
                segments -= 1;
                continue;
            };
            lines -= 1;
            cursor.next.line = line + 1;
            let (gone, is_left) = evict_line(log, class, segment, line);
            evicted.sectors += gone;
            if is_left {
                evicted.has_seen_dirty = true;
                cursor.leaves(Place { generation, line });
            }
        }
        self.cursors[class.index()] = cursor;
        evicted
    }
}

/// Evicts the data of a class in a line of a segment. Returns the sectors, and whether some could not be evicted.
fn evict_line(log: &mut RecordLog, class: ClassId, segment: u32, line: usize) -> (u64, bool) {
    let (mut gone, mut is_left) = (0, false);
    log.see_class_in_line(class, (segment, line), |index, one| {
        if one.extent.is_dirty || one.extent.is_busy {
            is_left = true;
        } else {
            index.evict(one);
            gone += u64::from(one.span.sectors);
        }
    });
    (gone, is_left)
}
