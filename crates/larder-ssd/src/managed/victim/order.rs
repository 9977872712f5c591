//! The full units of each set in the order in which they became full: a doubly linked list, because wear levelling and
//! per-handle collection remove units from the middle.

const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Order {
    first: Vec<u32>,
    last: Vec<u32>,
    next: Vec<u32>,
    previous: Vec<u32>,
    units: u32,
}

impl Order {
    pub(super) fn new(sets: usize, units: u32) -> Self {
        Self {
            first: vec![NONE; sets],
            last: vec![NONE; sets],
            next: vec![NONE; units as usize],
            previous: vec![NONE; units as usize],
            units: 0,
        }
    }

    pub(super) fn push(&mut self, unit: u32, set: u32) {
        self.units += 1;
        let last = std::mem::replace(&mut self.last[set as usize], unit);
        self.previous[unit as usize] = last;
        self.next[unit as usize] = NONE;
        match last {
            NONE => self.first[set as usize] = unit,
            _ => self.next[last as usize] = unit,
        }
    }

    pub(super) fn remove(&mut self, unit: u32, set: u32) {
        self.units -= 1;
        let (previous, next) = (self.previous[unit as usize], self.next[unit as usize]);
        match previous {
            NONE => self.first[set as usize] = next,
            _ => self.next[previous as usize] = next,
        }
        match next {
            NONE => self.last[set as usize] = previous,
            _ => self.previous[next as usize] = previous,
        }
    }

    /// The units of `set`, longest full first.
    pub(super) fn oldest(&self, set: u32) -> impl Iterator<Item = u32> {
        let mut at = self.first[set as usize];
        std::iter::from_fn(move || {
            let unit = (at != NONE).then_some(at)?;
            at = self.next[unit as usize];
            Some(unit)
        })
    }

    pub(super) fn len(&self) -> u32 {
        self.units
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_leave_from_anywhere_and_the_rest_keep_their_order() {
        let mut order = Order::new(2, 6);
        for unit in [3, 1, 4, 0] {
            order.push(unit, 0);
        }
        order.push(5, 1);
        let left = |order: &Order| order.oldest(0).collect::<Vec<_>>();
        order.remove(1, 0);
        assert_eq!(left(&order), [3, 4, 0]);
        order.remove(3, 0);
        order.remove(0, 0);
        order.push(2, 0);
        assert_eq!(left(&order), [4, 2]);
        assert_eq!((order.len(), order.oldest(1).next()), (3, Some(5)));
    }
}
