//! Statistics of a workload: sizes, repeats, lifetimes, and the miss ratios of an LRU cache.

mod display;
mod keys;
mod lru;
mod percentiles;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{Error, Op, Request, RequestSource};
use keys::Keys;
use lru::Lru;

pub use lru::LruStats;
pub use percentiles::Percentiles;

/// Requests between two calls of the progress function.
const REQUESTS_PER_PROGRESS: u64 = 1 << 16;

/// The statistics of a workload.
///
/// The size of an object is the last known one: a request without a size does not change it. The p-th percentile is the
/// smallest value that at least p of a hundred objects do not exceed.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Stats {
    /// Requests.
    pub requests: u64,
    /// GETs among them.
    pub gets: u64,
    /// SETs among them.
    pub sets: u64,
    /// DELETEs among them.
    pub deletes: u64,
    /// Distinct keys.
    pub unique_keys: u64,
    /// `requests / unique_keys`; 0 without requests.
    pub requests_per_key: f64,
    /// Share of the keys that are requested only once.
    pub one_hit_ratio: f64,
    /// Sum of the object sizes (key and value) of all distinct keys, in bytes.
    pub footprint_bytes: u64,
    /// Sum of the object sizes of all requests, in bytes; an unknown size counts as the last known
    /// one.
    pub requested_bytes: u64,
    /// GETs whose value size the workload does not give (misses, in Meta's traces).
    pub gets_of_unknown_size: u64,
    /// Seconds from the first request to the last.
    pub span_s: u32,
    /// Key and value, in bytes, over distinct keys.
    pub object_bytes: Percentiles,
    /// Keys, in bytes, over distinct keys.
    pub key_bytes: Percentiles,
    /// Values, in bytes, over distinct keys.
    pub value_bytes: Percentiles,
    /// TTLs in seconds, over SETs; 0 means never. Above 65,535 s only the upper 16 bits count.
    pub ttl_s: Percentiles,
    /// The LRU caches, one for each requested capacity.
    pub lru: Vec<LruStats>,
}

impl Stats {
    /// Reads a workload to its end. `lru_capacities` are in bytes. Calls `on_progress` from time to time with the
    /// number of requests so far and the share of the workload that they are, if it is known.
    ///
    /// Memory: about 30 bytes for each distinct key, and 12 more for each capacity.
    ///
    /// # Errors
    /// The errors of the source; [`Error::Run`] if there are more than four billion keys.
    pub fn collect(
        source: &mut dyn RequestSource,
        lru_capacities: &[u64],
        mut on_progress: impl FnMut(u64, Option<f64>),
    ) -> Result<Self, Error> {
        let mut counts = Counts::default();
        let mut keys = Keys::default();
        let mut caches: Vec<Lru> = lru_capacities.iter().map(|&bytes| Lru::new(bytes)).collect();
        while let Some(request) = source.next_request()? {
            let id = keys.note(&request)?;
            let object_bytes = keys.object_bytes(id);
            counts.note(&request, object_bytes);
            for cache in &mut caches {
                cache.request(id, object_bytes, request.op);
            }
            if counts.requests.is_multiple_of(REQUESTS_PER_PROGRESS) {
                on_progress(counts.requests, source.progress());
            }
        }
        on_progress(counts.requests, source.progress());
        Ok(counts.finish(&keys, caches))
    }
}

/// The counts that each request adds to.
#[derive(Debug, Default)]
struct Counts {
    requests: u64,
    gets: u64,
    sets: u64,
    deletes: u64,
    gets_of_unknown_size: u64,
    requested_bytes: u64,
    span_s: u32,
    /// SETs by TTL. The coarse TTLs bound its size, even for a hostile trace.
    ttl_s: BTreeMap<u32, u64>,
}

impl Counts {
    #[inline]
    fn note(&mut self, request: &Request, object_bytes: u64) {
        self.requests += 1;
        match request.op {
            Op::Get => self.gets += 1,
            Op::Set => {
                self.sets += 1;
                *self.ttl_s.entry(coarse(request.ttl_s)).or_default() += 1;
            }
            Op::Delete => self.deletes += 1,
        }
        if request.op == Op::Get && request.value_bytes == 0 {
            self.gets_of_unknown_size += 1;
        }
        self.requested_bytes = self.requested_bytes.saturating_add(object_bytes);
        self.span_s = self.span_s.max(request.time_s);
    }

    fn finish(self, keys: &Keys, caches: Vec<Lru>) -> Stats {
        let unique_keys = keys.len() as u64;
        Stats {
            requests: self.requests,
            gets: self.gets,
            sets: self.sets,
            deletes: self.deletes,
            unique_keys,
            requests_per_key: ratio(self.requests, unique_keys),
            one_hit_ratio: ratio(keys.requested_once(), unique_keys),
            footprint_bytes: keys.footprint_bytes(),
            requested_bytes: self.requested_bytes,
            gets_of_unknown_size: self.gets_of_unknown_size,
            span_s: self.span_s,
            object_bytes: Percentiles::of(keys.sizes(|key, value| key.saturating_add(value))),
            key_bytes: Percentiles::of(keys.sizes(|key, _| key)),
            value_bytes: Percentiles::of(keys.sizes(|_, value| value)),
            ttl_s: Percentiles::of_counts(&self.ttl_s),
            lru: caches.into_iter().map(Lru::finish).collect(),
        }
    }
}

/// A TTL by its upper 16 significant bits: exact up to 65,535 s.
fn coarse(ttl_s: u32) -> u32 {
    let dropped = 16_u32.saturating_sub(ttl_s.leading_zeros());
    ttl_s >> dropped << dropped
}

/// `part / whole`, or 0 if `whole` is 0.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests from a list.
    struct List(std::vec::IntoIter<Request>);

    impl RequestSource for List {
        fn next_request(&mut self) -> Result<Option<Request>, Error> {
            Ok(self.0.next())
        }

        fn progress(&self) -> Option<f64> {
            None
        }
    }

    fn request(time_s: u32, key: u64, value_bytes: u32, op: Op, ttl_s: u32) -> Request {
        Request { time_s, key, key_bytes: 10, value_bytes, op, ttl_s }
    }

    #[test]
    fn a_handful_of_requests() {
        let requests = vec![
            request(0, 1, 90, Op::Get, 0),
            request(1, 2, 0, Op::Get, 0),
            request(2, 2, 40, Op::Set, 60),
            request(3, 1, 0, Op::Get, 0),
            request(5, 3, 190, Op::Set, 100_001),
            request(9, 3, 0, Op::Delete, 0),
        ];
        let mut calls = 0;
        let mut source = List(requests.into_iter());
        let stats = Stats::collect(&mut source, &[1000], |_, _| calls += 1).unwrap();
        assert_eq!((stats.requests, stats.gets, stats.sets, stats.deletes), (6, 3, 2, 1));
        assert_eq!((stats.unique_keys, stats.span_s, calls), (3, 9, 1));
        assert_eq!(stats.footprint_bytes, 100 + 50 + 200);
        assert_eq!(stats.requested_bytes, 100 + 10 + 50 + 100 + 200 + 200);
        assert_eq!((stats.gets_of_unknown_size, stats.one_hit_ratio), (2, 0.0));
        assert_eq!((stats.object_bytes.p50, stats.object_bytes.max), (100, 200));
        assert_eq!((stats.ttl_s.p10, stats.ttl_s.max), (60, 100_000));
        assert_eq!(stats.lru[0].miss_ratio, 0.5);
        let text = stats.to_string();
        assert!(text.contains("350 bytes") && text.contains("GET"), "{text}");
    }

    #[test]
    fn nothing_at_all() {
        let stats = Stats::collect(&mut List(Vec::new().into_iter()), &[10], |_, _| {}).unwrap();
        assert_eq!((stats.requests, stats.unique_keys, stats.lru[0].miss_ratio), (0, 0, 0.0));
        assert!(!stats.to_string().is_empty());
    }

    #[test]
    fn ttls_are_exact_up_to_16_bits() {
        assert_eq!([0, 1, 65_535, 65_536].map(coarse), [0, 1, 65_535, 65_536]);
        assert_eq!(coarse(65_537), 65_536);
        assert_eq!(coarse(u32::MAX), 0xffff_0000);
    }

    #[test]
    fn the_page_has_the_types() {
        use larder_json_page::{Table, check};
        let tables = [
            ("### Statistics", Table::of::<Stats>()),
            ("### Percentiles", Table::of::<Percentiles>()),
            ("### LRU cache", Table::of::<LruStats>()),
        ];
        check("replay-json.md", "-p larder-workload --lib the_page_has_the_types", &tables);
    }
}
