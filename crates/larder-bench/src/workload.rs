//! The requests.

use std::path::PathBuf;
use std::time::Duration;

use larder_workload::generate::{self, GeneratorOptions, ZipfMandelbrot};
use larder_workload::trace::{self, TraceOptions};
use larder_workload::{Op, RequestSource};

use crate::Error;

/// Default number of requests that a built-in workload spreads its keys over.
const PRESET_SPAN: u64 = 10_000_000;

/// The distribution of keys.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Popularity {
    /// All keys are equally likely.
    Uniform,
    /// Zipf's law with this exponent, above 0 and not 1.
    Zipf(f64),
}

/// Where requests come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Stream {
    /// Keys of one size with values of one size.
    Drawn(Popularity),
    /// One of larder-workload's generators, by name, with its sizes, sets and lifetimes.
    Preset(String),
    /// A recorded trace, over and over.
    Trace(PathBuf, TraceOptions),
}

/// The requests to a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Where requests come from.
    pub stream: Stream,
    /// Number of keys to draw from; for a preset, the number of requests that it spreads its keys over.
    pub keys: Option<u64>,
    /// Length of drawn keys, at most 250.
    pub key_bytes: u32,
    /// Length of drawn values.
    pub value_bytes: u32,
    /// Share of sets among drawn requests, 0 to 100 percent.
    pub sets_percent: f64,
    /// Keys in one request.
    pub multiget: u32,
    /// Whether keys that are not found are set, as a look-aside client does.
    pub look_aside: bool,
    /// The time that a backend takes to answer a miss, before the key is set; only with `look_aside`. The latency of
    /// the request includes it.
    pub backend: Duration,
    /// Seed of everything that is drawn.
    pub seed: u64,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            stream: Stream::Drawn(Popularity::Uniform),
            keys: None,
            key_bytes: 32,
            value_bytes: 100,
            sets_percent: 0.0,
            multiget: 1,
            look_aside: false,
            backend: Duration::ZERO,
            seed: 1,
        }
    }
}

impl Workload {
    /// Number of keys of a drawn workload.
    pub fn drawn_keys(&self) -> Option<u64> {
        matches!(self.stream, Stream::Drawn(_)).then(|| self.keys.unwrap_or(100_000))
    }

    /// The endless requests of one of `threads` threads. Each thread has its own keys.
    pub(crate) fn asks(&self, thread: u64, threads: u64) -> Result<Asks, Error> {
        let seed = self.seed.wrapping_add(thread.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let source = match &self.stream {
            Stream::Drawn(popularity) => {
                let keys = (self.drawn_keys().unwrap_or(1) / threads).max(1);
                let law = match *popularity {
                    Popularity::Uniform => None,
                    Popularity::Zipf(exponent) => Some(ZipfMandelbrot::new(keys, 0.0, exponent)),
                };
                Source::Drawn { rng: fastrand::Rng::with_seed(seed), law, keys }
            }
            Stream::Preset(_) | Stream::Trace(..) => {
                Source::Stream { stream: self.open()?, waiting: None }
            }
        };
        Ok(Asks { workload: self.clone(), source, thread, threads })
    }

    fn open(&self) -> Result<Box<dyn RequestSource>, Error> {
        match &self.stream {
            Stream::Trace(path, options) => trace::open(path, options),
            Stream::Preset(name) => {
                let span = self.keys.unwrap_or(PRESET_SPAN);
                let options = GeneratorOptions {
                    requests: 1 << 40,
                    span_requests: Some(span),
                    seed: self.seed,
                };
                generate::preset(name, options)
            }
            Stream::Drawn(_) => Err(Error::usage("keys that are drawn are no stream")),
        }
    }
}

/// One key of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyRequest {
    pub(crate) op: Op,
    pub(crate) key: u64,
    pub(crate) key_bytes: u32,
    /// Length of the value for a set; for a get, of the value that a look-aside client would set.
    pub(crate) value_bytes: u32,
    /// In seconds; 0 is for ever.
    pub(crate) ttl_s: u32,
}

/// The requests of one thread.
pub(crate) struct Asks {
    workload: Workload,
    source: Source,
    thread: u64,
    threads: u64,
}

enum Source {
    Drawn {
        rng: fastrand::Rng,
        law: Option<ZipfMandelbrot>,
        /// Keys of this thread.
        keys: u64,
    },
    Stream {
        stream: Box<dyn RequestSource>,
        /// A request that was read, and ended a request of several keys; it is sent next.
        waiting: Option<KeyRequest>,
    },
    /// Each key of the thread once, to be set.
    Each { next: u64, keys: u64 },
}

impl Asks {
    /// Sets each of a thread's keys once.
    pub(crate) fn each(workload: &Workload, thread: u64, threads: u64) -> Self {
        let keys = (workload.drawn_keys().unwrap_or(0) / threads).max(1);
        Self { workload: workload.clone(), source: Source::Each { next: 0, keys }, thread, threads }
    }

    /// The next request: up to `multiget` gets, or one set or delete. `false` if there are no more.
    pub(crate) fn next(&mut self, into: &mut Vec<KeyRequest>) -> Result<bool, Error> {
        into.clear();
        while into.len() < self.workload.multiget as usize {
            let Some(ask) = self.next_key()? else { break };
            let is_get = ask.op == Op::Get;
            if !is_get && !into.is_empty() {
                if let Source::Stream { waiting, .. } = &mut self.source {
                    *waiting = Some(ask);
                }
                break;
            }
            into.push(ask);
            if !is_get {
                break;
            }
        }
        Ok(!into.is_empty())
    }

    fn next_key(&mut self) -> Result<Option<KeyRequest>, Error> {
        let Workload { key_bytes, value_bytes, sets_percent, .. } = self.workload;
        let drawn = |op, number: u64| {
            let key = number * self.threads + self.thread;
            KeyRequest { op, key, key_bytes, value_bytes, ttl_s: 0 }
        };
        match &mut self.source {
            Source::Drawn { rng, law, keys } => {
                let number = match law {
                    None => rng.u64(0..*keys),
                    Some(law) => law.draw(rng) - 1,
                };
                let is_set = sets_percent > 0.0 && rng.f64() * 100.0 < sets_percent;
                Ok(Some(drawn(if is_set { Op::Set } else { Op::Get }, number)))
            }
            Source::Each { next, keys } => {
                if next == keys {
                    return Ok(None);
                }
                *next += 1;
                Ok(Some(drawn(Op::Set, *next - 1)))
            }
            Source::Stream { waiting, .. } if waiting.is_some() => Ok(waiting.take()),
            Source::Stream { .. } => self.next_of_stream().map(Some),
        }
    }

    /// The next request of the stream whose key belongs to this thread. At its end the stream begins again.
    fn next_of_stream(&mut self) -> Result<KeyRequest, Error> {
        let mut begun_again = false;
        loop {
            let Source::Stream { stream, .. } = &mut self.source else {
                return Err(Error::run("keys that are drawn are no stream"));
            };
            let Some(request) = stream.next_request()? else {
                if begun_again {
                    return Err(Error::run(
                        "the workload has no request whose key is this thread's",
                    ));
                }
                begun_again = true;
                let again = self.workload.open()?;
                self.source = Source::Stream { stream: again, waiting: None };
                continue;
            };
            let mixed = request.key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
            if mixed % self.threads == self.thread {
                return Ok(KeyRequest {
                    op: request.op,
                    key: request.key,
                    key_bytes: request.key_bytes.min(250),
                    value_bytes: request.value_bytes,
                    ttl_s: request.ttl_s,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(asks: &mut Asks, requests: usize) -> Vec<Vec<KeyRequest>> {
        let mut into = Vec::new();
        (0..requests)
            .map(|_| {
                assert!(asks.next(&mut into).unwrap());
                into.clone()
            })
            .collect()
    }

    #[test]
    fn threads_share_no_key() {
        let workload = Workload { keys: Some(100), ..Workload::default() };
        for (thread, asks) in [(0, workload.asks(0, 2)), (1, workload.asks(1, 2))] {
            let asked = all(&mut asks.unwrap(), 500);
            assert!(asked.iter().flatten().all(|ask| ask.key % 2 == thread && ask.key < 100));
        }
        let mut each = Asks::each(&workload, 1, 2);
        let asked: Vec<u64> = all(&mut each, 50).iter().flatten().map(|ask| ask.key).collect();
        assert_eq!(asked, (0..50).map(|n| 2 * n + 1).collect::<Vec<_>>());
        assert!(!each.next(&mut Vec::new()).unwrap(), "each once");
    }

    #[test]
    fn several_keys_end_where_a_set_comes() {
        let workload =
            Workload { multiget: 8, sets_percent: 20.0, keys: Some(50), ..Workload::default() };
        let preset = Workload { stream: Stream::Preset("meta-kv".into()), ..workload.clone() };
        for workload in [workload, preset] {
            let asked = all(&mut workload.asks(0, 1).unwrap(), 2000);
            let is_get = |ask: &KeyRequest| ask.op == Op::Get;
            assert!(asked.iter().all(|keys| keys.len() == 1 || keys.iter().all(is_get)));
            assert!(asked.iter().any(|keys| keys.len() == 8));
            assert!(asked.iter().any(|keys| !is_get(&keys[0])));
        }
    }
}
