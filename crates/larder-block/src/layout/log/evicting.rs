//! A class that has its share makes room for what is new: it gives up what it cached first.
//!
//! That is void in memory, without an I/O, and frees no segment: the log turns as it is written. Its record stays on
//! the device until its segment is filled anew, and a start would find it. So the index goes on to know it, as evicted
//! ([`Extent::is_evicted`](super::index::Extent)), and what goes past it to the core makes it void first, as it does
//! with what is cached. Nothing else is written for it.
//!
//! The log turns by what such a class writes, so it gets more only as long as no other class has anything in the
//! segment that is filled next: a scan within a small share would take everything from everybody.
//!
//! What is dirty cannot go. A class that is refused for it is noted, so that the oldest of that may be destaged
//! ([`oldest_dirty`](super::oldest_dirty)): only where it would get room then.
//!
//! Each class looks through what was written for it, segment by segment in the order in which they were opened, and
//! remembers where it was. A request waits for so many lines at most.

use super::index::Found;
use super::state::LogLayout;
use super::written::Place;
use crate::layout::line::unpack_line;
use crate::layout::{ClassId, Shares};

/// Segments that are looked at for one request.
const SEGMENTS_MAX: u32 = 256;
/// Lines that are looked at for one request, beyond those that it needs.
const LINES_MAX: u32 = 64;
/// So often a class is refused for what others have in a segment before it is looked whether they have it still.
const REFUSALS_MAX: u32 = 1000;

/// Where a class looks for what it gives up.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    next: Place,
    /// The first place before it where something of the class may be: it could not go, or has come there later.
    left: Option<Place>,
}

impl Cursor {
    fn leaves(&mut self, place: Place) {
        self.left = Some(self.left.map_or(place, |left| left.min(place)));
    }
}

/// What is lost when the next segment is filled.
#[derive(Clone, Copy, Debug, Default)]
struct AtStake {
    /// Of the filling that it has now; 0 is none.
    generation: u64,
    /// Classes that have something there, by bit, when it was looked.
    classes: u64,
    /// How often somebody was refused since.
    refusals: u32,
}

/// What a class has given up.
#[derive(Clone, Copy, Debug, Default)]
struct Evicted {
    sectors: u64,
    /// Something was seen that is dirty, or on its way to the core.
    has_seen_dirty: bool,
}

#[derive(Debug)]
pub(super) struct Evicting {
    cursors: [Cursor; ClassId::COUNT],
    /// Where each class looks for what it has had dirty for longest.
    pub(super) oldest_dirty: [Place; ClassId::COUNT],
    /// Classes that were refused room for what they have dirty, by bit.
    full_of_dirty: u64,
    at_stake: AtStake,
    /// Whether shares were told. What is there before, a start has found: that it is more than class 0 may have lowers
    /// no share, for requests have yet to say of which classes it is.
    has_shares: bool,
    /// Classes that may have less than before, and have more, by bit.
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
    /// Something of a class may be in fillings of `generation` and later ones that was not when they were looked at.
    pub(super) fn look_again(&mut self, class: ClassId, generation: u64) {
        let cursor = &mut self.cursors[class.index()];
        if generation <= cursor.next.generation {
            cursor.leaves(Place { generation, line: 0 });
        }
    }

    /// What a class has at `place` and behind it is clean now: it goes first.
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

    /// Shares change. Classes that may have less shrink from now on.
    pub(super) fn shares_change(&mut self, before: &Shares, after: &Shares) {
        let is_lowered = |class: &ClassId| after.get(*class).percent < before.get(*class).percent;
        for class in ClassId::all().filter(is_lowered).filter(|_| self.has_shares) {
            self.lowered |= class.bit();
        }
        (self.has_shares, self.full_of_dirty) = (true, 0);
    }
}

impl LogLayout {
    /// Something of a class is in a segment that was not written there for it.
    pub(super) fn has_come_to(&mut self, segment: u32, class: ClassId) {
        self.segments.has_changed_class(segment, class);
        self.evicting.look_again(class, self.segments.get(segment).generation());
    }

    /// Makes room for so many more sectors of a class within its share. Whether there is.
    pub(super) fn make_room_in(&mut self, class: ClassId, sectors: u32) -> bool {
        let too_many = self.too_many_with(class, sectors);
        if too_many == 0 {
            return true;
        }
        // A class that has more than its share, for a start has found it, gives up twice what it gets.
        let (wanted, needed) =
            (too_many.min(2 * u64::from(sectors)), too_many.min(u64::from(sectors)));
        if !self.takes_from_no_other(class) {
            return false;
        }
        let evicted = self.evict(class, wanted);
        if evicted.sectors < needed && evicted.has_seen_dirty {
            self.evicting.full_of_dirty |= class.bit();
        }
        evicted.sectors >= needed
    }

    /// Whether no other class has anything in the segment that is filled next.
    fn takes_from_no_other(&mut self, class: ClassId) -> bool {
        let Some((generation, segment)) = self.segments.next_filled() else { return true };
        let known = self.evicting.at_stake;
        if known.generation != generation || known.refusals >= REFUSALS_MAX {
            let found = self.found_in(segment, self.segments.get(segment).lines());
            let classes = found.iter().fold(0, |all, one| all | one.extent.class.bit());
            self.evicting.at_stake = AtStake { generation, classes, refusals: 0 };
        }
        let at_stake = &mut self.evicting.at_stake;
        let takes_none = at_stake.classes & !class.bit() == 0;
        at_stake.refusals += u32::from(!takes_none);
        takes_none
    }

    /// Lets go of a little of what is more than lowered shares.
    pub(super) fn shrink_lowered(&mut self) {
        if self.evicting.lowered == 0 {
            return;
        }
        let few = u64::from(LINES_MAX * self.geometry.line_sectors());
        let lowered = self.evicting.lowered;
        for class in ClassId::all().filter(|class| lowered & class.bit() != 0) {
            match self.too_many_with(class, 0) {
                0 => self.evicting.lowered &= !class.bit(),
                too_many => _ = self.evict(class, too_many.min(few)),
            }
        }
    }

    /// Gives up so many sectors of a class or a few more, the oldest first, as far as they are clean and found soon.
    fn evict(&mut self, class: ClassId, wanted: u64) -> Evicted {
        let mut cursor = self.evicting.cursors[class.index()];
        let (began, mut has_turned) = (cursor.next, false);
        let needed = u32::try_from(wanted / u64::from(self.geometry.line_sectors()));
        let mut lines = needed.unwrap_or(u32::MAX).saturating_mul(2).saturating_add(LINES_MAX);
        let (mut segments, mut evicted) = (SEGMENTS_MAX, Evicted::default());
        while evicted.sectors < wanted && lines > 0 && segments > 0 {
            let Some((generation, segment)) = self.segments.filling_from(cursor.next.generation)
            else {
                // Behind the last one: once more through what was left.
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
            let written = self.segments.get(segment).written();
            let Some(line) = written.next_of(class, cursor.next.line) else {
                let end = Place { generation, line: written.lines().len() };
                if self.segments.get(segment).is_open() {
                    cursor.leaves(end);
                }
                cursor.next = Place { generation: generation + 1, line: 0 };
                segments -= 1;
                continue;
            };
            lines -= 1;
            cursor.next.line = line + 1;
            let (gone, is_left) = self.evict_line(class, segment, line);
            evicted.sectors += gone;
            if is_left {
                evicted.has_seen_dirty = true;
                cursor.leaves(Place { generation, line });
            }
        }
        self.evicting.cursors[class.index()] = cursor;
        evicted
    }

    /// Gives up what a class has in a line of a segment. How many sectors, and whether there are more that cannot go.
    fn evict_line(&mut self, class: ClassId, segment: u32, line: usize) -> (u64, bool) {
        let (mut gone, mut is_left) = (0, false);
        let mut found = std::mem::take(&mut self.found);
        self.find_of_class(class, segment, line, &mut found);
        for one in found.drain(..) {
            if one.extent.is_dirty || one.extent.is_busy {
                is_left = true;
            } else {
                self.index.evict(one);
                gone += u64::from(one.span.sectors);
            }
        }
        self.found = found;
        (gone, is_left)
    }

    /// Puts into `found`, which is empty, what a class has in a line of a segment, by its number there.
    pub(super) fn find_of_class(
        &self,
        class: ClassId,
        segment: u32,
        line: usize,
        found: &mut Vec<Found>,
    ) {
        let line = self.segments.get(segment).lines()[line];
        self.index.find(unpack_line(line, self.geometry.line_sectors()), found);
        found.retain(|one| {
            one.extent.class == class && self.geometry.place_of(one.extent.location).0 == segment
        });
    }
}
