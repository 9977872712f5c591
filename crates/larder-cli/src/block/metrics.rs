//! Metrics of caches as OpenMetrics: everything in `status` and `stats`, by core and by IO class. With several caches
//! on one page, each sample has the label `cache`.

use std::fmt::Display;
use std::time::Duration;

use larder_server::MetricsText;

use super::report::{Requests, Running, Stats, Status};

/// The answer of a cache.
pub(super) struct CacheMetrics {
    /// Its label on the page; `None` if it is the only one.
    cache: Option<String>,
    /// `None` if it did not answer.
    said: Option<(Status, Stats)>,
}

impl CacheMetrics {
    /// The only cache on its page.
    pub(super) fn alone(status: Status, stats: Stats) -> Self {
        Self { cache: None, said: Some((status, stats)) }
    }

    /// One of several caches.
    pub(super) fn among(cache: String, said: Option<(Status, Stats)>) -> Self {
        Self { cache: Some(cache), said }
    }
}

/// Adds the samples of one cache.
struct Samples<'a> {
    page: &'a mut MetricsText,
    cache: Option<&'a str>,
}

impl Samples<'_> {
    fn add(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let cache = self.cache.map(|cache| ("cache", cache));
        let labels: Vec<_> = cache.into_iter().chain(labels.iter().copied()).collect();
        self.page.sample(name, &labels, value);
    }
}

/// A page of metrics that is being written.
struct Page<'a> {
    text: MetricsText,
    told: &'a [CacheMetrics],
}

impl Page<'_> {
    /// Adds a family, with the samples that `each` adds for each cache that has answered.
    fn family(
        &mut self,
        (name, kind, help): (&str, &str, &str),
        each: impl Fn(&Status, &Stats, &mut Samples<'_>),
    ) {
        self.text.family(name, kind, help);
        for one in self.told {
            if let Some((status, stats)) = &one.said {
                let cache = one.cache.as_deref();
                each(status, stats, &mut Samples { page: &mut self.text, cache });
            }
        }
    }

    fn counter(&mut self, name: &str, help: &str, of: fn(&Stats) -> u64) {
        let total = format!("{name}_total");
        self.family((name, "counter", help), |_, stats, samples| {
            samples.add(&total, &[], of(stats));
        });
    }

    fn gauge(&mut self, name: &str, help: &str, of: fn(&Stats) -> u64) {
        self.family((name, "gauge", help), |_, stats, samples| samples.add(name, &[], of(stats)));
    }

    /// Adds a gauge for the running caches.
    fn running(&mut self, name: &str, help: &str, of: fn(&Running) -> u64) {
        self.family((name, "gauge", help), |status, _, samples| {
            if let Some(running) = &status.running {
                samples.add(name, &[], of(running));
            }
        });
    }
}

/// All metrics of these caches.
pub(super) fn page(told: &[CacheMetrics]) -> MetricsText {
    let mut page = Page { text: MetricsText::new("larder_block"), told };
    write_answers(&mut page);
    page.family(("cache", "info", "The cache."), |status, _, samples| {
        let known = [("uuid", &*status.uuid), ("layout", &*status.layout), ("mode", &*status.mode)];
        samples.add("cache_info", &known, 1);
    });
    write_state(&mut page);
    write_cores(&mut page);
    write_requests(&mut page);
    write_devices(&mut page);
    write_bypasses(&mut page);
    write_classes(&mut page);
    write_latencies(&mut page);
    page.text
}

/// A cache that answers for itself needs no `up`.
fn write_answers(page: &mut Page<'_>) {
    if page.told.iter().all(|one| one.cache.is_none()) {
        return;
    }
    page.text.family("up", "gauge", "Whether the cache has answered: 1 or 0.");
    for one in page.told {
        let mut samples = Samples { page: &mut page.text, cache: one.cache.as_deref() };
        samples.add("up", &[], u8::from(one.said.is_some()));
    }
}

/// Gauges of each core of the running caches.
fn write_cores(page: &mut Page<'_>) {
    let help = "Whether a core of the cache is not there: 1 or 0.";
    page.family(("core_missing", "gauge", help), |status, _, samples| {
        for core in status.cores.iter().filter(|_| status.running.is_some()) {
            let labels = [("core", &*core.core.to_string())];
            samples.add("core_missing", &labels, u8::from(core.missing));
        }
    });
    let help = "Data of a core that only the cache has.";
    page.family(("core_dirty_bytes", "gauge", help), |status, _, samples| {
        for core in &status.cores {
            let Some(bytes) = core.dirty_bytes else { continue };
            samples.add("core_dirty_bytes", &[("core", &*core.core.to_string())], bytes);
        }
    });
    let help = "Blocks of a core that the start has compared and that tell it from other devices.";
    page.family(("core_distinguishing_blocks", "gauge", help), |status, _, samples| {
        for core in &status.cores {
            let Some(compared) = core.compared else { continue };
            let labels = [("core", &*core.core.to_string())];
            samples.add("core_distinguishing_blocks", &labels, compared.distinguishing);
        }
    });
}

fn write_state(page: &mut Page<'_>) {
    page.running("uptime_seconds", "Time since it was started.", |of| of.seconds);
    page.running("attached", "Whether it has a cache device: 1 or 0.", |of| of.attached.into());
    page.running("healthy", "Whether its device works: 1 or 0.", |of| of.healthy.into());
    page.running("memory_bytes", "Memory that grows with the cache.", |of| of.memory_bytes as u64);
    page.running("under_way", "Requests that have not ended.", |of| of.under_way as u64);
    page.running("routed_permille", "Share of clean hits that go to the core.", |of| {
        of.routed.as_ref().map_or(0, |routed| routed.core_permille.into())
    });
    page.gauge("capacity_bytes", "Room for data.", |of| of.usage.capacity_bytes);
    page.gauge("occupied_bytes", "Data that are cached.", |of| of.usage.occupied_bytes);
    let help = "Of these, those that only the cache has.";
    page.gauge("dirty_bytes", help, |of| of.usage.dirty_bytes);
}

/// Counts of requests by result.
fn results(requests: &Requests) -> [(&'static str, u64); 4] {
    [
        ("hit", requests.hits),
        ("partial_miss", requests.partial_misses),
        ("full_miss", requests.full_misses),
        ("pass_through", requests.pass_through),
    ]
}

/// A sample for each direction and result, of a core or a class.
fn write_results(samples: &mut Samples<'_>, name: &str, of: (&str, &str), both: [&Requests; 2]) {
    for (direction, requests) in ["read", "write"].into_iter().zip(both) {
        for (result, count) in results(requests) {
            samples.add(name, &[of, ("direction", direction), ("result", result)], count);
        }
    }
}

fn write_requests(page: &mut Page<'_>) {
    let help = "Requests of users, by what became of them.";
    page.family(("requests", "counter", help), |_, stats, samples| {
        for core in &stats.cores {
            let number = core.core.to_string();
            let both = [&core.reads, &core.writes];
            write_results(samples, "requests_total", ("core", &number), both);
        }
    });
    let help = "Bytes that users asked for.";
    page.family(("request_bytes", "counter", help), |_, stats, samples| {
        for core in &stats.cores {
            let number = core.core.to_string();
            for (direction, requests) in [("read", &core.reads), ("write", &core.writes)] {
                let labels = [("core", &*number), ("direction", direction)];
                samples.add("request_bytes_total", &labels, requests.bytes);
            }
        }
    });
    let help = "Requests that have passed the cache by.";
    page.family(("core_bypasses", "counter", help), |_, stats, samples| {
        for core in &stats.cores {
            let number = core.core.to_string();
            samples.add("core_bypasses_total", &[("core", &*number)], core.bypasses);
        }
    });
    page.counter("core_hits", "Hits that the core has served.", |of| of.core_hits);
    let help = "Reads of cores ahead of streams of reads.";
    page.counter("read_ahead_requests", help, |of| of.read_ahead.requests);
    let help = "Bytes of these, among those read from cores.";
    page.counter("read_ahead_bytes", help, |of| of.read_ahead.bytes);
    let help = "Of these reads, those that a core has refused; no user has heard of it.";
    page.counter("read_ahead_failures", help, |of| of.read_ahead.failed);
    let help = "How often the cache device was found saturated.";
    page.counter("saturations", help, |of| of.saturations);
}

fn write_devices(page: &mut Page<'_>) {
    let help = "Bytes read from devices and written to them.";
    page.family(("device_bytes", "counter", help), |_, stats, samples| {
        for (device, direction, bytes) in [
            ("cache", "read", stats.cache_read_bytes),
            ("cache", "write", stats.cache_written_bytes),
            ("core", "read", stats.core_read_bytes),
            ("core", "write", stats.core_written_bytes),
        ] {
            let labels = [("device", device), ("direction", direction)];
            samples.add("device_bytes_total", &labels, bytes);
        }
    });
    let help = "Bytes written to the cache device that only say where others are.";
    page.counter("metadata_bytes", help, |of| of.metadata_bytes);
    let help = "Bytes written to the cache device, by what they are.";
    page.family(("cache_written_bytes", "counter", help), |_, stats, samples| {
        for (kind, bytes) in [
            ("metadata", stats.metadata_bytes),
            ("dirty", stats.dirty_bytes),
            ("clean", stats.clean_bytes),
        ] {
            samples.add("cache_written_bytes_total", &[("kind", kind)], bytes);
        }
    });
    let help = "Bytes destaged for IO classes that were full of dirty data.";
    page.counter("destaged_for_classes_bytes", help, |of| of.destaged_for_classes_bytes);
    let help = "Bytes sent in the metadata of the cache device's blocks, beside those written.";
    page.counter("beside_bytes", help, |of| of.beside_bytes);
    page.family(("device_flushes", "counter", "Flushes of devices."), |_, stats, samples| {
        for (device, flushes) in [("cache", stats.cache_flushes), ("core", stats.core_flushes)] {
            samples.add("device_flushes_total", &[("device", device)], flushes);
        }
    });
    let help = "What devices have refused.";
    page.family(("device_errors", "counter", help), |_, stats, samples| {
        for (device, direction, errors) in [
            ("cache", "read", stats.errors.cache_reads),
            ("cache", "write", stats.errors.cache_writes),
            ("core", "read", stats.errors.core_reads),
            ("core", "write", stats.errors.core_writes),
        ] {
            let labels = [("device", device), ("direction", direction)];
            samples.add("device_errors_total", &labels, errors);
        }
    });
    let help = "Requests that were tried again for an error of the cache device.";
    page.counter("tried_again", help, |of| of.errors.tried_again);
}

fn write_bypasses(page: &mut Page<'_>) {
    let help = "What has passed the cache by, by the reason.";
    page.family(("bypasses", "counter", help), |_, stats, samples| {
        for bypass in &stats.bypasses {
            let reason = bypass.reason.replace([' ', '-'], "_");
            samples.add("bypasses_total", &[("reason", &*reason)], bypass.requests);
        }
    });
}

fn write_classes(page: &mut Page<'_>) {
    let help = "What an IO class has of the cache.";
    page.family(("class_occupied_bytes", "gauge", help), |_, stats, samples| {
        for class in &stats.classes {
            let labels = [("class", &*class.class.to_string()), ("name", &*class.name)];
            samples.add("class_occupied_bytes", &labels, class.occupied_bytes);
        }
    });
    let help = "What an IO class may have of the cache.";
    page.family(("class_most_bytes", "gauge", help), |_, stats, samples| {
        for class in &stats.classes {
            let labels = [("class", &*class.class.to_string())];
            samples.add("class_most_bytes", &labels, class.most_bytes);
        }
    });
    let help = "Requests of IO classes, by what became of them.";
    page.family(("class_requests", "counter", help), |_, stats, samples| {
        for class in &stats.classes {
            let number = class.class.to_string();
            let both = [&class.reads, &class.writes];
            write_results(samples, "class_requests_total", ("class", &number), both);
        }
    });
    let help = "Requests that have passed the cache by.";
    page.family(("class_bypasses", "counter", help), |_, stats, samples| {
        for class in &stats.classes {
            let labels = [("class", &*class.class.to_string())];
            samples.add("class_bypasses_total", &labels, class.bypasses);
        }
    });
}

/// Latencies by operation, and for reads by what served them.
fn write_latencies(page: &mut Page<'_>) {
    let name = "request_seconds";
    let help = "How long requests took, from when the cache was asked.";
    page.family((name, "histogram", help), |_, stats, samples| {
        for of in &stats.latencies {
            let mut labels = vec![("operation", &*of.operation)];
            labels.extend(of.served_by.as_deref().map(|by| ("served_by", by)));
            let within = of.within_ns.iter().map(|(most, requests)| {
                (Duration::from_nanos(*most).as_secs_f64().to_string(), *requests)
            });
            for (le, requests) in within.chain([("+Inf".to_owned(), of.requests)]) {
                let with = [&labels[..], &[("le", &*le)]].concat();
                samples.add(&format!("{name}_bucket"), &with, requests);
            }
            samples.add(&format!("{name}_count"), &labels, of.requests);
            let seconds = Duration::from_nanos(of.sum_ns).as_secs_f64();
            samples.add(&format!("{name}_sum"), &labels, seconds);
        }
    });
}
