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

use super::eviction::Evicted;
use super::index::Found;
use super::state::LogLayout;
use super::written::Place;
use crate::layout::ClassId;
use crate::layout::line::unpack_line;

/// Most segments that one request searches.
const SEGMENTS_MAX: u32 = 256;
/// Most lines that one request searches, beyond the lines that it needs.
const LINES_MAX: u32 = 64;

impl LogLayout {
    /// A segment has data of a class for which it was not written.
    pub(super) fn has_come_to(&mut self, segment: u32, class: ClassId) {
        self.segments.has_changed_class(segment, class);
        self.evicting.look_again(class, self.segments.get(segment).generation());
    }

    /// Makes room for `sectors` more sectors of a class within its share. Returns whether there is room.
    pub(super) fn make_room_in(&mut self, class: ClassId, sectors: u32) -> bool {
        let too_many = self.too_many_with(class, sectors);
        if too_many == 0 {
            return true;
        }
        // A class that exceeds its share, because a start has found its data, evicts twice the amount that it gets.
        let (wanted, needed) =
            (too_many.min(2 * u64::from(sectors)), too_many.min(u64::from(sectors)));
        if !self.takes_from_no_other(class) {
            return false;
        }
        let evicted = self.evict(class, wanted);
        if evicted.sectors < needed && evicted.has_seen_dirty {
            self.evicting.note_full_of_dirty(class);
        }
        evicted.sectors >= needed
    }

    /// Whether no other class has data in the segment that is filled next.
    fn takes_from_no_other(&mut self, class: ClassId) -> bool {
        let Some((generation, segment)) = self.segments.next_filled() else { return true };
        if !self.evicting.knows_stake(generation) {
            let found = self.found_in(segment, self.segments.get(segment).lines());
            let classes = found.iter().fold(0, |all, one| all | one.extent.class.bit());
            self.evicting.learn_stake(generation, classes);
        }
        self.evicting.takes_from_no_other(class)
    }

    /// Evicts a little of what exceeds lowered shares.
    pub(super) fn shrink_lowered(&mut self) {
        if !self.evicting.has_lowered() {
            return;
        }
        let few = u64::from(LINES_MAX * self.geometry.line_sectors());
        for class in self.evicting.lowered() {
            match self.too_many_with(class, 0) {
                0 => self.evicting.has_shrunk(class),
                too_many => _ = self.evict(class, too_many.min(few)),
            }
        }
    }

    /// Evicts `wanted` sectors of a class, or a few more, the oldest first, as far as they are clean and found soon.
    fn evict(&mut self, class: ClassId, wanted: u64) -> Evicted {
        let mut cursor = self.evicting.cursor(class);
        let (began, mut has_turned) = (cursor.next, false);
        let needed = u32::try_from(wanted / u64::from(self.geometry.line_sectors()));
        let mut lines = needed.unwrap_or(u32::MAX).saturating_mul(2).saturating_add(LINES_MAX);
        let (mut segments, mut evicted) = (SEGMENTS_MAX, Evicted::default());
        while evicted.sectors < wanted && lines > 0 && segments > 0 {
            let Some((generation, segment)) = self.segments.filling_from(cursor.next.generation)
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
        self.evicting.set_cursor(class, cursor);
        evicted
    }

    /// Evicts the data of a class in a line of a segment. Returns the sectors, and whether some could not be evicted.
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

    /// Puts the data of a class in a line of a segment, given by its number there, into `found`, which must be empty.
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
