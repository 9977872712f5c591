//! The two page maps and the live bits: 4 bytes per logical page, 4 bytes and 1 bit per physical
//! page.
//!
//! Invariants: `physical(lpn) == Some(ppn)` exactly when the live bit of `ppn` is set and `logical(ppn) == lpn`. The
//! reverse entry of a dead page keeps its last logical page until its unit is written again.

use super::geometry::Geometry;

/// Entries are stored with all bits inverted. So 0 is "none", zeroed memory from the system needs no initialisation,
/// and entries that are never written take no physical memory.
const NONE: u32 = 0;

/// Pages per call of [`PageMap::touch`]: enough to keep a core's outstanding misses busy, few enough to stay in its L1
/// cache until they are used.
pub(crate) const TOUCHED_MAX: usize = 64;

/// Forward map (logical to physical), reverse map, and which physical pages are live.
#[derive(Debug)]
pub(crate) struct PageMap {
    forward: Vec<u32>,
    reverse: Vec<u32>,
    /// One bit per page; each unit starts at a new word.
    live: Vec<u64>,
    words_per_unit: usize,
    pages_per_unit: u32,
    division: Division,
}

impl PageMap {
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let size = |pages: u64| usize::try_from(pages).expect("page counts fit 32 bits");
        let words_per_unit = geometry.pages_per_unit.div_ceil(64) as usize;
        Self {
            forward: vec![NONE; size(geometry.logical_pages)],
            reverse: vec![NONE; size(geometry.physical_pages())],
            live: vec![0; words_per_unit * geometry.units as usize],
            words_per_unit,
            pages_per_unit: geometry.pages_per_unit,
            division: Division::by(geometry.pages_per_unit),
        }
    }

    /// The physical page of `lpn`.
    pub(crate) fn physical(&self, lpn: u32) -> Option<u32> {
        decode(self.forward[lpn as usize])
    }

    /// The logical page that `ppn` holds or held last.
    pub(crate) fn logical(&self, ppn: u32) -> Option<u32> {
        decode(self.reverse[ppn as usize])
    }

    /// Maps `lpn` to `ppn`, which must be erased. The caller has marked the old place dead, or is moving from it.
    #[inline]
    pub(crate) fn place(&mut self, lpn: u32, ppn: u32) {
        self.forward[lpn as usize] = !ppn;
        self.reverse[ppn as usize] = !lpn;
    }

    /// Maps `lpn` to `ppn` like [`Self::place`], and returns the previous place.
    #[inline]
    pub(crate) fn replace(&mut self, lpn: u32, ppn: u32) -> Option<u32> {
        let old = std::mem::replace(&mut self.forward[lpn as usize], !ppn);
        self.reverse[ppn as usize] = !lpn;
        decode(old)
    }

    /// Maps the `count` logical pages at the places from `source` on, all live, to the places from `to` on, which must
    /// be erased and belong to another unit.
    #[inline]
    pub(crate) fn relocate(&mut self, source: u32, to: u32, count: u32) {
        for (source, to) in (source as usize..).zip(to..).take(count as usize) {
            let entry = self.reverse[source];
            self.reverse[to as usize] = entry;
            self.forward[!entry as usize] = !to;
        }
    }

    /// Prefetches what an overwrite of each of `lpns` (at most [`TOUCHED_MAX`]) needs: first all forward entries, then
    /// all live bits. Each load depends only on the entry of its own page, so the cache misses overlap.
    #[inline]
    pub(crate) fn touch(&self, lpns: &[u32]) {
        let mut entries = [NONE; TOUCHED_MAX];
        for (entry, &lpn) in entries.iter_mut().zip(lpns) {
            *entry = self.forward[lpn as usize];
        }
        let mut words = 0;
        for &entry in &entries[..lpns.len()] {
            // The bits of an unmapped page would be past the end.
            let (_, word, _) = self.bit_of(!entry);
            words ^= self.live.get(word).copied().unwrap_or(0);
        }
        // Nothing else uses the loads; without this the compiler would remove them.
        std::hint::black_box(words);
    }

    /// Maps `count` pages from `lpn` on to the places from `ppn` on.
    #[inline]
    pub(crate) fn place_run(&mut self, lpn: u32, ppn: u32, count: u32) {
        let forward = &mut self.forward[lpn as usize..][..count as usize];
        forward.iter_mut().zip(ppn..).for_each(|(entry, ppn)| *entry = !ppn);
        let reverse = &mut self.reverse[ppn as usize..][..count as usize];
        reverse.iter_mut().zip(lpn..).for_each(|(entry, lpn)| *entry = !lpn);
    }

    /// Number of pages from `lpn` on, before `end`, that are contiguous in the unit of `ppn`, where the first of them
    /// is.
    #[inline]
    pub(crate) fn run_length(&self, lpn: u32, end: u32, ppn: u32) -> u32 {
        let unit_end = (self.division.quotient(ppn) + 1) * self.pages_per_unit;
        let longest = (end - lpn).min(unit_end - ppn);
        let entries = &self.forward[lpn as usize..][..longest as usize];
        let differs = entries.iter().zip(ppn..).position(|(&entry, ppn)| entry != !ppn);
        differs.and_then(|n| u32::try_from(n).ok()).unwrap_or(longest)
    }

    /// Unmaps `count` pages from `lpn` on.
    pub(crate) fn unmap(&mut self, lpn: u32, count: u32) {
        self.forward[lpn as usize..][..count as usize].fill(NONE);
    }

    /// Unmaps everything. The reverse map is kept.
    pub(crate) fn forget_forward(&mut self) {
        self.forward.fill(NONE);
    }

    /// Marks `ppn` dead and returns its unit.
    #[inline]
    pub(crate) fn kill_one(&mut self, ppn: u32) -> u32 {
        let (unit, word, bit) = self.bit_of(ppn);
        debug_assert!(self.live[word] >> bit & 1 == 1, "page {ppn} dies once");
        self.live[word] &= !(1 << bit);
        unit
    }

    /// Marks `ppn` live and returns its unit.
    #[inline]
    pub(crate) fn revive_one(&mut self, ppn: u32) -> u32 {
        let (unit, word, bit) = self.bit_of(ppn);
        self.live[word] |= 1 << bit;
        unit
    }

    #[inline]
    fn bit_of(&self, ppn: u32) -> (u32, usize, u32) {
        let unit = self.division.quotient(ppn);
        let page = ppn - unit * self.pages_per_unit;
        (unit, unit as usize * self.words_per_unit + (page / 64) as usize, page % 64)
    }

    /// Marks `count` pages from `first` on dead, all in one unit, and returns the unit.
    pub(crate) fn kill(&mut self, first: u32, count: u32) -> u32 {
        self.change_bits(first, count, |word, mask| {
            debug_assert_eq!(*word & mask, mask, "a page dies once");
            *word &= !mask;
        })
    }

    /// Marks `count` pages from `first` on live, all in one unit, and returns the unit.
    pub(crate) fn revive(&mut self, first: u32, count: u32) -> u32 {
        self.change_bits(first, count, |word, mask| *word |= mask)
    }

    /// Applies `change` to each word that holds live bits of the `count` pages, with a mask of those bits.
    #[inline]
    fn change_bits(&mut self, first: u32, count: u32, change: impl Fn(&mut u64, u64)) -> u32 {
        let unit = self.division.quotient(first);
        let base = unit as usize * self.words_per_unit;
        let mut page = first - unit * self.pages_per_unit;
        let end = page + count;
        debug_assert!(end <= self.pages_per_unit);
        while page < end {
            let bits = (64 - page % 64).min(end - page);
            let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
            change(&mut self.live[base + (page / 64) as usize], mask << (page % 64));
            page += bits;
        }
        unit
    }

    /// One word of a unit's live bits; bit `i` of word `w` is page `64 w + i`.
    #[inline]
    pub(crate) fn live_word(&self, unit: u32, word: usize) -> u64 {
        self.live[unit as usize * self.words_per_unit + word]
    }

    /// Marks all pages of a unit dead.
    pub(crate) fn clear_unit(&mut self, unit: u32) {
        let base = unit as usize * self.words_per_unit;
        self.live[base..base + self.words_per_unit].fill(0);
    }

    pub(crate) fn is_live(&self, ppn: u32) -> bool {
        let (_, word, bit) = self.bit_of(ppn);
        self.live[word] >> bit & 1 == 1
    }

    pub(crate) fn unit_of(&self, ppn: u32) -> u32 {
        self.division.quotient(ppn)
    }

    /// The logical pages that are live in `unit`, in the order of their places.
    pub(crate) fn live_pages(&self, unit: u32) -> impl Iterator<Item = u64> {
        let first = unit * self.pages_per_unit;
        (first..first + self.pages_per_unit)
            .filter(|&ppn| self.is_live(ppn))
            .filter_map(|ppn| self.logical(ppn).map(u64::from))
    }

    pub(crate) fn words_per_unit(&self) -> usize {
        self.words_per_unit
    }

    pub(crate) fn logical_pages(&self) -> usize {
        self.forward.len()
    }

    /// Bytes of the maps.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.forward.len() * 4 + self.reverse.len() * 4 + self.live.len() * 8) as u64
    }
}

/// The page that an entry names.
#[inline]
fn decode(entry: u32) -> Option<u32> {
    (entry != NONE).then_some(!entry)
}

/// Division of 32-bit numbers by a constant, as one multiplication (Lemire, Kaser, Kurz: "Faster remainder by direct
/// computation", 2019): exact for every divisor of at least 2. It runs once for every page that dies.
#[derive(Debug, Clone, Copy)]
struct Division {
    reciprocal: u64,
}

impl Division {
    fn by(divisor: u32) -> Self {
        assert!(divisor >= 2, "checked with the configuration");
        Self { reciprocal: u64::MAX / u64::from(divisor) + 1 }
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)]
    fn quotient(self, dividend: u32) -> u32 {
        // The product of a 64-bit and a 32-bit number, shifted by 64, has at most 32 bits.
        ((u128::from(self.reciprocal) * u128::from(dividend)) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_is_exact_at_the_edges() {
        for divisor in [2, 3, 7, 64, 100, 1_572_864, u32::MAX] {
            let division = Division::by(divisor);
            for dividend in
                [0, 1, divisor - 1, divisor, divisor.wrapping_add(1), u32::MAX - 1, u32::MAX]
            {
                assert_eq!(
                    division.quotient(dividend),
                    dividend / divisor,
                    "{dividend} / {divisor}"
                );
            }
        }
    }

    #[test]
    fn live_bits_cross_words() {
        let geometry = Geometry { logical_pages: 300, pages_per_unit: 150, units: 3 };
        let mut map = PageMap::new(&geometry);
        map.revive(150 + 10, 130);
        let live: Vec<u32> = (0..450).filter(|&ppn| map.is_live(ppn)).collect();
        assert_eq!(live, (160..290).collect::<Vec<_>>());
        map.kill_one(200);
        assert!(!map.is_live(200) && map.is_live(201));
        map.clear_unit(1);
        assert!((0..450).all(|ppn| !map.is_live(ppn)));
    }
}
