//! `/metrics`: each tenant's cache as [`OpenMetrics`] writes it, then what the server counts of requests.

use std::fmt::Write;

use larder::{OpenMetrics, Stats};

use crate::shared::Shared;

/// What ends a page of metrics.
const END: &str = "# EOF\n";

/// All metrics, as text.
pub(super) fn text(shared: &Shared) -> String {
    let stats: Vec<(&str, Stats)> =
        shared.tenants.iter().map(|tenant| (tenant.name(), tenant.stats())).collect();
    let mut page = OpenMetrics::new();
    for (name, stats) in &stats {
        // Names are unlike each other, so that none is refused.
        if let Ok(more) = page.clone().cache(&[("tenant", name)], stats) {
            page = more;
        }
    }
    let mut text = page.to_string();
    text.truncate(text.strip_suffix(END).map_or(text.len(), str::len));
    let mut gauge = |name: &str, help: &str, value: u64| {
        // Writing to a text does not fail.
        let _ = write!(
            text,
            "# TYPE larder_server_{name} gauge\n# HELP larder_server_{name} {help}\nlarder_server_{name} {value}\n"
        );
    };
    gauge("connections", "Connections that there are.", shared.connections() as u64);
    gauge("connections_max", "Most connections at a time.", shared.connections_max() as u64);
    gauge("workers", "Threads that serve.", shared.config.workers as u64);
    gauge(
        "ready",
        "Whether it takes requests: 1 or 0.",
        u64::from(shared.why_not_ready().is_none()),
    );
    if let Some(tls) = shared.tls() {
        let help = "Seconds until the TLS certificate ends; 0 when it has.";
        gauge("certificate_ends_in_seconds", help, tls.ends_in().as_secs());
    }
    let mut counter = |name: &str, help: &str, value: u64| {
        let _ = write!(
            text,
            "# TYPE larder_server_{name} counter\n# HELP larder_server_{name} {help}\n\
             larder_server_{name}_total {value}\n"
        );
    };
    counter("accepted_connections", "Connections that there were.", shared.connections_ever());
    for (name, help, value) in shared.counted().each() {
        counter(name, help, value);
    }
    text.push_str(END);
    text
}
