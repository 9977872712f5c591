//! The placement that caches have obtained, and what drives report of it while they serve: for `/metrics`
//! (`families`), `/api/placement` and the page.

pub(super) mod families;
mod warnings;

use larder::plan::Why;
use larder::{HandleReport, Larder, StreamReport};
use larder_device::plan::{DriveUse, predicted_dlwa, separates_buckets};

use crate::config::OpenedDevice;
use crate::shared::ServerState;
use crate::tenant::Tenant;
pub(super) use warnings::warnings;

/// Bytes of a bucket of the small-object engine.
const BUCKET_BYTES: u64 = 4096;

/// The cache of a tenant on one device.
pub(super) struct TenantShard<'a> {
    pub(super) tenant: &'a str,
    /// The number of the device, from 0.
    pub(super) shard: usize,
    pub(super) cache: &'a Larder,
    opened: Option<&'a OpenedDevice>,
    streams: Vec<StreamReport>,
}

/// The caches of a tenant on flash.
pub(super) fn of_tenant<'a>(
    tenant: &'a Tenant,
    shared: &'a ServerState,
) -> impl Iterator<Item = TenantShard<'a>> {
    let caches = tenant.caches();
    let devices = known_devices(shared, caches.len());
    caches.into_iter().enumerate().map(move |(shard, cache)| {
        let is_own = |it: &StreamReport| {
            it.assignment.tenant.is_empty() || it.assignment.tenant == tenant.name()
        };
        TenantShard {
            tenant: tenant.name(),
            shard,
            cache,
            opened: devices.get(shard),
            streams: cache.stream_reports().into_iter().filter(is_own).collect(),
        }
    })
}

/// All tenants on all devices.
pub(super) fn all(shared: &ServerState) -> impl Iterator<Item = TenantShard<'_>> {
    shared.tenants.iter().flat_map(move |tenant| of_tenant(tenant, shared))
}

/// What the configuration says of the devices. Nothing, if a set has lost or gained one since: then the numbers of the
/// shards are no longer those of the configuration.
fn known_devices(shared: &ServerState, shards: usize) -> &[OpenedDevice] {
    let devices = shared.config.devices.as_slice();
    if devices.len() == shards { devices } else { &[] }
}

/// The placement handles of all drives, each once.
pub(super) fn handles(shared: &ServerState) -> Vec<HandleReport> {
    HandleReport::of_all(shared.tenants.iter().flat_map(|tenant| tenant.caches()))
}

impl TenantShard<'_> {
    pub(super) fn streams(&self) -> &[StreamReport] {
        &self.streams
    }

    /// Number of handles with which the tenant writes.
    pub(super) fn handles(&self) -> usize {
        let mut handles: Vec<_> = self.streams.iter().map(|it| it.assignment.handle).collect();
        handles.sort_unstable();
        handles.dedup();
        handles.len()
    }

    /// Whether the operator asked for placement.
    pub(super) fn is_expected(&self) -> bool {
        self.opened.is_some_and(|device| device.placement_expected)
    }

    /// The better placement paths of the device, and why they are unavailable.
    pub(super) fn missed(&self) -> &[String] {
        self.opened.map_or(&[], |device| &device.missed)
    }

    /// Why the stream has its handle and path, and not better ones.
    pub(super) fn reason(&self, stream: &StreamReport) -> String {
        let why = stream.assignment.why;
        match self.missed() {
            missed if missed.is_empty() || matches!(why, Why::Off | Why::Metadata) => {
                why.to_string()
            }
            missed => format!("{why} ({})", missed.join("; ")),
        }
    }
}

/// The write amplification that a formula predicts for the drive of a shard under the caches of all tenants. `None` if
/// the size of its flash is unknown, or nothing was written.
pub(super) fn predicted(shared: &ServerState, shard: usize) -> Option<f64> {
    let caches: Vec<_> = all(shared).filter(|it| it.shard == shard).collect();
    let flash_bytes = caches.first()?.opened?.flash_bytes?;
    let mut of = DriveUse { flash_bytes, ..DriveUse::default() };
    for one in &caches {
        let (Some(layout), stats) = (one.cache.layout(), one.cache.stats()) else { continue };
        of.used_bytes += layout.usable_bytes;
        of.soc_bytes += layout.soc_buckets * BUCKET_BYTES;
        of.written_bytes += stats.flash_written_bytes();
        // Pages by set are written in order, as large objects are.
        if layout.soc_buckets > 0 {
            of.soc_written_bytes += stats.soc_written_bytes;
        }
    }
    let streams = caches.iter().flat_map(|it| it.streams()).map(|it| &it.assignment);
    predicted_dlwa(&of, separates_buckets(streams))
}

/// The number of devices below each tenant.
pub(super) fn shards(shared: &ServerState) -> usize {
    shared.tenants.first().map_or(0, |tenant| tenant.caches().len())
}

/// The drive of a shard, if it has a single one that reports of itself.
pub(super) fn drive_of(shared: &ServerState, shard: usize) -> Option<String> {
    let cache = all(shared).find(|it| it.shard == shard)?.cache;
    match HandleReport::of_all([cache]).as_slice() {
        [first, others @ ..] if others.iter().all(|it| it.drive == first.drive) => {
            Some(first.drive.clone())
        }
        _ => None,
    }
}
