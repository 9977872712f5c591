//! Which key comes next: a model of popularity with recency, one-hit keys and drift.

use crate::hash::{mix, seed_of};

use super::convert::{spread, to_u64, unit};
use super::zipf::ZipfMandelbrot;

/// How many requests back a re-request may reach.
const RECENT: usize = 64;

/// Constants of the model, fitted to a public trace of `requests` requests.
///
/// A request re-requests, with probability `repeat`, a key drawn uniformly from the last 64
/// requests. Otherwise it is a base request, numbered `b`: with probability `once` for a key that
/// never comes back, else for the key of a rank `r` from 1 to `ranks`, drawn with weight
/// `(r + shift)^-exponent`. The key of a rank changes every `life` base requests, each rank at its
/// own phase, which is how popularity drifts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Popularity {
    pub requests: f64,
    pub exponent: f64,
    pub ranks: f64,
    pub shift: f64,
    pub once: f64,
    pub life: f64,
    pub repeat: f64,
}

impl Popularity {
    /// The same popularity over `times` as many keys.
    pub(super) const fn over(self, times: f64) -> Self {
        Self {
            ranks: self.ranks * times,
            shift: self.shift * times,
            life: self.life * times,
            ..self
        }
    }

    /// The model for another number of requests: ranks, shift and life grow in proportion to it.
    pub(super) fn scaled(self, requests: u64) -> Self {
        let factor = requests as f64 / self.requests;
        Self {
            requests: requests as f64,
            ranks: self.ranks * factor,
            shift: self.shift * factor,
            life: self.life * factor,
            ..self
        }
    }
}

/// The keys of a workload, one request after the other. Endless.
///
/// The key of a base request is a function of its number and the seed. The stream computes it only when the caller asks
/// for it, so a caller that skips requests does not pay for their keys.
#[derive(Clone, Debug)]
pub(super) struct KeyStream {
    zipf: ZipfMandelbrot,
    once: f64,
    repeat: f64,
    life: u64,
    /// Makes the keys of one seed differ from those of another.
    salt: u64,
    /// The next base request.
    next: Base,
    /// The last [`RECENT`] requests, in a ring, and the number of requests that were put there.
    recent: [Recent; RECENT],
    total: u64,
}

/// The number of a base request, and its place in the life of a key: `lives * life + age = number`.
#[derive(Clone, Copy, Default, Debug)]
struct Base {
    number: u64,
    lives: u64,
    age: u64,
}

/// A recent request: the base request whose key it has, and the key once it is known.
#[derive(Clone, Copy, Default, Debug)]
struct Recent {
    base: Base,
    key: Option<u64>,
}

impl KeyStream {
    pub(super) fn new(model: &Popularity, seed: u64) -> Self {
        let ranks = to_u64(model.ranks.round()).max(1);
        Self {
            zipf: ZipfMandelbrot::new(ranks, model.shift, model.exponent),
            once: model.once,
            repeat: model.repeat,
            life: to_u64(model.life.round()).max(1),
            salt: mix(seed, 0x006b_6579),
            next: Base::default(),
            recent: [Recent::default(); RECENT],
            total: 0,
        }
    }

    /// Goes on to the next request. All random numbers except those that make up the [`key`](Self::key) come from
    /// `rng`.
    #[inline]
    pub(super) fn advance(&mut self, rng: &mut fastrand::Rng) {
        let known = self.total.min(RECENT as u64);
        let request = if rng.f64() < self.repeat && known > 0 {
            self.recent[slot(spread(rng.u64(..), known))]
        } else {
            Recent { base: self.take_base(), key: None }
        };
        self.recent[slot(self.total)] = request;
        self.total += 1;
    }

    /// The key of the request that [`advance`](Self::advance) went to.
    #[inline]
    pub(super) fn key(&mut self) -> u64 {
        let slot = slot(self.total.wrapping_sub(1));
        let Recent { base, key } = self.recent[slot];
        if let Some(key) = key {
            return key;
        }
        let key = self.base_key(base);
        self.recent[slot].key = Some(key);
        key
    }

    #[inline]
    fn take_base(&mut self) -> Base {
        let base = self.next;
        self.next.number += 1;
        self.next.age += 1;
        if self.next.age == self.life {
            self.next.age = 0;
            self.next.lives += 1;
        }
        base
    }

    #[inline]
    fn base_key(&self, base: Base) -> u64 {
        let mut rng = fastrand::Rng::with_seed(seed_of(self.salt, base.number));
        if rng.f64() < self.once {
            return mix(self.salt ^ 1, base.number);
        }
        let rank = self.zipf.draw(&mut rng);
        let rank_hash = mix(self.salt, rank);
        let phase = spread(rank_hash, self.life);
        // The same as (number + phase) / life, without a division for each request.
        let epoch = base.lives + u64::from(base.age + phase >= self.life);
        mix(rank_hash, epoch)
    }
}

#[inline]
fn slot(number: u64) -> usize {
    usize::try_from(number % RECENT as u64).unwrap_or(0)
}

/// Whether an event of probability `p` happens.
#[inline]
pub(super) fn happens(rng: &mut fastrand::Rng, p: f64) -> bool {
    unit(rng.u64(..)) < p
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn model() -> Popularity {
        Popularity {
            requests: 1e6,
            exponent: 1.2,
            ranks: 1000.0,
            shift: 2.0,
            once: 0.0,
            life: 1e15,
            repeat: 0.0,
        }
    }

    fn distinct(model: &Popularity, requests: u64) -> usize {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut keys = KeyStream::new(model, 5);
        let mut next = || {
            keys.advance(&mut rng);
            keys.key()
        };
        (0..requests).map(|_| next()).collect::<HashSet<_>>().len()
    }

    #[test]
    fn parts_of_the_model_do_what_they_say() {
        assert_eq!(distinct(&model(), 100_000), 1000, "ranks, no drift");
        let once = Popularity { once: 0.5, ..model() };
        assert!(distinct(&once, 100_000).abs_diff(51_000) < 1000, "half of them once");
        let drift = Popularity { life: 10_000.0, ..model() };
        let keys = distinct(&drift, 100_000);
        assert!((7000..11_001).contains(&keys), "each rank has 11 keys in turn: {keys}");
        let repeat = Popularity { once: 1.0, repeat: 0.9, ..model() };
        assert!(distinct(&repeat, 100_000).abs_diff(10_000) < 500, "one in ten is new");
    }

    #[test]
    fn scaling_keeps_probabilities() {
        let half = model().scaled(500_000);
        assert_eq!((half.ranks, half.shift, half.life), (500.0, 1.0, 5e14));
        assert_eq!((half.exponent, half.once, half.repeat), (1.2, 0.0, 0.0));
    }
}
