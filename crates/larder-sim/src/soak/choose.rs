//! Draws the next request: a mix in which calls on one key overlap, but few enough that the history of a key can be
//! judged.

use std::time::Duration;

use fastrand::Rng;

use super::plan::Plan;
use super::request::{Request, Verb, Write};
use super::value::{Content, first_number};

/// Maximum concurrent calls on one key. The number of orders to try grows with its factorial.
const OPEN_MAX: usize = 5;
/// One key in this number is a counter.
const COUNTED_ONE_IN: u32 = 6;

/// The source of requests.
///
/// Invariant: a key has at most [`OPEN_MAX`] calls, and at most one of them has not begun.
pub(super) struct RequestSource {
    /// Calls chosen but not begun, by key.
    planned: Vec<usize>,
    /// Version and content of each key as last read.
    tokens: Vec<Option<(u64, Content)>>,
    /// Number of pieces drawn so far: each has a number of its own.
    pieces: u32,
}

/// What a request is drawn from.
struct Drawing<'a> {
    source: &'a mut RequestSource,
    rng: &'a mut Rng,
    plan: &'a Plan,
    /// Calls on a key that have begun.
    open: &'a dyn Fn(u32) -> usize,
}

impl RequestSource {
    pub(super) fn new(keys: usize) -> Self {
        Self { planned: vec![0; keys], tokens: vec![None; keys], pieces: 0 }
    }

    /// The next request, or `None` if every drawn key is busy. `open` says how many calls on a key have begun.
    pub(super) fn choose(
        &mut self,
        rng: &mut Rng,
        plan: &Plan,
        open: &dyn Fn(u32) -> usize,
    ) -> Option<Request> {
        let request = Drawing { source: self, rng, plan, open }.choose()?;
        request.keys().iter().for_each(|key| self.planned[*key as usize] += 1);
        Some(request)
    }

    /// Records that the call on `key` has begun, or was given up before.
    pub(super) fn begun(&mut self, key: u32) {
        self.planned[key as usize] -= 1;
    }

    /// Records the version and content of `key` as read.
    pub(super) fn was_read(&mut self, key: u32, version: u64, content: Content) {
        self.tokens[key as usize] = Some((version, content));
    }
}

impl Drawing<'_> {
    fn choose(&mut self) -> Option<Request> {
        let key = self.free_key()?;
        if self.rng.u32(..24) == 0 {
            let mut keys: Vec<u32> = (0..4).filter_map(|_| self.free_key()).collect();
            keys.sort_unstable();
            keys.dedup();
            return Some(Request::GetMany(keys));
        }
        if self.rng.u32(..100) < self.plan.leaning.deletes_percent {
            return Some(Request::Delete(key));
        }
        if self.plan.leaning.flush_percent > 0
            && self.rng.u32(..100) < self.plan.leaning.flush_percent
        {
            return Some(Request::Flush);
        }
        match self.rng.u32(..400) {
            0 if !self.plan.leaning.never_flushes => return Some(Request::Flush),
            1 | 2 => {
                let mut keys: Vec<u32> = (0..6).filter_map(|_| self.free_key()).collect();
                keys.sort_unstable();
                keys.dedup();
                return Some(Request::Scan(keys));
            }
            _ => {}
        }
        Some(match self.rng.u32(..40) {
            0..12 => Request::Get(key),
            12..20 => self.store(key, Verb::Set),
            20 | 21 => self.store(key, Verb::Add),
            22 => self.store(key, Verb::Replace),
            23 | 24 => match self.source.tokens[key as usize].clone() {
                Some((version, seen)) => self.store(key, Verb::Cas(version, seen)),
                None => Request::Get(key),
            },
            25 => self.store(key, Verb::Swap),
            26..29 => Request::Delete(key),
            29 => Request::Contains(key),
            30 => Request::Touch(key, self.ttl()),
            31..35 if is_counted(key) => Request::Count(key, self.rng.u64(1..5)),
            31..35 => Request::Append(key, self.new_piece()),
            _ => {
                let write = self.write(key);
                let fails = self.rng.u32(..8) == 0;
                Request::GetOrFetch(key, write, fails)
            }
        })
    }

    /// A key with few calls in flight; some keys are drawn more often than others.
    fn free_key(&mut self) -> Option<u32> {
        let keys = self.plan.keys;
        (0..8).find_map(|_| {
            let below = match self.plan.leaning.hot_keys {
                0 => self.rng.u32(1..=keys),
                hot if self.rng.u32(..8) > 0 => hot,
                _ => keys,
            };
            let key = self.rng.u32(..below);
            ((self.open)(key) < OPEN_MAX && self.source.planned[key as usize] == 0).then_some(key)
        })
    }

    fn store(&mut self, key: u32, verb: Verb) -> Request {
        Request::Store(key, verb, self.write(key))
    }

    fn write(&mut self, key: u32) -> Write {
        let piece = self.new_piece();
        let content = if is_counted(key) {
            Content::Number(first_number(key, piece))
        } else {
            Content::Pieces(vec![piece])
        };
        // Small and large objects, and sometimes one that barely fits, or does not.
        let kind = if self.plan.leaning.small { 0 } else { self.rng.u32(..60) };
        let bytes = match kind {
            0..30 => self.rng.usize(16..600),
            30..45 => self.rng.usize(600..4_000),
            45..57 if self.plan.leaning.long => self.rng.usize(60_000..260_000),
            45..57 => self.rng.usize(4_000..30_000),
            57 | 58 => self.rng.usize(30_000..70_000),
            _ => self.rng.usize(70_000..300_000),
        };
        Write { content, piece, bytes, ttl: self.ttl() }
    }

    fn ttl(&mut self) -> Option<Duration> {
        if let Some(ttl_max) = self.plan.leaning.ttl_max
            && self.rng.u32(..4) > 0
        {
            return Some(ttl_max.mul_f64(self.rng.f64()));
        }
        (self.rng.u32(..4) == 0).then(|| Duration::from_millis(self.rng.u64(1..20_000)))
    }

    fn new_piece(&mut self) -> u32 {
        self.source.pieces += 1;
        self.source.pieces
    }
}

fn is_counted(key: u32) -> bool {
    key.is_multiple_of(COUNTED_ONE_IN)
}
