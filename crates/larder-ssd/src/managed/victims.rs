//! Full units by how many live pages they hold, so that greedy garbage collection finds its victim
//! at once.
//!
//! One doubly linked list a live count, threaded through two arrays. A page that dies moves its
//! unit one list down. A unit enters at the head and leaves from the head, so ties go to the unit
//! that changed last; any rule gives the same write amplification.

const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Victims {
    /// First unit with that many live pages.
    heads: Vec<u32>,
    next: Vec<u32>,
    previous: Vec<u32>,
    /// No list below this one has a unit.
    lowest: usize,
    units: u32,
}

impl Victims {
    pub(crate) fn new(units: u32, pages_per_unit: u32) -> Self {
        Self {
            heads: vec![NONE; pages_per_unit as usize + 1],
            next: vec![NONE; units as usize],
            previous: vec![NONE; units as usize],
            lowest: 0,
            units: 0,
        }
    }

    /// Adds a unit that has become full.
    pub(crate) fn insert(&mut self, unit: u32, live: u32) {
        self.units += 1;
        self.link(unit, live);
    }

    /// Takes out a unit that is about to be erased.
    pub(crate) fn remove(&mut self, unit: u32, live: u32) {
        self.units -= 1;
        self.unlink(unit, live);
    }

    /// One page of `unit` died: it holds `live` pages now.
    #[inline]
    pub(crate) fn one_died(&mut self, unit: u32, live: u32) {
        self.unlink(unit, live + 1);
        self.link(unit, live);
    }

    /// The full unit with the fewest live pages.
    pub(crate) fn fewest_live(&mut self) -> Option<u32> {
        if self.units == 0 {
            return None;
        }
        while self.heads[self.lowest] == NONE {
            self.lowest += 1;
        }
        Some(self.heads[self.lowest])
    }

    /// Number of full units.
    pub(crate) fn len(&self) -> u32 {
        self.units
    }

    #[inline]
    fn link(&mut self, unit: u32, live: u32) {
        let head = std::mem::replace(&mut self.heads[live as usize], unit);
        self.next[unit as usize] = head;
        self.previous[unit as usize] = NONE;
        if head != NONE {
            self.previous[head as usize] = unit;
        }
        self.lowest = self.lowest.min(live as usize);
    }

    #[inline]
    fn unlink(&mut self, unit: u32, live: u32) {
        let next = self.next[unit as usize];
        let previous = self.previous[unit as usize];
        if previous == NONE {
            debug_assert_eq!(self.heads[live as usize], unit);
            self.heads[live as usize] = next;
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
    fn the_emptiest_unit_comes_first() {
        let mut victims = Victims::new(4, 8);
        assert_eq!(victims.fewest_live(), None);
        victims.insert(0, 8);
        victims.insert(1, 5);
        victims.insert(2, 5);
        victims.one_died(0, 7);
        assert_eq!(victims.fewest_live(), Some(2));
        victims.remove(2, 5);
        victims.remove(1, 5);
        assert_eq!(victims.fewest_live(), Some(0));
        assert_eq!(victims.len(), 1);
    }
}
