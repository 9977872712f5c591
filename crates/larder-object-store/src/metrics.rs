//! The numbers of a store, and their text for monitoring systems.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! numbers {
    ($($name:ident: $help:literal;)+) => {
        /// The counters of a store.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)+
        }

        /// The numbers of a cached store since it was made. All only grow.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Metrics {
            $(#[doc = $help] pub $name: u64,)+
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> Metrics {
                Metrics { $($name: self.$name.get(),)+ }
            }
        }

        impl Metrics {
            /// Name, help and value of each.
            fn rows(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$((stringify!($name), $help, self.$name),)+].into_iter()
            }
        }
    };
}

numbers! {
    part_hits: "Parts of objects that were found in the cache.";
    part_misses: "Parts of objects that were fetched for their caller.";
    part_joins: "Parts of objects that another caller was already fetching.";
    cache_bytes: "Bytes that callers asked for and that came from the cache.";
    upstream_bytes: "Bytes of bodies that the store sent to the cache, without what was passed through.";
    upstream_requests: "Read requests to the store, of all kinds but listings.";
    merged_parts: "Parts that were fetched in a request of an earlier part.";
    head_hits: "Heads that were found in the cache and trusted.";
    head_requests: "Heads that the store was asked for, alone or with the first bytes.";
    head_joins: "Heads that another caller was already about to ask for.";
    footer_prefetches: "Requests that fetched the end of a file ahead of its reader.";
    list_hits: "Listings that came from the cache.";
    list_misses: "Listings that were cached after the store was asked.";
    bypassed_no_validator: "Reads of objects without a strong ETag or version, which were passed through.";
    bypassed_too_large: "Reads of objects larger than max_object, which were passed through.";
    bypassed_version: "Reads of a version that is not the cached one, which were passed through.";
    bypassed_condition: "Reads with conditions and without a trusted head, which were passed through.";
    bypassed_range: "Reads of ranges that the object does not have, which were passed through.";
    bypassed_changing: "Reads of objects that changed again and again, which were passed through.";
    changed_objects: "Times that the store had another version than the cache had thought.";
    failed_fetches: "Fetches that ended with an error of the store.";
    abandoned_fetches: "Fetches that ended without an answer, because their runtime dropped them.";
    stored_parts: "Parts that were fetched and given to the cache.";
    unstored_parts: "Parts that were fetched but not stored, because too much waits to be stored.";
    invalidations: "Heads that were invalidated because of a write, twice for each.";
    cache_errors: "Errors of the cache: the store was asked instead.";
}

impl Metrics {
    /// The numbers as [OpenMetrics] text, without its last line (`# EOF`), so that it can follow other families.
    /// `store` becomes the label `store`.
    ///
    /// ```
    /// let text = larder_object_store::Metrics::default().open_metrics("lake");
    /// assert!(text.contains("\nlarder_object_store_part_hits_total{store=\"lake\"} 0\n"));
    /// ```
    ///
    /// [OpenMetrics]: https://prometheus.io/docs/specs/om/open_metrics_spec/
    pub fn open_metrics(&self, store: &str) -> String {
        Self::open_metrics_of(&[(store, *self)])
    }

    /// The numbers of several stores as one text: a family of samples may occur only once.
    pub fn open_metrics_of(stores: &[(&str, Self)]) -> String {
        let mut text = String::new();
        for (at, (name, help, _)) in Self::default().rows().enumerate() {
            let name = format!("larder_object_store_{name}");
            let _ = writeln!(text, "# TYPE {name} counter");
            if name.ends_with("_bytes") {
                let _ = writeln!(text, "# UNIT {name} bytes");
            }
            let _ = writeln!(text, "# HELP {name} {help}");
            for (store, metrics) in stores {
                let value = metrics.rows().nth(at).map_or(0, |(_, _, value)| value);
                let _ = writeln!(text, "{name}_total{{store=\"{}\"}} {value}", escaped(store));
            }
        }
        text
    }
}

/// Escapes the value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_come_once_with_the_samples_of_all_stores() {
        let counters = Counters::default();
        counters.part_hits.add(3);
        counters.cache_bytes.add(5);
        let metrics = counters.snapshot();
        let text = Metrics::open_metrics_of(&[("a", metrics), ("b\"", Metrics::default())]);
        assert_eq!(text.matches("# TYPE larder_object_store_part_hits counter\n").count(), 1);
        assert!(text.contains("larder_object_store_part_hits_total{store=\"a\"} 3\n"));
        assert!(text.contains("larder_object_store_part_hits_total{store=\"b\\\"\"} 0\n"));
        assert!(text.contains("# UNIT larder_object_store_cache_bytes bytes\n"));
        let families = text.matches("# TYPE").count();
        assert_eq!((families, text.matches("# HELP").count()), (26, 26));
    }
}
