//! The generator `uniform`: every key as likely as any other.

use crate::hash::mix;
use crate::{Error, Op, Request, RequestSource};

use super::convert::spread;
use super::object_law::ObjectLaw;
use super::skewed::REQUESTS_PER_S;

/// Requests per key, on average.
const REQUESTS_PER_KEY: u64 = 10;

/// Keys at least, however few requests.
const KEYS_MIN: u64 = 1000;

/// GETs of keys drawn uniformly.
pub(super) struct Uniform {
    keys: u64,
    salt: u64,
    objects: ObjectLaw,
    rng: fastrand::Rng,
    requests: u64,
    done: u64,
}

impl Uniform {
    /// `requests` requests, the first of `span`.
    pub(super) fn new(objects: ObjectLaw, span: u64, requests: u64, seed: u64) -> Self {
        Self {
            keys: (span / REQUESTS_PER_KEY).max(KEYS_MIN),
            salt: mix(seed, 1),
            objects,
            rng: fastrand::Rng::with_seed(seed),
            requests,
            done: 0,
        }
    }
}

impl RequestSource for Uniform {
    fn next_request(&mut self) -> Result<Option<Request>, Error> {
        if self.done == self.requests {
            return Ok(None);
        }
        let time_s = u32::try_from(self.done / REQUESTS_PER_S).unwrap_or(u32::MAX);
        self.done += 1;
        let number = spread(self.rng.u64(..), self.keys);
        Ok(Some(self.objects.request(mix(self.salt, number), Op::Get, time_s)))
    }

    fn progress(&self) -> Option<f64> {
        Some(self.done as f64 / self.requests.max(1) as f64)
    }
}
