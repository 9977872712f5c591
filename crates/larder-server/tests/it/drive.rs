//! Servers on a drive that can be made to fail, and their metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use larder::{Config, Larder, RealClock, Tenant, Tenants, TenantsConfig, block_on};
use larder_device::{FaultDevice, FaultPlan, MemoryDevice};
use larder_server::{Server, ServerConfig};

use crate::admin::get;
use crate::serving::Client;

pub(crate) type Drive = Arc<FaultDevice<MemoryDevice>>;

/// A healthy drive.
pub(crate) fn drive() -> Drive {
    // It never loses power, so it needs no copies of unflushed writes.
    let well = FaultPlan::new(1).volatile_writes(0);
    Arc::new(FaultDevice::new(MemoryDevice::holding(vec![0; 128 << 20]), &well))
}

/// A server with tenants of these settings and 2 MiB of DRAM each.
pub(crate) fn serve_on(drive: &Drive, tenants: &[(&str, Config)], config: ServerConfig) -> Server {
    started_with(config, opened_on(drive, tenants))
}

/// A server with these tenants, and an admin address.
pub(crate) fn started_with(config: ServerConfig, tenants: Tenants<Larder>) -> Server {
    let admin = Some(([127, 0, 0, 1], 0).into());
    Server::start(ServerConfig { admin, ..config }, tenants).unwrap()
}

/// Tenants with these settings and 2 MiB of DRAM each.
pub(crate) fn opened_on(drive: &Drive, tenants: &[(&str, Config)]) -> Tenants<Larder> {
    let percent = 100.0 / f64::from(u32::try_from(tenants.len()).unwrap());
    let tenant = |(name, config): &(&str, Config)| Tenant {
        config: config.clone(),
        ..Tenant::new(*name, percent)
    };
    let tenants = TenantsConfig {
        dram_bytes: (2 << 20) * tenants.len() as u64,
        tenants: tenants.iter().map(tenant).collect(),
        ..TenantsConfig::default()
    };
    let drive = Some(Arc::clone(drive) as _);
    block_on(Tenants::open(tenants, drive, Arc::new(RealClock))).unwrap()
}

/// Settings of a cache that does not wait long for its drive.
pub(crate) fn impatient() -> Config {
    Config { flash_wait: Some(Duration::from_millis(500)), ..Config::default() }
}

/// Tells threads to stop when it is dropped, after a failure too, so that the test does not hang.
pub(crate) struct Ends<'a>(pub(crate) &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A metric of a tenant.
pub(crate) fn metric(server: &Server, name: &str, tenant: &str) -> u64 {
    let page = get(server, "/metrics", "");
    let line = format!("{name}{{tenant=\"{tenant}\"}} ");
    let found = page.lines().find_map(|it| it.strip_prefix(&line));
    found.unwrap_or_else(|| panic!("no {line}in\n{page}")).parse().unwrap()
}

/// A metric of the server itself.
pub(crate) fn metric_of_server(server: &Server, name: &str) -> u64 {
    let page = get(server, "/metrics", "");
    let line = format!("larder_server_{name} ");
    let found = page.lines().find_map(|it| it.strip_prefix(&line));
    found.unwrap_or_else(|| panic!("no {line}in\n{page}")).parse().unwrap()
}

pub(crate) fn value(key: usize) -> String {
    format!("{key:010}").repeat(100)
}

/// Sets keys with values of 1,000 bytes, 50 in each write, and returns how many were stored.
pub(crate) fn fill(client: &mut Client, keys: std::ops::Range<usize>) -> usize {
    let mut stored = 0;
    for first in keys.clone().step_by(50) {
        let some = first..keys.end.min(first + 50);
        let requests = some.clone().map(|key| format!("set k{key} 0 0 1000\r\n{}\r\n", value(key)));
        client.send(requests.collect::<String>());
        stored += some.filter(|_| client.line() == "STORED\r\n").count();
    }
    stored
}

/// Gets keys one after the other, checks the values, and returns how many were found.
pub(crate) fn count(client: &mut Client, keys: impl Iterator<Item = usize>) -> usize {
    keys.filter(|key| {
        client.send(format!("get k{key}\r\n"));
        let line = client.line();
        if line == "END\r\n" {
            return false;
        }
        assert_eq!(line, format!("VALUE k{key} 0 1000\r\n"));
        client.hears(format!("{}\r\nEND\r\n", value(*key)));
        true
    })
    .count()
}
