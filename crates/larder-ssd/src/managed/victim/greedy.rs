//! Greedy: reclaim the full unit with the fewest live pages (Desnoyers, "Analytic modeling of SSD
//! write performance", SYSTOR'12, gives its write amplification).
//!
//! One doubly linked list per set and live count, threaded through two arrays. When pages die, their unit moves down by
//! that number of lists, so the victim is always at hand. A unit enters and leaves at the head, so ties go to the unit
//! that changed last; any tie rule gives the same write amplification.

const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Greedy {
    /// First unit with each number of live pages, set by set.
    heads: Vec<u32>,
    next: Vec<u32>,
    previous: Vec<u32>,
    sets: Vec<GreedySet>,
    pages_per_unit: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct GreedySet {
    /// No list of the set below this live count has a unit.
    lowest: u32,
    units: u32,
}

impl Greedy {
    pub(crate) fn new(sets: usize, units: u32, pages_per_unit: u32) -> Self {
        Self {
            heads: vec![NONE; sets * (pages_per_unit as usize + 1)],
            next: vec![NONE; units as usize],
            previous: vec![NONE; units as usize],
            sets: vec![GreedySet::default(); sets],
            pages_per_unit,
        }
    }

    pub(crate) fn insert(&mut self, unit: u32, set: u32, live: u32) {
        self.link(unit, self.list(set, live));
        let set = &mut self.sets[set as usize];
        set.units += 1;
        set.lowest = set.lowest.min(live);
    }

    pub(crate) fn remove(&mut self, unit: u32, set: u32, live: u32) {
        self.sets[set as usize].units -= 1;
        self.unlink(unit, self.list(set, live));
    }

    #[inline]
    pub(crate) fn some_died(&mut self, unit: u32, set: u32, live: u32, count: u32) {
        let list = self.list(set, live);
        self.unlink(unit, list + count as usize);
        self.link(unit, list);
        let set = &mut self.sets[set as usize];
        if live < set.lowest {
            set.lowest = live;
        }
    }

    pub(crate) fn choose(&mut self, set: u32) -> Option<u32> {
        let GreedySet { mut lowest, units } = self.sets[set as usize];
        if units == 0 {
            return None;
        }
        while self.heads[self.list(set, lowest)] == NONE {
            lowest += 1;
        }
        self.sets[set as usize].lowest = lowest;
        Some(self.heads[self.list(set, lowest)])
    }

    pub(crate) fn len(&self) -> u32 {
        self.sets.iter().map(|set| set.units).sum()
    }

    #[inline]
    fn list(&self, set: u32, live: u32) -> usize {
        set as usize * (self.pages_per_unit as usize + 1) + live as usize
    }

    #[inline]
    fn link(&mut self, unit: u32, list: usize) {
        let head = std::mem::replace(&mut self.heads[list], unit);
        self.next[unit as usize] = head;
        self.previous[unit as usize] = NONE;
        if head != NONE {
            self.previous[head as usize] = unit;
        }
    }

    #[inline]
    fn unlink(&mut self, unit: u32, list: usize) {
        let next = self.next[unit as usize];
        let previous = self.previous[unit as usize];
        if previous == NONE {
            debug_assert_eq!(self.heads[list], unit);
            self.heads[list] = next;
        } else {
            self.next[previous as usize] = next;
        }
        if next != NONE {
            self.previous[next as usize] = previous;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_emptiest_unit_of_the_set_comes_first() {
        let mut victims = Greedy::new(2, 5, 8);
        assert_eq!(victims.choose(0), None);
        victims.insert(0, 0, 8);
        victims.insert(1, 0, 5);
        victims.insert(2, 0, 5);
        victims.insert(3, 1, 1);
        victims.some_died(0, 0, 7, 1);
        assert_eq!((victims.choose(0), victims.choose(1)), (Some(2), Some(3)));
        victims.remove(2, 0, 5);
        victims.remove(1, 0, 5);
        assert_eq!(victims.choose(0), Some(0));
        assert_eq!(victims.len(), 2);
    }
}
