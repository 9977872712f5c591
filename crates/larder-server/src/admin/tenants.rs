//! What the server itself counts of tenants.

use std::fmt::Write;

use crate::shared::ServerState;
use crate::tenant::Tenant;

/// Name, help, and the function that reads the counter.
type Metric = (&'static str, &'static str, fn(&Tenant) -> u64);

const METRICS: [Metric; 2] = [
    ("delayed_requests", "Requests that waited, by the rates of their tenant.", |tenant| {
        tenant.rates.delayed()
    }),
    ("refused_requests", "Requests answered as busy, by the rates of their tenant.", |tenant| {
        tenant.rates.refused()
    }),
];

/// Appends each metric, with a line for each tenant.
pub(super) fn append(shared: &ServerState, text: &mut String) {
    for (name, help, value) in METRICS {
        let name = format!("larder_server_tenant_{name}");
        // Writing to a `String` does not fail.
        let _ = write!(text, "# TYPE {name} counter\n# HELP {name} {help}\n");
        for tenant in &shared.tenants {
            let label = escape(tenant.name());
            let _ = writeln!(text, "{name}_total{{tenant=\"{label}\"}} {}", value(tenant));
        }
    }
}

/// Escapes a name for use as the value of a label.
fn escape(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
