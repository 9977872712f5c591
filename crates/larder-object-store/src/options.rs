//! The options of a cached store, and their limits.

use std::fmt;
use std::time::Duration;

use crate::background::Spawn;
use crate::error::Error;
use crate::path_rule::PathRule;

const PART_SIZES: [u64; 3] = [64 << 10, 128 << 10, 256 << 10];
/// A request upstream must not outgrow what a task may hold in memory.
const REQUEST_BYTES_MAX: u64 = 256 << 20;

/// How a store is cached. `Options::default()` never returns a version that the store had replaced before the call.
///
/// ```
/// use std::time::Duration;
/// use larder_object_store::{Options, PathRule};
///
/// let options = Options {
///     head_ttl: Duration::from_secs(10),
///     immutable: vec![PathRule::prefix("warehouse/data")],
///     ..Options::default()
/// };
/// options.check()?;
/// # Ok::<(), larder_object_store::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    /// Bytes of a part, the unit of the cache: 65536, 131072 or 262144 (default).
    pub part_size: u64,
    /// Maximum bytes of a request upstream: a multiple of `part_size`, at most 256 MiB. A longer read is several
    /// requests. Default 8 MiB.
    pub request_bytes: u64,
    /// Missing parts that are at most this many bytes apart are one request. Default 1 MiB, as in `object_store`.
    pub merge_gap: u64,
    /// How long the head of an object (size, ETag, version, attributes) is trusted without asking the store. Default
    /// zero: the store is asked for the head in every call, and only bytes come from the cache.
    pub head_ttl: Duration,
    /// How long a listing is trusted. Default zero: listings are not cached.
    pub list_ttl: Duration,
    /// Paths whose head is never trusted, whatever `head_ttl` and `immutable` say. Default: `_last_checkpoint`,
    /// `version-hint.text`, and everything below a `_delta_log`, a `manifest` or a `_versions`.
    pub mutable: Vec<PathRule>,
    /// Paths whose objects never change: their head is trusted for ever, and they need no ETag. Default none.
    pub immutable: Vec<PathRule>,
    /// Bytes at the end of a file that are fetched in one request when its head or its end is first asked for; zero
    /// turns it off. At most `request_bytes - part_size`. Default 64 KiB.
    pub prefetch_footer: u64,
    /// The paths to which `prefetch_footer` applies. Default: those that end in `.parquet`.
    pub footers: Vec<PathRule>,
    /// Objects with more bytes are not cached. Default: no limit.
    pub max_object: u64,
    /// Maximum number of concurrent read requests to the store: further ones wait. Default 32.
    pub upstream_requests: usize,
    /// Maximum bytes of fetches in flight, and as much again of what waits to be stored; at least `request_bytes`.
    /// Default 64 MiB.
    pub pending_bytes: u64,
    /// What runs fetches. `None` (default): the tokio runtime of the caller (feature `tokio`), or else a thread of the
    /// store.
    pub spawn: Option<Spawn>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            part_size: 256 << 10,
            request_bytes: 8 << 20,
            merge_gap: 1 << 20,
            head_ttl: Duration::ZERO,
            list_ttl: Duration::ZERO,
            mutable: vec![
                PathRule::suffix("_last_checkpoint"),
                PathRule::suffix("version-hint.text"),
                PathRule::name("_delta_log"),
                PathRule::name("manifest"),
                PathRule::name("_versions"),
            ],
            immutable: Vec::new(),
            prefetch_footer: 64 << 10,
            footers: vec![PathRule::suffix(".parquet")],
            max_object: u64::MAX,
            upstream_requests: 32,
            pending_bytes: 64 << 20,
            spawn: None,
        }
    }
}

/// How long the head of a path is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    For(Duration),
    ForEver,
}

impl Options {
    /// Refuses options that cannot work.
    ///
    /// # Errors
    /// Names the option, its value and what is legal.
    pub fn check(&self) -> Result<(), Error> {
        let refuse = |field, value: &dyn fmt::Display, fix| Err(Error::new(field, value, fix));
        if !PART_SIZES.contains(&self.part_size) {
            return refuse("part_size", &self.part_size, "must be 65536, 131072 or 262144");
        }
        if self.request_bytes == 0
            || !self.request_bytes.is_multiple_of(self.part_size)
            || self.request_bytes > REQUEST_BYTES_MAX
        {
            let fix = "must be a multiple of part_size, at most 268435456";
            return refuse("request_bytes", &self.request_bytes, fix);
        }
        if self.prefetch_footer > self.request_bytes - self.part_size {
            let fix = "must be at most request_bytes - part_size; 0 turns it off";
            return refuse("prefetch_footer", &self.prefetch_footer, fix);
        }
        if self.upstream_requests == 0 {
            return refuse("upstream_requests", &0, "must be at least 1");
        }
        if self.pending_bytes < self.request_bytes {
            return refuse("pending_bytes", &self.pending_bytes, "must be at least request_bytes");
        }
        for (field, rules) in
            [("mutable", &self.mutable), ("immutable", &self.immutable), ("footers", &self.footers)]
        {
            if let Some(rule) = rules.iter().find(|rule| rule.is_empty()) {
                return refuse(field, rule, "must name something; drop the empty rule");
            }
        }
        Ok(())
    }

    pub(crate) fn trust(&self, path: &str) -> Trust {
        let is = |rules: &[PathRule]| rules.iter().any(|rule| rule.matches(path));
        if is(&self.mutable) {
            Trust::For(Duration::ZERO)
        } else if is(&self.immutable) {
            Trust::ForEver
        } else {
            Trust::For(self.head_ttl)
        }
    }

    /// Bytes at the end of this path that are fetched together; 0 for most.
    pub(crate) fn footer_bytes(&self, path: &str) -> u64 {
        let is_file = self.footers.iter().any(|rule| rule.matches(path));
        if is_file { self.prefetch_footer } else { 0 }
    }

    /// The number of fetches that may be in flight, and of those that may wait to be stored.
    pub(crate) fn fetches(&self) -> usize {
        usize::try_from(self.pending_bytes / self.request_bytes.max(1)).unwrap_or(usize::MAX).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bad_option_is_refused_with_its_name() {
        let usual = Options::default;
        let part = usual().part_size;
        let cases: [(&str, Options); 8] = [
            ("part_size", Options { part_size: 100 << 10, ..usual() }),
            ("part_size", Options { part_size: 512 << 10, ..usual() }),
            ("request_bytes", Options { request_bytes: part + 1, ..usual() }),
            ("request_bytes", Options { request_bytes: 512 << 20, ..usual() }),
            ("prefetch_footer", Options { prefetch_footer: 8 << 20, ..usual() }),
            ("upstream_requests", Options { upstream_requests: 0, ..usual() }),
            ("pending_bytes", Options { pending_bytes: 1 << 20, ..usual() }),
            ("immutable", Options { immutable: vec![PathRule::suffix("")], ..usual() }),
        ];
        for (field, options) in cases {
            let error = options.check().unwrap_err();
            assert_eq!(error.field(), field, "{error}");
            assert!(error.to_string().contains(": must "), "{error}");
        }
        usual().check().unwrap();
    }

    #[test]
    fn mutable_paths_are_asked_for_even_below_immutable_ones() {
        let hour = Duration::from_secs(3600);
        let immutable = vec![PathRule::prefix("t")];
        let options = Options { head_ttl: hour, immutable, ..Options::default() };
        assert_eq!(options.trust("t/part-0.parquet"), Trust::ForEver);
        assert_eq!(options.trust("t/_delta_log/_last_checkpoint"), Trust::For(Duration::ZERO));
        assert_eq!(options.trust("u/part-0.parquet"), Trust::For(hour));
        assert_eq!(Options::default().trust("u"), Trust::For(Duration::ZERO));
    }
}
