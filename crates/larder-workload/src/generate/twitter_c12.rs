//! The generator `twitter-c12`: a write-heavy cache whose objects live five minutes.
//!
//! Popularity plays no role here: nearly all SETs make new keys, and few of these keys are ever read, soon after the
//! SET. So the model is a queue of events. SETs come at a fixed rate; for each SET the model decides at once how often
//! its key will be read and when. The constants are fitted to cluster 12 of Twitter's public cache traces (OSDI'20).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::hash::mix;
use crate::{Error, Op, Request, RequestSource};

use super::convert::{spread, to_u64};
use super::object_law::ObjectLaw;
use super::popularity::happens;
use super::size_law::Lognormal;

/// SETs per second.
const SETS_PER_S: u64 = 3505;
/// Probability that a SET overwrites a key that was set a moment ago.
const OVERWRITE: f64 = 0.0142;
/// Probability that a SET is followed by any reads: its mean, and how it depends on the size of the value.
const READ: f64 = 0.1795;
const READ_SIZE_EXPONENT: f64 = 0.345;
/// Probability of a second read after the first, and of each further one after the second.
const SECOND_READ: f64 = 0.249;
const FURTHER_READ: f64 = 0.394;
/// Mean delay of a read after the SET, in seconds. Assumed to be exponential.
const READ_DELAY_S: f64 = 60.0;
/// Share of the GETs that ask for keys that were never set.
const ABSENT: f64 = 0.0018;
/// How many SETs back "a moment ago" reaches. Assumed: about a quarter of a second.
const RECENT: usize = 1024;

const MICROS_PER_S: u64 = 1_000_000;

/// Law of the value sizes.
pub(super) fn value_law() -> Lognormal {
    Lognormal::new(6.39, 1.046).capped(316_612)
}

/// The generator. It holds the future reads: those of one TTL, about 60,000.
pub(super) struct TwitterC12 {
    objects: ObjectLaw,
    rng: fastrand::Rng,
    salt: u64,
    requests: u64,
    done: u64,
    sets: u64,
    absent: u64,
    /// Future reads: time in microseconds, and key.
    reads: BinaryHeap<Reverse<(u64, u64)>>,
    /// The keys of the last [`RECENT`] SETs, in a ring.
    recent: Vec<u64>,
    /// Makes the mean over all sizes of `READ * (size^exponent * scale)` equal to [`READ`].
    scale: f64,
}

impl TwitterC12 {
    pub(super) fn new(objects: ObjectLaw, requests: u64, seed: u64) -> Self {
        Self {
            objects,
            rng: fastrand::Rng::with_seed(seed),
            salt: mix(seed, 12),
            requests,
            done: 0,
            sets: 0,
            absent: 0,
            reads: BinaryHeap::new(),
            recent: vec![0; RECENT],
            scale: 1.0 / value_law().moment(READ_SIZE_EXPONENT),
        }
    }

    /// Stores a new key or, rarely, a recent one, and plans its reads.
    fn set(&mut self, now_us: u64) -> Request {
        let known = self.sets.min(RECENT as u64);
        let key = if known > 0 && happens(&mut self.rng, OVERWRITE) {
            self.recent[slot(spread(self.rng.u64(..), known))]
        } else {
            mix(self.salt, self.sets)
        };
        self.recent[slot(self.sets)] = key;
        self.sets += 1;
        let request = self.objects.request(key, Op::Set, time_s(now_us));
        let size = f64::from(request.value_bytes);
        if happens(&mut self.rng, READ * size.powf(READ_SIZE_EXPONENT) * self.scale) {
            self.plan_reads(&request, now_us);
        }
        request
    }

    fn plan_reads(&mut self, set: &Request, now_us: u64) {
        // The exponential law is truncated at the TTL: this is the part of it that lies before the TTL.
        let before_expiry = 1.0 - (-f64::from(set.ttl_s) / READ_DELAY_S).exp();
        let mut more = SECOND_READ;
        loop {
            let delay_s = -READ_DELAY_S * (1.0 - self.rng.f64() * before_expiry).ln();
            let at_us = now_us + to_u64(delay_s * MICROS_PER_S as f64);
            self.reads.push(Reverse((at_us, set.key)));
            if !happens(&mut self.rng, more) {
                return;
            }
            more = FURTHER_READ;
        }
    }

    fn get(&mut self, now_us: u64) -> Option<Request> {
        // A GET of an absent key does not take a read from the queue.
        let key = if happens(&mut self.rng, ABSENT) {
            self.absent += 1;
            mix(self.salt ^ 1, self.absent)
        } else {
            self.reads.pop()?.0.1
        };
        Some(self.objects.request(key, Op::Get, time_s(now_us)))
    }
}

impl RequestSource for TwitterC12 {
    fn next_request(&mut self) -> Result<Option<Request>, Error> {
        if self.done == self.requests {
            return Ok(None);
        }
        self.done += 1;
        let set_us = self.sets * MICROS_PER_S / SETS_PER_S;
        if let Some(&Reverse((read_us, _))) = self.reads.peek()
            && read_us < set_us
            && let Some(request) = self.get(read_us)
        {
            return Ok(Some(request));
        }
        Ok(Some(self.set(set_us)))
    }

    fn progress(&self) -> Option<f64> {
        Some(self.done as f64 / self.requests.max(1) as f64)
    }
}

fn time_s(now_us: u64) -> u32 {
    u32::try_from(now_us / MICROS_PER_S).unwrap_or(u32::MAX)
}

fn slot(number: u64) -> usize {
    usize::try_from(number % RECENT as u64).unwrap_or(0)
}
