//! Generators over a number of records: YCSB's workloads, and the laws that measure indexes.

use crate::hash::mix;
use crate::{Error, Op, Request, RequestSource};

use super::convert::{spread, to_u64, unit};
use super::object_law::ObjectLaw;
use super::parameters::time_s;
use super::zipf::ZipfMandelbrot;

/// YCSB's exponent (`ZipfianGenerator.ZIPFIAN_CONSTANT`).
pub(super) const ZIPF: f64 = 0.99;
/// Ranks that YCSB draws from before it scatters them over the records (`ScrambledZipfianGenerator.ITEM_COUNT`). More
/// than a third of the requests are for ranks beyond a million, so a million records are requested more evenly than
/// under Zipf's law over the records.
const SCATTERED_RANKS: u64 = 10_000_000_000;

/// Which record comes next.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum RecordLaw {
    /// All records are equally likely.
    Uniform,
    /// Zipf's law over the records.
    Zipf(f64),
    /// Zipf's law over far more ranks than there are records; the ranks are scattered over the records, as in YCSB.
    ScatteredZipf,
    /// The share `requests` of the requests is for the share `set` of the records, the other requests are for the other
    /// records; within each part all records are equally likely.
    Hotspot { set: f64, requests: f64 },
    /// Zipf's law from the newest record backwards.
    Latest,
}

/// Shares of the requests that write; the others are GETs.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Writes {
    /// SETs of existing records.
    pub sets: f64,
    /// SETs of new records.
    pub inserts: f64,
    /// GETs, each followed by a SET of the same record.
    pub read_modify_writes: f64,
}

impl Writes {
    /// SETs of existing records only.
    pub(super) fn sets(share: f64) -> Self {
        Self { sets: share, ..Self::default() }
    }
}

/// The laws of a generator over records.
#[derive(Clone, Debug)]
pub(super) struct Laws {
    pub objects: ObjectLaw,
    pub law: RecordLaw,
    pub writes: Writes,
    /// Records at the start.
    pub records: u64,
    /// Requests a second.
    pub rate: u64,
}

/// The key of a record in a generator over records that has this seed, for a caller that loads all records beforehand.
///
/// ```
/// use larder_workload::generate::{GeneratorOptions, preset, record_key};
///
/// let options = GeneratorOptions { requests: 9, span_requests: None, seed: 7 };
/// let mut one = preset("uniform:records=1", options)?;
/// assert_eq!(one.next_request()?.unwrap().key, record_key(7, 0));
/// # Ok::<(), larder_workload::Error>(())
/// ```
pub fn record_key(seed: u64, record: u64) -> u64 {
    mix(salt(seed), record)
}

fn salt(seed: u64) -> u64 {
    mix(seed, 1)
}

/// See the module.
pub(super) struct Records {
    laws: Laws,
    popular: Option<ZipfMandelbrot>,
    salt: u64,
    rng: fastrand::Rng,
    requests: u64,
    done: u64,
    records: u64,
    /// The record of the SET that follows the last GET.
    write_back: Option<u64>,
}

impl Records {
    pub(super) fn new(laws: Laws, requests: u64, seed: u64) -> Self {
        let popular = match laws.law {
            RecordLaw::Uniform | RecordLaw::Hotspot { .. } => None,
            RecordLaw::Zipf(exponent) => Some(ZipfMandelbrot::new(laws.records, 0.0, exponent)),
            RecordLaw::ScatteredZipf => Some(ZipfMandelbrot::new(SCATTERED_RANKS, 0.0, ZIPF)),
            RecordLaw::Latest => Some(ZipfMandelbrot::new(laws.records, 0.0, ZIPF)),
        };
        Self {
            popular,
            salt: salt(seed),
            rng: fastrand::Rng::with_seed(seed),
            requests,
            done: 0,
            records: laws.records,
            write_back: None,
            laws,
        }
    }

    fn draw(&mut self) -> u64 {
        let rank = self.popular.as_ref().map_or(0, |law| law.draw(&mut self.rng) - 1);
        match self.laws.law {
            RecordLaw::Uniform => spread(self.rng.u64(..), self.records),
            RecordLaw::Zipf(_) => rank,
            RecordLaw::ScatteredZipf => spread(mix(rank, 2), self.records),
            RecordLaw::Latest => self.records - 1 - rank,
            RecordLaw::Hotspot { set, requests } => {
                let hot = to_u64(self.records as f64 * set).clamp(1, self.records);
                match self.rng.f64() < requests || hot == self.records {
                    true => spread(self.rng.u64(..), hot),
                    false => hot + spread(self.rng.u64(..), self.records - hot),
                }
            }
        }
    }

    fn insert(&mut self) -> u64 {
        self.records += 1;
        if self.laws.law == RecordLaw::Latest {
            self.popular = Some(ZipfMandelbrot::new(self.records, 0.0, ZIPF));
        }
        self.records - 1
    }

    fn operation(&mut self) -> (Op, u64) {
        if let Some(record) = self.write_back.take() {
            return (Op::Set, record);
        }
        let Writes { sets, inserts, read_modify_writes } = self.laws.writes;
        // A workload that only reads draws no number for this.
        let drawn = match sets + inserts + read_modify_writes > 0.0 {
            true => unit(self.rng.u64(..)),
            false => 1.0,
        };
        if drawn < inserts {
            return (Op::Set, self.insert());
        }
        let record = self.draw();
        if drawn < inserts + sets {
            return (Op::Set, record);
        }
        if drawn < inserts + sets + read_modify_writes {
            self.write_back = Some(record);
        }
        (Op::Get, record)
    }
}

impl RequestSource for Records {
    fn next_request(&mut self) -> Result<Option<Request>, Error> {
        if self.done == self.requests {
            return Ok(None);
        }
        let time_s = time_s(self.done, self.laws.rate as f64);
        self.done += 1;
        let (op, record) = self.operation();
        Ok(Some(self.laws.objects.request(mix(self.salt, record), op, time_s)))
    }

    fn progress(&self) -> Option<f64> {
        Some(self.done as f64 / self.requests.max(1) as f64)
    }
}
