//! Requests by the distributions that CacheLib publishes for its benchmark (`pop.json`, `sizes.json`): GETs alone.
//!
//! The files have hundreds of millions of requests over many millions of keys. The keys of each class of popularity are
//! thinned to as many as a quarter of the requests, so that a small run sees the same shares.

use std::path::Path;

use larder_workload::{Op, Request, RequestSource, trace};
use serde::Deserialize;

use crate::Error;

/// Bytes of a file at most.
const FILE_BYTES_MAX: usize = 64 << 20;
/// Requests for each key.
const REQUESTS_PER_KEY: f64 = 4.0;
/// Bytes of a key: the files do not say it.
const KEY_BYTES: u32 = 20;
/// Keys that are asked for once are numbered from here on.
const ONCE: u64 = 1 << 40;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Popularity {
    /// Share of requests for keys that never come again.
    #[serde(default)]
    one_hits: f64,
    popularity_buckets: Vec<f64>,
    popularity_weights: Vec<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sizes {
    val_size_range: Vec<f64>,
    val_size_range_probability: Vec<f64>,
}

/// Keys that are asked for as often as each other.
struct Class {
    first: u64,
    keys: u64,
}

/// The generator.
pub(super) struct CacheLib {
    classes: Vec<Class>,
    /// Sums of the weights of the classes.
    popularity: Vec<f64>,
    once: f64,
    /// Bytes of values, and the sums of their weights.
    sizes: Vec<u32>,
    size_weights: Vec<f64>,
    rng: fastrand::Rng,
    requests: u64,
    left: u64,
}

impl CacheLib {
    /// Reads the two files in `folder`.
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
    pub(super) fn new(folder: &Path, requests: u64, seed: u64) -> Result<Self, Error> {
        let popularity: Popularity = read(&folder.join("pop.json"))?;
        let sizes: Sizes = read(&folder.join("sizes.json"))?;
        let mut rng = fastrand::Rng::with_seed(seed);
        let keys: f64 = popularity.popularity_buckets.iter().sum();
        let thin = (keys * REQUESTS_PER_KEY / requests as f64).max(1.0);
        let (mut classes, mut sums, mut first, mut sum) = (Vec::new(), Vec::new(), 0, 0.0);
        let weighted = popularity.popularity_buckets.iter().zip(&popularity.popularity_weights);
        for (keys, weight) in weighted.filter(|(keys, weight)| **keys >= 1.0 && **weight > 0.0) {
            // A part of a key is a key with that chance.
            let kept = (keys / thin + rng.f64()) as u64;
            if kept > 0 {
                sum += weight / keys * kept as f64;
                sums.push(sum);
                classes.push(Class { first, keys: kept });
                first += kept;
            }
        }
        let size_weights = sizes.val_size_range_probability.iter().scan(0.0, |sum, weight| {
            *sum += weight.max(0.0);
            Some(*sum)
        });
        let size_weights: Vec<f64> = size_weights.collect();
        let bytes: Vec<u32> = sizes.val_size_range.iter().map(|size| *size as u32).collect();
        if classes.is_empty() || bytes.is_empty() || bytes.len() != size_weights.len() {
            let message = format!("{}: no distributions in pop.json, sizes.json", folder.display());
            return Err(Error::run(message));
        }
        let once = popularity.one_hits.clamp(0.0, 1.0);
        let sizes = bytes;
        Ok(Self {
            classes,
            popularity: sums,
            once,
            sizes,
            size_weights,
            rng,
            requests,
            left: requests,
        })
    }

    /// The size of a key's value.
    fn value_bytes(&self, key: u64) -> u32 {
        let mut of_key = fastrand::Rng::with_seed(key.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        self.sizes[drawn(&self.size_weights, of_key.f64())].max(1)
    }
}

/// The index that a number from 0 to 1 draws from the sums of weights.
fn drawn(sums: &[f64], unit: f64) -> usize {
    let of = unit * sums.last().copied().unwrap_or(0.0);
    sums.partition_point(|sum| *sum <= of).min(sums.len() - 1)
}

fn read<T: for<'a> Deserialize<'a>>(file: &Path) -> Result<T, Error> {
    let text = trace::read_text(file, FILE_BYTES_MAX)?;
    serde_json::from_str(&text).map_err(|error| Error::run(format!("{}: {error}", file.display())))
}

impl RequestSource for CacheLib {
    fn next_request(&mut self) -> Result<Option<Request>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let key = if self.rng.f64() < self.once {
            ONCE + self.left
        } else {
            let class = &self.classes[drawn(&self.popularity, self.rng.f64())];
            class.first + self.rng.u64(..class.keys)
        };
        let value_bytes = self.value_bytes(key);
        let op = Op::Get;
        Ok(Some(Request { time_s: 0, key, key_bytes: KEY_BYTES, value_bytes, op, ttl_s: 0 }))
    }

    #[allow(clippy::cast_precision_loss)]
    fn progress(&self) -> Option<f64> {
        Some(1.0 - self.left as f64 / self.requests.max(1) as f64)
    }
}
