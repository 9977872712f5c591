//! What a cache has done, as OpenMetrics: all that `status` and `stats` say, by core and by IO class.

use larder_server::MetricsText;

use super::report::{Requests, Running, Stats, Status};

/// All metrics, as text.
pub(super) fn text(status: &Status, stats: &Stats) -> String {
    let mut page = MetricsText::new("larder_block");
    page.family("cache", "info", "The cache.");
    let known = [("uuid", &*status.uuid), ("layout", &*status.layout), ("mode", &*status.mode)];
    page.sample("cache_info", &known, 1);
    if let Some(running) = &status.running {
        write_state(&mut page, running);
    }
    write_usage(&mut page, stats);
    write_requests(&mut page, stats);
    write_devices(&mut page, stats);
    write_bypasses(&mut page, stats);
    write_classes(&mut page, stats);
    page.finish()
}

fn gauge(page: &mut MetricsText, name: &str, help: &str, value: u64) {
    page.family(name, "gauge", help);
    page.sample(name, &[], value);
}

fn counter(page: &mut MetricsText, name: &str, help: &str, value: u64) {
    page.family(name, "counter", help);
    page.sample(&format!("{name}_total"), &[], value);
}

fn write_state(page: &mut MetricsText, running: &Running) {
    gauge(page, "uptime_seconds", "Time since it was started.", running.seconds);
    gauge(page, "attached", "Whether it has a cache device: 1 or 0.", running.attached.into());
    gauge(page, "healthy", "Whether its device works: 1 or 0.", running.healthy.into());
    gauge(page, "memory_bytes", "Memory that grows with the cache.", running.memory_bytes as u64);
    gauge(page, "under_way", "Requests that have not ended.", running.under_way as u64);
    let permille = running.routed.as_ref().map_or(0, |routed| routed.core_permille.into());
    gauge(page, "routed_permille", "Share of clean hits that go to the core.", permille);
}

fn write_usage(page: &mut MetricsText, stats: &Stats) {
    let usage = &stats.usage;
    gauge(page, "capacity_bytes", "Room for data.", usage.capacity_bytes);
    gauge(page, "occupied_bytes", "Data that are cached.", usage.occupied_bytes);
    gauge(page, "dirty_bytes", "Of these, those that only the cache has.", usage.dirty_bytes);
}

/// Numbers of one kind of requests, by what became of them.
fn results(requests: &Requests) -> [(&'static str, u64); 4] {
    [
        ("hit", requests.hits),
        ("partial_miss", requests.partial_misses),
        ("full_miss", requests.full_misses),
        ("pass_through", requests.pass_through),
    ]
}

/// A sample for each direction and result, of a core or a class.
fn write_results(page: &mut MetricsText, name: &str, of: (&str, &str), both: [&Requests; 2]) {
    for (direction, requests) in ["read", "write"].into_iter().zip(both) {
        for (result, count) in results(requests) {
            page.sample(name, &[of, ("direction", direction), ("result", result)], count);
        }
    }
}

fn write_requests(page: &mut MetricsText, stats: &Stats) {
    page.family("requests", "counter", "Requests of users, by what became of them.");
    for core in &stats.cores {
        let number = core.core.to_string();
        write_results(page, "requests_total", ("core", &number), [&core.reads, &core.writes]);
    }
    page.family("request_bytes", "counter", "Bytes that users asked for.");
    for core in &stats.cores {
        let number = core.core.to_string();
        for (direction, requests) in [("read", &core.reads), ("write", &core.writes)] {
            let labels = [("core", &*number), ("direction", direction)];
            page.sample("request_bytes_total", &labels, requests.bytes);
        }
    }
    page.family("core_bypasses", "counter", "Requests that have passed the cache by.");
    for core in &stats.cores {
        let number = core.core.to_string();
        page.sample("core_bypasses_total", &[("core", &*number)], core.bypasses);
    }
    counter(page, "core_hits", "Hits that the core has served.", stats.core_hits);
    let ahead = &stats.read_ahead;
    let help = "Reads of cores ahead of streams of reads.";
    counter(page, "read_ahead_requests", help, ahead.requests);
    counter(page, "read_ahead_bytes", "Bytes of these, among those read from cores.", ahead.bytes);
    let help = "Of these reads, those that a core has refused; no user has heard of it.";
    counter(page, "read_ahead_failures", help, ahead.failed);
    let help = "How often the cache device was found saturated.";
    counter(page, "saturations", help, stats.saturations);
}

fn write_devices(page: &mut MetricsText, stats: &Stats) {
    page.family("device_bytes", "counter", "Bytes read from devices and written to them.");
    for (device, direction, bytes) in [
        ("cache", "read", stats.cache_read_bytes),
        ("cache", "write", stats.cache_written_bytes),
        ("core", "read", stats.core_read_bytes),
        ("core", "write", stats.core_written_bytes),
    ] {
        let labels = [("device", device), ("direction", direction)];
        page.sample("device_bytes_total", &labels, bytes);
    }
    let help = "Bytes written to the cache device that only say where others are.";
    counter(page, "metadata_bytes", help, stats.metadata_bytes);
    page.family(
        "cache_written_bytes",
        "counter",
        "Bytes written to the cache device, by what they are.",
    );
    for (kind, bytes) in [
        ("metadata", stats.metadata_bytes),
        ("dirty", stats.dirty_bytes),
        ("clean", stats.clean_bytes),
    ] {
        page.sample("cache_written_bytes_total", &[("kind", kind)], bytes);
    }
    let help = "Bytes destaged for IO classes that were full of dirty data.";
    counter(page, "destaged_for_classes_bytes", help, stats.destaged_for_classes_bytes);
    let help = "Bytes sent in the metadata of the cache device's blocks, beside those written.";
    counter(page, "beside_bytes", help, stats.beside_bytes);
    page.family("device_flushes", "counter", "Flushes of devices.");
    for (device, flushes) in [("cache", stats.cache_flushes), ("core", stats.core_flushes)] {
        page.sample("device_flushes_total", &[("device", device)], flushes);
    }
    page.family("device_errors", "counter", "What devices have refused.");
    for (device, direction, errors) in [
        ("cache", "read", stats.errors.cache_reads),
        ("cache", "write", stats.errors.cache_writes),
        ("core", "read", stats.errors.core_reads),
        ("core", "write", stats.errors.core_writes),
    ] {
        let labels = [("device", device), ("direction", direction)];
        page.sample("device_errors_total", &labels, errors);
    }
    let help = "Requests that were tried again for an error of the cache device.";
    counter(page, "tried_again", help, stats.errors.tried_again);
}

fn write_bypasses(page: &mut MetricsText, stats: &Stats) {
    page.family("bypasses", "counter", "What has passed the cache by, by the reason.");
    for bypass in &stats.bypasses {
        let reason = bypass.reason.replace([' ', '-'], "_");
        page.sample("bypasses_total", &[("reason", &*reason)], bypass.requests);
    }
}

fn write_classes(page: &mut MetricsText, stats: &Stats) {
    page.family("class_occupied_bytes", "gauge", "What an IO class has of the cache.");
    for class in &stats.classes {
        let labels = [("class", &*class.class.to_string()), ("name", &*class.name)];
        page.sample("class_occupied_bytes", &labels, class.occupied_bytes);
    }
    page.family("class_most_bytes", "gauge", "What an IO class may have of the cache.");
    for class in &stats.classes {
        page.sample("class_most_bytes", &[("class", &*class.class.to_string())], class.most_bytes);
    }
    page.family("class_requests", "counter", "Requests of IO classes, by what became of them.");
    for class in &stats.classes {
        let number = class.class.to_string();
        let both = [&class.reads, &class.writes];
        write_results(page, "class_requests_total", ("class", &number), both);
    }
    page.family("class_bypasses", "counter", "Requests that have passed the cache by.");
    for class in &stats.classes {
        let number = class.class.to_string();
        page.sample("class_bypasses_total", &[("class", &*number)], class.bypasses);
    }
}
