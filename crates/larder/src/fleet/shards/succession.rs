//! A sequence of values; the latest is read without a lock, and all stay in place.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The n-th block has room for 2^n values.
const BLOCKS: usize = 32;

/// References to values remain valid while this lives.
pub(super) struct Succession<T> {
    latest: AtomicUsize,
    blocks: [OnceLock<Box<[OnceLock<T>]>>; BLOCKS],
}

impl<T> Succession<T> {
    pub(super) fn new(first: T) -> Self {
        let all = Self { latest: AtomicUsize::new(0), blocks: [const { OnceLock::new() }; BLOCKS] };
        all.put(0, first);
        all
    }

    pub(super) fn latest(&self) -> &T {
        let (block, at) = place(self.latest.load(Ordering::Acquire));
        let there = self.blocks[block].get().and_then(|block| block[at].get());
        there.expect("it was put there before it was the latest")
    }

    /// Appends the next value. The caller makes sure that there is no concurrent call.
    pub(super) fn follow(&self, next: T) {
        let number = self.latest.load(Ordering::Acquire) + 1;
        self.put(number, next);
        let before = self.latest.swap(number, Ordering::AcqRel);
        assert_eq!(before + 1, number, "one follows another");
    }

    fn put(&self, number: usize, value: T) {
        let (block, at) = place(number);
        let new = || (0..1_usize << block).map(|_| OnceLock::new()).collect();
        let is_free = self.blocks[block].get_or_init(new)[at].set(value).is_ok();
        assert!(is_free, "each has a place of its own");
    }
}

fn place(number: usize) -> (usize, usize) {
    let block = (number + 1).ilog2();
    (block as usize, number + 1 - (1 << block))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_the_latest_stays_where_it_is() {
        let all = Succession::new(0);
        let mut seen = vec![all.latest()];
        for next in 1..100 {
            all.follow(next);
            seen.push(all.latest());
        }
        assert!(seen.iter().map(|it| **it).eq(0..100));
    }
}
