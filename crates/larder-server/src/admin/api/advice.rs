//! `/api/advice`: which settings would serve the observed load of each tenant better.

use larder::FlashLoad;
use larder::advice::{Advice, Choice, Situation, advise};
use serde::Serialize;

use crate::shared::ServerState;
use crate::tenant::Tenant;

#[derive(Serialize)]
pub(super) struct AllAdvice {
    tenants: Vec<TenantAdvice>,
}

#[derive(Serialize)]
struct TenantAdvice {
    name: String,
    /// Objects that DRAM evicted and flash could take.
    objects: u64,
    flash_bytes: u64,
    memory_bytes: u64,
    load: Load,
    /// `null` if too few objects were seen, or there is no flash.
    advice: Option<Advised>,
}

#[derive(Serialize)]
struct Load {
    sizes: Vec<Class>,
    lifetimes: Vec<Class>,
}

/// Objects of a class, which ends at this size in bytes or lifetime in seconds; `null` for objects that never expire.
#[derive(Serialize)]
struct Class {
    up_to: Option<u64>,
    objects: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Advised {
    choices: Vec<Engines>,
    best: usize,
    why: String,
    hints: Vec<String>,
}

#[derive(Serialize)]
struct Engines {
    soc_percent: f64,
    /// `null` if all objects are in the log.
    soc_layout: Option<String>,
    soc_max_object_bytes: u64,
    memory_bytes: u64,
    alwa: f64,
    written_bytes_per_day: u64,
    is_current: bool,
}

pub(super) fn of(shared: &ServerState) -> AllAdvice {
    AllAdvice { tenants: shared.tenants.iter().map(|tenant| of_tenant(tenant)).collect() }
}

fn of_tenant(tenant: &Tenant) -> TenantAdvice {
    let each = tenant.caches().into_iter().filter_map(larder::Larder::situation);
    let all = each.reduce(|one, other| one.and(&other)).unwrap_or_default();
    let Situation { flash_bytes, memory_bytes, ref load, .. } = all;
    TenantAdvice {
        name: tenant.name().to_owned(),
        objects: load.objects(),
        flash_bytes,
        memory_bytes,
        load: load_of(load),
        advice: advise(&all).map(advised),
    }
}

fn load_of(load: &FlashLoad) -> Load {
    let size = load.sizes.iter().map(|it| (Some(it.up_to_bytes), it.objects, it.bytes));
    let lifetime = load.lifetimes.iter().map(|it| (it.up_to_seconds, it.objects, it.bytes));
    let class = |(up_to, objects, bytes)| Class { up_to, objects, bytes };
    Load { sizes: size.map(class).collect(), lifetimes: lifetime.map(class).collect() }
}

fn advised(advice: Advice) -> Advised {
    let engines = |of: &Choice| Engines {
        soc_percent: of.soc_percent,
        soc_layout: of.soc_layout.map(|layout| layout.to_string()),
        soc_max_object_bytes: of.soc_max_object_bytes,
        memory_bytes: of.memory_bytes,
        alwa: of.alwa,
        written_bytes_per_day: of.written_bytes_per_day,
        is_current: of.is_current,
    };
    let Advice { choices, best, why, hints, .. } = advice;
    Advised { choices: choices.iter().map(engines).collect(), best, why, hints }
}
