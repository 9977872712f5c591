//! IO classes, as in Open CAS: a class that has its share gives up lines of its own; else those give way that have more
//! than their share, then those of the lowest priority, and none that is of a higher priority than whoever asks, or
//! pinned.

use std::cmp::Reverse;

use super::lists::Kind;
use super::state::OcfLayout;
use crate::layout::{ClassId, Refusal};

impl OcfLayout {
    /// Lines that a class may have.
    fn lines_max(&self, class: ClassId) -> u64 {
        self.shares.get(class).of(u64::from(self.geometry.lines))
    }

    fn has(&self, class: ClassId) -> u64 {
        self.class_lines[class.index()]
    }

    fn has_too_much(&self, class: ClassId) -> bool {
        self.has(class) > self.lines_max(class)
    }

    /// How many of `count` more lines a class has to give up itself.
    pub(super) fn lines_of_its_own(&self, class: ClassId, count: usize) -> usize {
        if self.shares.get(class).percent == 100 {
            return 0;
        }
        let wanted = self.has(class) + count as u64;
        let too_many = wanted.saturating_sub(self.lines_max(class)).min(count as u64);
        usize::try_from(too_many).expect("at most as many as are wanted")
    }

    /// The classes whose lines a class may take, in the order in which they give way.
    pub(super) fn giving_way_to(&self, class: ClassId) -> Vec<ClassId> {
        let own = self.shares.get(class);
        let may = |other: &ClassId| {
            let share = self.shares.get(*other);
            let is_lower = share.priority.is_some() && !own.gives_way_before(share);
            self.has(*other) > 0 && (is_lower || self.has_too_much(*other))
        };
        let mut classes: Vec<ClassId> = ClassId::all().filter(may).collect();
        // 255 first; `None`, which is pinned, last.
        let priority = |class: &ClassId| Reverse(self.shares.get(*class).priority);
        classes.sort_by_key(|class| (!self.has_too_much(*class), priority(class)));
        classes
    }

    /// Why a class cannot have so many more lines, as far as classes go. Those in use count as if they were not.
    pub(super) fn refused(&self, class: ClassId, lines: u64) -> Option<Refusal> {
        if lines > u64::from(self.geometry.lines) {
            // There is no room for it, whatever class it is of.
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

    /// What was hit is of the class that has hit it from now on, as far as that has room.
    pub(super) fn take_over(&mut self, class: ClassId, line: u32) {
        if self.lists.class(line) != class && self.has(class) < self.lines_max(class) {
            self.reclassify(line, class);
        }
    }
}
