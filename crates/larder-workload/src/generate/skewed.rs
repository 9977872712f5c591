//! Generators whose keys follow [`Popularity`]: those fitted to traces, except `twitter-c12`.

use crate::{Error, Op, Request, RequestSource};

use super::object_law::ObjectLaw;
use super::popularity::{KeyStream, Popularity, happens};

/// Requests per second of the generators whose source gives no rate.
pub(super) const REQUESTS_PER_S: u64 = 10_000;

/// The operations of the requests.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Mix {
    /// GETs only: a look-aside client stores the objects that it misses.
    Gets,
    /// SETs with this probability, GETs otherwise, independent of the key.
    Sets(f64),
    /// As `Sets`, but the generator returns only the SETs.
    SetsOnly(f64),
}

impl Mix {
    /// How many requests of the model it takes to return this number of requests.
    pub(super) fn drawn(self, requests: u64) -> u64 {
        match self {
            Self::SetsOnly(p) => super::convert::to_u64(requests as f64 / p),
            Self::Gets | Self::Sets(_) => requests,
        }
    }
}

/// Requests with keys by a popularity model, and objects by their laws.
pub(super) struct Skewed {
    keys: KeyStream,
    objects: ObjectLaw,
    mix: Mix,
    rng: fastrand::Rng,
    requests: u64,
    done: u64,
    /// Requests of the model, including those that are not returned: the clock.
    ticks: u64,
}

impl Skewed {
    /// A generator of `requests` requests. The caller has already scaled the model to all requests that are drawn,
    /// including those that are not returned.
    pub(super) fn new(
        model: Popularity,
        objects: ObjectLaw,
        mix: Mix,
        requests: u64,
        seed: u64,
    ) -> Self {
        Self {
            keys: KeyStream::new(&model, seed),
            objects,
            mix,
            rng: fastrand::Rng::with_seed(seed),
            requests,
            done: 0,
            ticks: 0,
        }
    }
}

impl RequestSource for Skewed {
    fn next_request(&mut self) -> Result<Option<Request>, Error> {
        if self.done == self.requests {
            return Ok(None);
        }
        self.done += 1;
        loop {
            let time_s = u32::try_from(self.ticks / REQUESTS_PER_S).unwrap_or(u32::MAX);
            self.ticks += 1;
            self.keys.advance(&mut self.rng);
            let op = match self.mix {
                Mix::Gets => Op::Get,
                Mix::Sets(p) if happens(&mut self.rng, p) => Op::Set,
                Mix::Sets(_) => Op::Get,
                Mix::SetsOnly(p) if happens(&mut self.rng, p) => Op::Set,
                Mix::SetsOnly(_) => continue,
            };
            return Ok(Some(self.objects.request(self.keys.key(), op, time_s)));
        }
    }

    fn progress(&self) -> Option<f64> {
        Some(self.done as f64 / self.requests.max(1) as f64)
    }
}
