//! `/api/placement`: which stream of which tenant writes with which placement handle, and why.

use larder::Larder;
use larder::plan::Assignment;
use serde::Serialize;

use crate::shared::ServerState;
use crate::tenant::Tenant;

#[derive(Serialize)]
pub(super) struct Placement {
    tenants: Vec<TenantPlacement>,
}

#[derive(Serialize)]
struct TenantPlacement {
    name: String,
    /// One for each device.
    shards: Vec<ShardPlacement>,
}

#[derive(Serialize)]
struct ShardPlacement {
    /// The placement mechanism of the device: "none" if it has none; `null` without flash.
    path: Option<String>,
    flash_bytes: u64,
    streams: Vec<Stream>,
}

#[derive(Serialize)]
struct Stream {
    stream: String,
    handle: u16,
    /// Streams that write with the same handle, each after the name of its tenant.
    shared_with: Vec<String>,
    why: String,
    write_share: f64,
    lifetime_s: Option<f64>,
}

pub(super) fn of(shared: &ServerState) -> Placement {
    let of_tenant = |tenant: &Tenant| TenantPlacement {
        name: tenant.name().to_owned(),
        shards: tenant.caches().into_iter().map(|cache| shard(cache, tenant.name())).collect(),
    };
    Placement { tenants: shared.tenants.iter().map(|tenant| of_tenant(tenant)).collect() }
}

fn shard(cache: &Larder, tenant: &str) -> ShardPlacement {
    let path = cache.layout().map(|_| cache.stats().placement_path.to_owned());
    ShardPlacement {
        path,
        flash_bytes: cache.layout().map_or(0, |layout| layout.usable_bytes),
        streams: own_streams(cache, tenant).map(stream).collect(),
    }
}

/// The streams of one tenant, from a plan that may include other tenants' streams.
pub(in crate::admin) fn own_streams<'a>(
    cache: &'a Larder,
    tenant: &'a str,
) -> impl Iterator<Item = &'a Assignment> {
    let all = cache.placement().streams().iter();
    all.filter(move |stream| stream.tenant.is_empty() || stream.tenant == tenant)
}

fn stream(stream: &Assignment) -> Stream {
    let named = |(tenant, class): &(String, larder::plan::Class)| format!("{tenant} {class}");
    Stream {
        stream: stream.class.to_string(),
        handle: stream.handle.index(),
        shared_with: stream.shared_with.iter().map(named).collect(),
        why: stream.why.to_string(),
        write_share: stream.write_share,
        lifetime_s: stream.lifetime.map(|lifetime| lifetime.as_secs_f64()),
    }
}
