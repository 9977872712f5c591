//! A server on a drive of the SSD model that has to relocate data: operators see whose it is.

use std::sync::Arc;
use std::time::Duration;

use larder::config::Demotions;
use larder::{
    Config, Larder, LocConfig, RealClock, SocConfig, Tenant, Tenants, TenantsConfig, block_on,
};
use larder_device::{Device, ModelDevice, Payload};
use larder_server::{OpenedDevice, Server, ServerConfig};
use larder_ssd::managed::{Geometry, ManagedConfig};

use crate::admin::{get, json};
use crate::drive::started_with;
use crate::serving::{Client, config};

const UNIT_BYTES: u64 = 256 << 10;
const WHY_NOT: &str = "write streams: the test has none";

struct Served {
    server: Server,
    drive: Arc<ModelDevice>,
    cache: Arc<Larder>,
}

/// A server whose tenant "pages" has all of a drive of 48 MiB with 12 % of over-provisioning.
fn served(placement: bool) -> Served {
    let geometry = Geometry::with_overprovisioning(48 << 20, UNIT_BYTES, 12.0).unwrap();
    let flash_bytes = Some(u64::from(geometry.units) * UNIT_BYTES);
    let drive = ModelDevice::new(ManagedConfig::new(geometry), Payload::Memory).unwrap();
    let drive = Arc::new(drive.reporting("model:48M", Arc::new(RealClock)));
    let settings = Config {
        placement,
        soc: SocConfig { percent: Some(30.0), ..SocConfig::default() },
        loc: LocConfig {
            region_bytes: Some(256 << 10),
            ru_aware_eviction: true,
            ..LocConfig::default()
        },
        demotions: Demotions::Callers,
        hash_seed: Some(1),
        ..Config::default()
    };
    let tenants = TenantsConfig {
        dram_bytes: 1 << 20,
        tenants: vec![Tenant { config: settings, ..Tenant::new("pages", 100.0) }],
        ..TenantsConfig::default()
    };
    let device = Some(Arc::clone(&drive) as Arc<dyn Device>);
    let tenants = block_on(Tenants::open(tenants, device, Arc::new(RealClock))).unwrap();
    let cache = tenants.tenant_shared("pages").unwrap();
    let device =
        OpenedDevice { placement_expected: true, missed: vec![WHY_NOT.to_owned()], flash_bytes };
    let settings = ServerConfig { workers: 1, devices: vec![device], ..config() };
    Served { server: started_with(settings, tenants), drive, cache }
}

impl Served {
    /// Overwrites small objects at random, and fills large ones in order.
    fn churn(&self, sets: u32) {
        let mut rng = fastrand::Rng::with_seed(5);
        for _ in 0..sets {
            let key = rng.u32(..200_000).to_le_bytes();
            let bytes = if rng.u8(..) < 24 { 40_000 } else { 500 };
            block_on(self.cache.set(&key, &vec![7; bytes], None)).unwrap();
        }
    }

    fn metrics(&self) -> String {
        get(&self.server, "/metrics", "")
    }

    fn moves_counted(&self) -> u64 {
        self.drive.with_ssd(|ssd| ssd.event_counts().media_reallocated)
    }
}

/// The values of all samples of a metric that have these labels.
fn values(page: &str, name: &str, labels: &[(&str, &str)]) -> Vec<f64> {
    let samples = page.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
    let samples = samples.filter_map(|line| line.rsplit_once("} "));
    let has = |text: &str, (label, value): &(&str, &str)| {
        format!(",{text},").contains(&format!(",{label}=\"{value}\","))
    };
    let wanted = samples.filter(|(text, _)| labels.iter().all(|label| has(text, label)));
    wanted.map(|(_, value)| value.parse().unwrap()).collect()
}

const RELOCATED: &str = "larder_fdp_relocated_units_total";

#[test]
fn streams_on_one_handle_are_relocated_together_and_named() {
    let served = served(false);
    served.churn(40_000);
    let mut client = Client::memcached(&served.server);
    client.asks(
        "set bread 0 0 3\r\nrye\r\nget bread\r\n",
        "STORED\r\nVALUE bread 0 3\r\nrye\r\nEND\r\n",
    );
    let (page, counted) = (served.metrics(), served.moves_counted());
    assert!(counted > 100, "{counted}");
    let all = "SOC + LOC + metadata";
    let of_all = [("drive", "model:48M"), ("tenant", "pages"), ("stream", all), ("handle", "0")];
    let events = [&of_all[..], &[("event", "media_reallocated")]].concat();
    #[allow(clippy::cast_precision_loss)]
    let counted_exactly = counted as f64;
    let seen = values(&page, "larder_fdp_events_total", &events);
    assert_eq!(seen.len(), 1, "once, whatever number of streams: {page}");
    let mixed = values(&page, RELOCATED, &[("stream", "mixed")])[0];
    assert_eq!(seen[0] + mixed, counted_exactly, "no event is missed, and none counts twice");
    assert_eq!(values(&page, RELOCATED, &of_all), seen);
    assert_eq!(values(&page, RELOCATED, &[]).iter().sum::<f64>(), counted_exactly);
    assert!(values(&page, "larder_fdp_relocated_bytes_total", &of_all)[0] > 0.0);
    assert!(values(&page, "larder_fdp_last_event_timestamp_seconds", &of_all)[0] > 1.0e9);
    assert_eq!(
        values(&page, "larder_fdp_events_total", &[("event", "unit_not_fully_written")]),
        [0.0, 0.0]
    );

    let of_loc = [("tenant", "pages"), ("shard", "0"), ("stream", "LOC"), ("handle", "0")];
    let why = [("path", "none"), ("reason", "placement is off")];
    let info = [&of_loc[..], &why[..]].concat();
    assert_eq!(values(&page, "larder_placement_info", &info), [1.0], "{page}");
    assert_eq!(values(&page, "larder_placement_streams", &[("tenant", "pages")]), [1.0]);
    assert_eq!(values(&page, "larder_placement_expected", &[("tenant", "pages")]), [1.0]);
    assert!(values(&page, "larder_drive_dlwa", &[("drive", "model:48M")])[0] > 1.2, "{page}");
    assert!(values(&page, "larder_predicted_dlwa", &[("drive", "model:48M")])[0] > 1.5, "{page}");

    let told = json(&served.server, "/api/placement");
    let warnings = told["warnings"].as_array().unwrap();
    let warns = |text: &str| warnings.iter().any(|it| it.as_str().unwrap().contains(text));
    assert!(warns("placement was expected, and all streams of tenant pages"), "{warnings:?}");
    assert!(warns("streams SOC + LOC + metadata of pages, which share handle 0"), "{warnings:?}");
    assert!(warns("are being relocated"), "{warnings:?}");
    for stream in told["tenants"][0]["shards"][0]["streams"].as_array().unwrap() {
        assert_eq!(stream["events"]["relocated_units"], seen[0], "{stream}");
        assert!(stream["events"]["last_read_ms"].as_u64() > Some(1_000_000_000_000));
    }
    served.server.end(Duration::from_secs(5)).unwrap();
}

#[test]
fn with_placement_only_what_is_written_at_random_is_relocated() {
    let served = served(true);
    served.churn(40_000);
    let page = served.metrics();
    let relocated = |stream: &str| -> f64 {
        values(&page, RELOCATED, &[("tenant", "pages"), ("stream", stream)]).iter().sum()
    };
    assert!(relocated("SOC") > 0.0, "{page}");
    // Metadata are overwritten in place, as small objects are.
    assert_eq!(values(&page, RELOCATED, &[("stream", "LOC")]), [0.0], "{page}");
    assert_eq!(served.cache.stats().drive_moves_of_loc, 0);
    let told = json(&served.server, "/api/placement");
    let warnings = told["warnings"].to_string();
    assert!(
        warnings.contains("stream SOC of tenant pages is being relocated by drive model:48M"),
        "{warnings}"
    );
    assert!(
        !warnings.contains("placement was expected") && !warnings.contains("LOC"),
        "{warnings}"
    );
    let reason = format!("a handle of its own ({WHY_NOT})");
    let soc = [("stream", "SOC"), ("path", "model"), ("reason", &*reason)];
    assert_eq!(values(&page, "larder_placement_info", &soc), [1.0], "{page}");
    assert_eq!(values(&page, "larder_placement_streams", &[("tenant", "pages")]), [3.0]);
    let shard = &told["tenants"][0]["shards"][0];
    assert_eq!((&shard["missed"][0], &shard["expected"]), (&WHY_NOT.into(), &true.into()));
    let written = |at: usize| shard["streams"][at]["handle_written_bytes"].as_u64().unwrap();
    assert!(written(0) > 10 << 20 && written(1) > 10 << 20, "{shard}");

    let drive = json(&served.server, "/api/stats")["drives"][0].clone();
    let (measured, predicted) =
        (drive["dlwa"].as_f64().unwrap(), drive["predicted_dlwa"].as_f64().unwrap());
    assert!(measured > 1.0 && (measured - predicted).abs() < 0.25, "{drive}");
    let without = self::served(false);
    without.churn(40_000);
    let of = json(&without.server, "/api/stats")["drives"][0].clone();
    assert!(
        of["dlwa"].as_f64() > Some(measured) && of["predicted_dlwa"].as_f64() > Some(predicted),
        "{of} {drive}"
    );
}
