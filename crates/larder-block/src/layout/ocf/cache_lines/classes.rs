//! IO classes, as in Open CAS. A class that has used up its share evicts its own lines. Otherwise lines of classes
//! that exceed their share are evicted first, then those of the lowest priority. Lines that are pinned, or of a higher
//! priority than the requesting class, are not evicted.

use std::cmp::Reverse;

use super::super::lists::Kind;
use super::CacheLines;
use crate::layout::{ClassId, Refusal};

impl CacheLines {
    /// The most lines that a class may have.
    fn lines_max(&self, class: ClassId) -> u64 {
        self.shares.get(class).of(u64::from(self.geometry.lines))
    }

    fn has(&self, class: ClassId) -> u64 {
        self.class_lines[class.index()]
    }

    fn has_too_much(&self, class: ClassId) -> bool {
        self.has(class) > self.lines_max(class)
    }

    /// How many of `count` more lines a class must take from its own.
    pub(super) fn lines_of_its_own(&self, class: ClassId, count: usize) -> usize {
        if self.shares.get(class).percent == 100 {
            return 0;
        }
        let wanted = self.has(class) + count as u64;
        let too_many = wanted.saturating_sub(self.lines_max(class)).min(count as u64);
        usize::try_from(too_many).expect("at most as many as are wanted")
    }

    /// The classes whose lines a class may take, in the order of eviction.
    pub(super) fn giving_way_to(&self, class: ClassId) -> Vec<ClassId> {
        let own = self.shares.get(class);
        let may = |other: &ClassId| {
            let share = self.shares.get(*other);
            let is_lower = share.priority.is_some() && !own.gives_way_before(share);
            self.has(*other) > 0 && (is_lower || self.has_too_much(*other))
        };
        let mut classes: Vec<ClassId> = ClassId::all().filter(may).collect();
        // 255 first; `None`, which means pinned, last.
        let priority = |class: &ClassId| Reverse(self.shares.get(*class).priority);
        classes.sort_by_key(|class| (!self.has_too_much(*class), priority(class)));
        classes
    }

    /// Why a class cannot have `lines` more lines, as far as classes are concerned. Lines in use count as if they were
    /// idle.
    pub(in crate::layout::ocf) fn refused(&self, class: ClassId, lines: u64) -> Option<Refusal> {
        if lines > u64::from(self.geometry.lines) {
            // There is no room for it in any class.
            return None;
        }
        let wanted = usize::try_from(lines).unwrap_or(usize::MAX);
        let own = self.lines_of_its_own(class, wanted) as u64;
        if lines > self.lines_max(class) || own > self.has(class) {
            return Some(Refusal::Full);
        }
        let free = self.lists.count(Kind::Free, class);
        if own == lines || free >= lines - own {
            return None;
        }
        let given = self.giving_way_to(class).into_iter().map(|other| self.has(other));
        (free + given.sum::<u64>() < lines).then_some(Refusal::Pinned)
    }

    /// Moves a hit line to the class of the request, as far as that class has room.
    pub(in crate::layout::ocf) fn take_over(&mut self, class: ClassId, line: u32) {
        if self.lists.class(line) != class && self.has(class) < self.lines_max(class) {
            self.reclassify(line, class);
        }
    }
}
