//! FairyWREN's nest packing: sets lie in erase units, as in a log. The unit with the fewest live sets is cleaned.

/// Bits of DRAM for the place of a set.
const PLACE_BITS: f64 = 5.0 * 8.0;
/// Units that stay free.
const FREE_MIN: usize = 2;
const NOTHING: u32 = u32::MAX;

/// Where each set lies.
pub(super) struct Units {
    unit_pages: u32,
    /// The set in each page.
    owner: Vec<u32>,
    /// The page of each set.
    page_of: Vec<u32>,
    /// Live pages of each unit.
    live: Vec<u32>,
    /// When each unit was closed; 0 if it is free or open.
    closed: Vec<u64>,
    closings: u64,
    free: Vec<u32>,
    open: u32,
    /// Pages of the open unit that are written.
    filled: u32,
}

impl Units {
    /// Units of `unit_pages` each. Of all pages the share `spare` stays free, and three units at least.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(super) fn new(pages: u32, unit_pages: u32, spare: f64) -> Self {
        let unit_pages = unit_pages.min(pages / 8).max(1);
        let units = (pages / unit_pages).max(5);
        let sets = (f64::from(units * unit_pages) * (1.0 - spare)) as u32;
        let sets = sets.min((units - 3) * unit_pages);
        Self {
            unit_pages,
            owner: vec![NOTHING; (units * unit_pages) as usize],
            page_of: vec![NOTHING; sets as usize],
            live: vec![0; units as usize],
            closed: vec![0; units as usize],
            closings: 0,
            free: (1..units).rev().collect(),
            open: 0,
            filled: 0,
        }
    }

    #[allow(clippy::cast_possible_truncation)] // made from a `u32`
    pub(super) fn sets(&self) -> u32 {
        self.page_of.len() as u32
    }

    #[allow(clippy::cast_precision_loss)]
    pub(super) fn dram_bits(&self) -> f64 {
        self.page_of.len() as f64 * PLACE_BITS
    }

    /// Writes a set at the head.
    pub(super) fn place(&mut self, set: u32) {
        let was = std::mem::replace(&mut self.page_of[set as usize], NOTHING);
        if was != NOTHING {
            self.owner[was as usize] = NOTHING;
            self.live[(was / self.unit_pages) as usize] -= 1;
        }
        if self.filled == self.unit_pages {
            self.closings += 1;
            self.closed[self.open as usize] = self.closings;
            self.open = self.free.pop().expect("cleaning keeps units free");
            self.filled = 0;
        }
        let page = self.open * self.unit_pages + self.filled;
        self.filled += 1;
        self.owner[page as usize] = set;
        self.page_of[set as usize] = page;
        self.live[self.open as usize] += 1;
    }

    /// The live sets of the unit that is cleaned next, if too few are free. The unit is free afterwards: the caller
    /// writes these sets at the head at once.
    pub(super) fn clean(&mut self) -> Option<Vec<u32>> {
        if self.free.len() >= FREE_MIN {
            return None;
        }
        let closed = (0_u32..).zip(&self.closed).filter(|(_, at)| **at != 0);
        let victim = closed.min_by_key(|(unit, at)| (self.live[*unit as usize], **at));
        let unit = victim.map(|(unit, _)| unit).expect("some unit is closed");
        let (from, mut sets) = (unit * self.unit_pages, Vec::new());
        for page in from..from + self.unit_pages {
            let set = std::mem::replace(&mut self.owner[page as usize], NOTHING);
            if set != NOTHING {
                self.page_of[set as usize] = NOTHING;
                sets.push(set);
            }
        }
        self.live[unit as usize] = 0;
        self.closed[unit as usize] = 0;
        // The sets are held in memory while their unit is erased.
        self.free.insert(0, unit);
        Some(sets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_with_the_fewest_live_sets_is_cleaned_and_no_set_is_lost() {
        let mut units = Units::new(160, 8, 0.1);
        let mut rng = fastrand::Rng::with_seed(1);
        let mut cleaned = 0_usize;
        let count = units.sets();
        for set in (0..count).chain((0..5000).map(|_| rng.u32(..count))) {
            units.place(set);
            while let Some(sets) = units.clean() {
                cleaned += sets.len();
                sets.into_iter().for_each(|set| units.place(set));
            }
        }
        let placed = units.page_of.iter().filter(|page| **page != NOTHING).count();
        assert_eq!(placed, units.sets() as usize);
        assert_eq!(units.live.iter().sum::<u32>(), units.sets());
        assert!((5000..30_000).contains(&cleaned), "{cleaned} sets were moved for 5000 writes");
    }
}
