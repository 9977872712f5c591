//! What is counted of tenants by the server itself.

use std::fmt::Write;

use crate::shared::Shared;
use crate::tenant::Tenant;

/// Name, help, and what counts it.
type Metric = (&'static str, &'static str, fn(&Tenant) -> u64);

const METRICS: [Metric; 2] = [
    ("delayed_requests", "Requests that waited, by the rates of their tenant.", |tenant| {
        tenant.rates.delayed()
    }),
    ("refused_requests", "Requests answered as busy, by the rates of their tenant.", |tenant| {
        tenant.rates.refused()
    }),
];

/// Appends a line for each tenant to each of the metrics.
pub(super) fn append(shared: &Shared, text: &mut String) {
    for (name, help, value) in METRICS {
        let name = format!("larder_server_tenant_{name}");
        // Writing to a text does not fail.
        let _ = write!(text, "# TYPE {name} counter\n# HELP {name} {help}\n");
        for tenant in &shared.tenants {
            let label = escape(tenant.name());
            let _ = writeln!(text, "{name}_total{{tenant=\"{label}\"}} {}", value(tenant));
        }
    }
}

/// A name as the value of a label.
fn escape(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
