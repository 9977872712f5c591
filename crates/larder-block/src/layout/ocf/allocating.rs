//! Which lines a request gets that nothing is cached in yet: free ones, then the clean ones that were used longest ago.
//! Dirty ones are never waited for: they are cleaned for whoever comes later.

use super::lists::Kind;
use super::state::OcfLayout;
use super::version::LISTS;

impl OcfLayout {
    /// So many lines, out of their lists and nobody's, or none. If there are too few, a cleaning is asked for, and
    /// those that were clean are free.
    pub(super) fn take_lines(&mut self, count: usize) -> Option<Vec<u32>> {
        let mut taken = Vec::with_capacity(count);
        if count == 0 {
            return Some(taken);
        }
        let first = self.next_taken;
        self.next_taken = (first + 1) % LISTS;
        for kind in [Kind::Free, Kind::Clean] {
            self.take_of(kind, first, count, &mut taken);
        }
        if taken.len() < count {
            // The last one taken is the first one given out again.
            for line in taken.into_iter().rev() {
                self.put(Kind::Free, line);
            }
            self.wants_room = true;
            self.has_changed = true;
            return None;
        }
        Some(taken)
    }

    fn take_of(&mut self, kind: Kind, first: usize, count: usize, taken: &mut Vec<u32>) {
        let at_once = self.geometry.version.taken_at_once();
        let (mut list, mut empty) = (first, 0);
        while taken.len() < count && empty < LISTS {
            let before = taken.len();
            while taken.len() < count && taken.len() - before < at_once {
                let Some(line) = self.oldest_idle(kind, list) else { break };
                self.take_out(line);
                if kind == Kind::Clean {
                    self.lines.unmap(line);
                }
                taken.push(line);
            }
            empty = if taken.len() == before { empty + 1 } else { 0 };
            list = (list + 1) % LISTS;
        }
    }

    /// The line of a list that was used longest ago, of those that may be another's.
    fn oldest_idle(&self, kind: Kind, list: usize) -> Option<u32> {
        let mut line = self.lists.oldest(kind, list)?;
        let doubtful = self.pages.doubtful();
        while !self.locks.is_idle(line) || doubtful.contains(&self.geometry.unit_of(line)) {
            line = self.lists.newer(line)?;
        }
        Some(line)
    }

    /// Dirty lines that were used longest ago and are idle, at most `count`.
    pub(super) fn choose_dirty(&mut self, count: usize) -> Vec<u32> {
        let at_once = self.geometry.version.cleaned_at_once();
        let (mut list, mut empty) = (self.next_cleaned, 0);
        let mut next = [None; LISTS];
        let oldest = |list| self.lists.oldest(Kind::Dirty, list);
        (0..LISTS).for_each(|list| next[list] = oldest(list));
        let mut chosen = Vec::with_capacity(count);
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
        chosen
    }
}
