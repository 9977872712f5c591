//! Admits keys that were requested often enough recently.
//!
//! Requests that DRAM does not answer are counted in a count-min sketch of 4-bit counters, as in TinyLFU (Einziger,
//! Friedman, Manes: ACM ToS 2017). A key has four counters; only the lowest of them grow, and the lowest is the
//! count. Other keys may make a count too high, never too low, except for ageing: in every period, all counts are
//! halved.
//!
//! The four counters of a key lie in one cache line. Lines are halved one after the other, one line per fixed number
//! of requests, so that no call waits for the whole table.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::key::{KeyHash, mixed};
use crate::config::ASKS_MAX;
use crate::observe::stats::Counter;

const LINE_BYTES: u64 = 64;
/// Memory per item that flash can hold.
const BYTES_PER_ITEM: u64 = 4;
const LINES_MIN: u64 = 64;
/// Requests after which one line is halved: three per item that flash can hold make a period. With longer periods the
/// policy admits items that come back too late.
const ASKS_PER_LINE: u64 = 48;

/// 128 counters of 4 bits, in four rows of two words.
#[repr(align(64))]
#[derive(Debug, Default)]
struct Line([AtomicU64; 8]);

#[derive(Debug)]
pub(crate) struct Frequency {
    lines: Box<[Line]>,
    asks_min: u8,
    asks: Counter,
    /// Number of lines that were halved.
    halved: AtomicU64,
}

impl Frequency {
    pub(crate) fn new(asks_min: u8, expected_items: u64, memory_bytes: u64) -> Self {
        let bytes = expected_items.saturating_mul(BYTES_PER_ITEM).min(memory_bytes);
        let lines = (bytes / LINE_BYTES).max(LINES_MIN);
        Self {
            lines: (0..lines).map(|_| Line::default()).collect(),
            asks_min,
            asks: Counter::default(),
            halved: AtomicU64::new(0),
        }
    }

    /// Counts a request for the key that DRAM did not answer.
    pub(crate) fn asked(&self, hash: KeyHash) {
        let counters = self.counters(hash);
        let lowest = counters.iter().map(Nibble::get).min().unwrap_or(ASKS_MAX);
        if lowest < ASKS_MAX {
            counters.iter().for_each(|counter| counter.raise_from(lowest));
        }
        if self.asks.step() % ASKS_PER_LINE == ASKS_PER_LINE - 1 {
            let turn = self.halved.fetch_add(1, Ordering::Relaxed) % self.lines.len() as u64;
            self.lines[usize::try_from(turn).expect("below the number of lines")].halve();
        }
    }

    /// Whether the key was requested often enough.
    pub(crate) fn is_frequent(&self, hash: KeyHash) -> bool {
        self.counters(hash).iter().all(|counter| counter.get() >= self.asks_min)
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.lines.len() as u64 * LINE_BYTES
    }

    fn counters(&self, hash: KeyHash) -> [Nibble<'_>; 4] {
        let line = hash.spread_over(self.lines.len() as u64);
        let line = &self.lines[usize::try_from(line).expect("below the number of lines")];
        let spread = mixed(hash.0);
        std::array::from_fn(|row| {
            let column = spread >> (row * 5) & 31;
            let word = &line.0[row * 2 + usize::from(column >= 16)];
            Nibble { word, shift: column % 16 * 4 }
        })
    }
}

impl Line {
    fn halve(&self) {
        for word in &self.0 {
            let halve = |counters: u64| Some((counters >> 1) & 0x7777_7777_7777_7777);
            let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, halve);
        }
    }
}

/// One counter of 4 bits.
struct Nibble<'a> {
    word: &'a AtomicU64,
    shift: u64,
}

impl Nibble<'_> {
    fn get(&self) -> u8 {
        u8::try_from(self.word.load(Ordering::Relaxed) >> self.shift & 15).expect("4 bits")
    }

    /// Increments the counter if it is `count`. If another thread changes the word at this moment, the request is not
    /// counted.
    fn raise_from(&self, count: u8) {
        let word = self.word.load(Ordering::Relaxed);
        if word >> self.shift & 15 == u64::from(count) {
            let raised = word + (1 << self.shift);
            let _ = self.word.compare_exchange(word, raised, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(i: u64) -> KeyHash {
        KeyHash::of(&i.to_le_bytes())
    }

    #[test]
    fn a_key_is_frequent_once_it_was_asked_for_so_often() {
        for asks in [1, 2, 7, 15] {
            let sketch = Frequency::new(asks, 1 << 16, 1 << 20);
            for _ in 1..asks {
                sketch.asked(key(1));
                assert!(!sketch.is_frequent(key(1)));
            }
            sketch.asked(key(1));
            assert!(sketch.is_frequent(key(1)));
            (0..100).for_each(|_| sketch.asked(key(1)));
            assert!(sketch.is_frequent(key(1)), "counters stop at {ASKS_MAX}");
        }
    }

    #[test]
    fn keys_requested_once_rarely_pass() {
        let items = 10_000;
        let sketch = Frequency::new(2, items, u64::MAX);
        (0..items).for_each(|i| sketch.asked(key(i)));
        let passes = (0..items).filter(|&i| sketch.is_frequent(key(i))).count();
        assert!(passes < 300, "{passes} of {items} that were asked for once");
        let passes = (items..2 * items).filter(|&i| {
            (0..2).for_each(|_| sketch.asked(key(i)));
            sketch.is_frequent(key(i))
        });
        // Except for those whose line was halved at this very moment.
        assert!(passes.count() as u64 > items - 10);
    }

    #[test]
    fn what_was_asked_for_long_ago_is_forgotten() {
        let sketch = Frequency::new(2, 1 << 10, u64::MAX);
        for _ in 0..5 {
            (0..100).for_each(|i| sketch.asked(key(i)));
        }
        assert!((0..100).all(|i| sketch.is_frequent(key(i))));
        // Two periods of requests for one other key: every line was halved twice.
        let period = sketch.lines.len() as u64 * ASKS_PER_LINE;
        (0..2 * period).for_each(|_| sketch.asked(key(1_000_000)));
        let left = (0..100).filter(|&i| sketch.is_frequent(key(i))).count();
        assert!(left < 5, "{left}");
    }

    #[test]
    fn memory_is_bounded() {
        let memory = |items, most| Frequency::new(2, items, most).memory_bytes();
        assert_eq!(memory(1 << 20, u64::MAX), 4 << 20);
        assert_eq!(memory(1 << 40, 1 << 20), 1 << 20);
        assert_eq!(memory(0, 4096), 4096);
    }
}
