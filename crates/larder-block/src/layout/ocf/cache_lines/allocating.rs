//! Selects the lines for data that is not cached yet: free lines first, then the least recently used clean ones. Never
//! waits for dirty lines: these are cleaned for later requests. For the classes of lines, see `classes`.

use std::collections::BTreeSet;

use super::super::lists::Kind;
use super::super::version::LISTS;
use super::CacheLines;
use crate::layout::ClassId;

impl CacheLines {
    /// Takes `count` lines for a class out of their lists, without an owner, or none. If there are too few, the
    /// clean lines taken up to then become free. Lines beyond the share of a class come from its own lines.
    pub(super) fn take_lines(
        &mut self,
        class: ClassId,
        count: usize,
        doubtful: &BTreeSet<u32>,
    ) -> Option<Vec<u32>> {
        let mut taken = Vec::with_capacity(count);
        if count == 0 {
            return Some(taken);
        }
        let first = self.next_taken;
        self.next_taken = (first + 1) % LISTS;
        let own = self.lines_of_its_own(class, count);
        self.take_of((Kind::Clean, class), first, own, doubtful, &mut taken);
        if taken.len() == own {
            self.take_of((Kind::Free, class), first, count, doubtful, &mut taken);
            for other in self.giving_way_to(class) {
                self.take_of((Kind::Clean, other), first, count, doubtful, &mut taken);
            }
        }
        if taken.len() < count {
            // Put back in reverse, so that the line taken last is the first one given out again.
            for line in taken.into_iter().rev() {
                self.put(Kind::Free, line);
            }
            return None;
        }
        Some(taken)
    }

    fn take_of(
        &mut self,
        (kind, class): (Kind, ClassId),
        first: usize,
        count: usize,
        doubtful: &BTreeSet<u32>,
        taken: &mut Vec<u32>,
    ) {
        let at_once = self.geometry.version.taken_at_once();
        let (mut list, mut empty) = (first, 0);
        while taken.len() < count && empty < LISTS {
            let before = taken.len();
            while taken.len() < count && taken.len() - before < at_once {
                let Some(line) = self.oldest_idle((kind, class), list, doubtful) else { break };
                self.take_out(line);
                if kind == Kind::Clean {
                    self.unmap(line);
                }
                taken.push(line);
            }
            empty = if taken.len() == before { empty + 1 } else { 0 };
            list = (list + 1) % LISTS;
        }
    }

    /// The least recently used line of a list, among those that may change owner.
    fn oldest_idle(
        &self,
        (kind, class): (Kind, ClassId),
        list: usize,
        doubtful: &BTreeSet<u32>,
    ) -> Option<u32> {
        let mut line = self.lists.oldest(kind, class, list)?;
        while !self.locks.is_idle(line) || doubtful.contains(&self.geometry.unit_of(line)) {
            line = self.lists.newer(line)?;
        }
        Some(line)
    }

    /// The least recently used dirty and idle lines that may be evicted for a class, at most `count`.
    pub(in crate::layout::ocf) fn choose_dirty(
        &mut self,
        class: ClassId,
        count: usize,
    ) -> Vec<u32> {
        let mut chosen = Vec::with_capacity(count);
        let is_full = self.lines_of_its_own(class, 1) > 0;
        let classes = if is_full { vec![class] } else { self.giving_way_to(class) };
        for class in classes {
            self.choose_dirty_of(class, count, &mut chosen);
        }
        chosen
    }

    fn choose_dirty_of(&mut self, class: ClassId, count: usize, chosen: &mut Vec<u32>) {
        let at_once = self.geometry.version.cleaned_at_once();
        let (mut list, mut empty) = (self.next_cleaned, 0);
        let mut next = [None; LISTS];
        let oldest = |list| self.lists.oldest(Kind::Dirty, class, list);
        (0..LISTS).for_each(|list| next[list] = oldest(list));
        while chosen.len() < count && empty < LISTS {
            let before = chosen.len();
            while let Some(line) = next[list]
                && chosen.len() < count
                && chosen.len() - before < at_once
            {
                next[list] = self.lists.newer(line);
                if self.locks.is_idle(line) {
                    chosen.push(line);
                }
            }
            empty = if chosen.len() == before { empty + 1 } else { 0 };
            list = (list + 1) % LISTS;
        }
        self.next_cleaned = list;
    }
}
