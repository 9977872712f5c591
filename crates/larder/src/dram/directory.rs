//! The shards of the index. Their number grows with the budget, one at a time, so that each stays small. The next
//! shard in order is divided into two (linear hashing: Litwin: "Linear hashing: a new tool for file and table
//! addressing", VLDB'80). Shards do not move in memory, and their number never decreases: a nearly empty shard takes
//! little memory.
//!
//! ```text
//!   first = 4 shards, by the 2 upper bits of a hash     00   01   10   11
//!   a fifth divides the first by the bit after those    000  01   10   11   001
//! ```

use std::sync::OnceLock;

use crate::base::key::KeyHash;
use crate::base::sync::atomic::{AtomicUsize, Ordering};

/// The number of shards doubles at most this number of times.
const DOUBLINGS_MAX: usize = 20;

/// A list that doubles without moving its elements.
#[derive(Debug)]
pub(super) struct Directory<S> {
    first: Box<[S]>,
    first_bits: u32,
    /// Each has as many shards as all before it together.
    doublings: [OnceLock<Box<[S]>>; DOUBLINGS_MAX],
    count: AtomicUsize,
}

impl<S> Directory<S> {
    pub(super) fn new(first: Box<[S]>) -> Self {
        assert!(first.len().is_power_of_two(), "hashes are divided by their bits");
        let first_bits = first.len().trailing_zeros();
        let count = AtomicUsize::new(first.len());
        let doublings = std::array::from_fn(|_| OnceLock::new());
        Self { first, first_bits, doublings, count }
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Maximum number of shards.
    pub(super) fn count_max(&self) -> usize {
        self.first.len() << DOUBLINGS_MAX
    }

    /// The current shard number of a hash.
    #[inline]
    pub(super) fn number_of(&self, hash: KeyHash) -> usize {
        let number = hash.spread_over(self.first.len() as u64);
        let number = usize::try_from(number).expect("below the number of shards");
        let count = self.count();
        let number =
            if count == self.first.len() { number } else { self.number_among(count, number, hash) };
        debug_assert!(number < count, "a hash is in a shard that there is");
        number
    }

    /// The shard number among `count` shards.
    #[cold]
    fn number_among(&self, count: usize, number: usize, hash: KeyHash) -> usize {
        let further = hash.0.unbounded_shl(self.first_bits).reverse_bits();
        let whole = 1 << (count.ilog2() - self.first_bits); // the size in multiples of `first`
        let bits = usize::try_from(further & (2 * whole - 1)).expect("a few bits");
        let number = number + self.first.len() * bits;
        let whole = self.first.len() << (count.ilog2() - self.first_bits);
        if number < count { number } else { number - whole }
    }

    /// Whether a hash will be in the next shard when that is added.
    pub(super) fn goes_to_next(&self, hash: KeyHash) -> bool {
        let count = self.count();
        let number = hash.spread_over(self.first.len() as u64);
        let number = usize::try_from(number).expect("below the number of shards");
        self.number_among(count + 1, number, hash) == count
    }

    /// The shard that is divided next.
    pub(super) fn next_divided(&self) -> usize {
        let count = self.count();
        let next = count - (1 << count.ilog2());
        debug_assert!(next < count && count < self.count_max(), "there is a shard to divide");
        next
    }

    #[inline]
    pub(super) fn at(&self, number: usize) -> &S {
        match self.first.get(number) {
            Some(shard) => shard,
            None => self.further(number).expect("there is a shard of this number"),
        }
    }

    #[cold]
    fn further(&self, number: usize) -> Option<&S> {
        let doubling = number.ilog2() - self.first_bits;
        let before = self.first.len() << doubling;
        self.doublings.get(doubling as usize)?.get()?.get(number - before)
    }

    /// Prepares the next shard. Returns it and the number of shards created for it.
    pub(super) fn prepare_next(&self, make: impl Fn() -> S) -> (&S, usize) {
        let count = self.count();
        let doubling = count.ilog2() - self.first_bits;
        let many = self.first.len() << doubling;
        let mut made = 0;
        let all = self.doublings[doubling as usize].get_or_init(|| {
            made = many;
            (0..many).map(|_| make()).collect()
        });
        (&all[count - many], made)
    }

    /// Makes the prepared shard visible.
    pub(super) fn add_next(&self) {
        assert!(self.further(self.count()).is_some(), "a shard is prepared before it is found");
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// All shards whose hashes are in one of `parts` equal parts of the hash space, by their upper bits. `parts` is a
    /// power of two, at least the initial number of shards and at most the current one.
    pub(super) fn of_part(&self, part: usize, parts: usize) -> impl Iterator<Item = &S> {
        assert!(parts.is_power_of_two() && part < parts, "a part is named by upper bits of hashes");
        assert!((self.first.len()..=self.count()).contains(&parts), "a shard is in one part");
        let further_bits = parts.trailing_zeros() - self.first_bits;
        let (first, further) = (part >> further_bits, part & ((1 << further_bits) - 1));
        let reversed = (further as u64).reverse_bits().unbounded_shr(64 - further_bits);
        let reversed = usize::try_from(reversed).expect("a few bits");
        let start = first + self.first.len() * reversed;
        (start..self.count()).step_by(parts).map(|number| self.at(number))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &S> {
        (0..self.count()).map(|number| self.at(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_stays_but_for_the_one_that_is_divided() {
        for first in [1, 4] {
            let directory = Directory::new((0..first).collect());
            let hashes: Vec<_> = (0..4000_u64).map(|key| KeyHash::of(&key.to_le_bytes())).collect();
            for count in first..first * 9 {
                let before: Vec<_> = hashes.iter().map(|&at| directory.number_of(at)).collect();
                let goes: Vec<_> = hashes.iter().map(|&at| directory.goes_to_next(at)).collect();
                let divided = directory.next_divided();
                directory.prepare_next(|| count);
                directory.add_next();
                for ((&hash, before), goes) in hashes.iter().zip(before).zip(goes) {
                    let now = directory.number_of(hash);
                    assert!(now == before || (before, now) == (divided, count));
                    assert_eq!(goes, now == count);
                    assert!(now < directory.count());
                }
                let mut of = vec![0_usize; count + 1];
                hashes.iter().for_each(|&hash| of[directory.number_of(hash)] += 1);
                let even = 4000 / (count + 1);
                assert!(of.iter().all(|&here| here > even / 3 && here < even * 3), "{of:?}");
            }
        }
    }

    #[test]
    fn parts_are_by_upper_bits() {
        let directory = Directory::new(Box::from([0, 1]));
        for number in 2..11 {
            directory.prepare_next(|| 0);
            directory.add_next();
            assert_eq!(directory.count(), number + 1);
        }
        for parts in [2, 4, 8] {
            for key in 0..1000_u64 {
                let hash = KeyHash::of(&key.to_le_bytes());
                let part = usize::try_from(hash.spread_over(parts as u64)).unwrap();
                let here = directory.at(directory.number_of(hash));
                assert!(directory.of_part(part, parts).any(|shard| std::ptr::eq(shard, here)));
            }
        }
    }
}
