//! Draws the next operation with its length and key: a function of seed, round and thread.

use super::journal::Verb;
use super::options::Options;
use super::value::PIECE_BYTES_MIN;

/// Larger objects go to the large-object engine.
const SMALL_BYTES_MAX: usize = 600;
/// Large objects exceed small ones by up to this many bytes.
const LARGE_BYTES_SPAN: f64 = 63_000.0;
/// Half of a thread's operations use the first twentieth of its keys.
const HOT_KEYS: u32 = 20;
/// Time to live in seconds, for values that have one.
const TTL_S: std::ops::RangeInclusive<u32> = 1..=4;
/// Bytes of an appended piece.
const APPENDED_BYTES: usize = 120;

/// Shares of the operations, in percent.
const VERBS: [(Verb, u32); 7] = [
    (Verb::Get, 30),
    (Verb::Set, 38),
    (Verb::Delete, 8),
    (Verb::Add, 6),
    (Verb::Cas, 6),
    (Verb::Touch, 5),
    (Verb::Append, 7),
];

/// The next operation of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) verb: Verb,
    pub(super) key: u32,
    /// Length of the piece that it stores.
    pub(super) bytes: usize,
    /// Time to live in seconds; 0 means forever.
    pub(super) ttl_s: u32,
}

/// Draws the operations of one thread in one round.
pub(super) struct Chooser {
    rng: fastrand::Rng,
    thread: u32,
    threads: u32,
    /// Number of keys of this thread.
    owned: u32,
}

impl Chooser {
    pub(super) fn new(options: &Options, round: u32, thread: u32) -> Self {
        let threads = options.threads;
        // A thread has the keys whose number modulo `threads` is the thread's number.
        let owned = (options.keys() - thread).div_ceil(threads);
        Self { rng: seeded(options.seed, round, thread), thread, threads, owned }
    }

    pub(super) fn next(&mut self) -> Request {
        let key = self.key();
        let mut draw = self.rng.u32(0..100);
        let drawn = VERBS.iter().find(|(_, share)| {
            let hit = draw < *share;
            draw = draw.saturating_sub(*share);
            hit
        });
        let verb = drawn.map_or(Verb::Get, |(verb, _)| *verb);
        let bytes = if verb == Verb::Append { APPENDED_BYTES } else { self.bytes(key) };
        let bounded = matches!(verb, Verb::Set | Verb::Add | Verb::Cas | Verb::Touch)
            && self.rng.u32(0..100) < 15;
        let ttl_s = if bounded { self.rng.u32(TTL_S) } else { 0 };
        Request { verb, key, bytes, ttl_s }
    }

    fn key(&mut self) -> u32 {
        let hot = self.owned.div_ceil(HOT_KEYS);
        let range = if self.rng.bool() { hot } else { self.owned };
        self.rng.u32(0..range) * self.threads + self.thread
    }

    /// Seven of ten keys are small, two are large, and one changes, so that its versions are in both engines.
    fn bytes(&mut self, key: u32) -> usize {
        // Without the thread's part of the number, so that each thread has keys of all classes.
        let small = match key / self.threads % 10 {
            0..=6 => true,
            7 | 8 => false,
            _ => self.rng.bool(),
        };
        if small { self.rng.usize(PIECE_BYTES_MIN..=SMALL_BYTES_MAX) } else { self.large_bytes() }
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 63000")]
    fn large_bytes(&mut self) -> usize {
        let share = self.rng.f64();
        SMALL_BYTES_MAX + 100 + (share * share * LARGE_BYTES_SPAN) as usize
    }
}

/// Random numbers for one purpose of one round.
pub(super) fn seeded(seed: u64, round: u32, purpose: u32) -> fastrand::Rng {
    let words = [seed.to_le_bytes(), (u64::from(round) << 32 | u64::from(purpose)).to_le_bytes()];
    fastrand::Rng::with_seed(xxhash_rust::xxh3::xxh3_64(words.as_flattened()))
}
