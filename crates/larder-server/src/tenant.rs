//! A tenant: its keys and the caches that hold them.

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};

use larder::{
    AnyRoute, DriveLife, Error, EstimatedItems, Larder, RemovalListener, Route, Routed, ScanPage,
    Shards, Stats, Tenants,
};

use crate::databases::Databases;
use crate::policy::TenantPolicy;
use crate::rates::Rates;

/// A cursor of one cache has this number of bits; the bits above are the number of the cache.
const CURSOR_BITS: u32 = 56;

/// The caches of all tenants.
pub(crate) enum Caches {
    /// On one device, or in DRAM only.
    One(Tenants<Larder>),
    /// On several devices.
    Sharded(Tenants<Shards>),
}

/// A delayed flush of all keys. A newer plan replaces the older one.
#[derive(Default)]
struct FlushPlan {
    number: u64,
    /// Waker of the task that waits for the flush.
    waker: Option<Waker>,
}

/// A tenant: its keys and the caches that hold them.
pub(crate) struct Tenant {
    /// Its index among all tenants.
    pub(crate) number: usize,
    name: String,
    caches: AnyRoute,
    flush: Mutex<FlushPlan>,
    /// Requests of this tenant that name many keys run one at a time, across all workers.
    pub(crate) turn: Arc<async_lock::Mutex<()>>,
    /// Its rate limits.
    pub(crate) rates: Rates,
    weight: AtomicU16,
    /// Its databases.
    pub(crate) databases: Databases,
}

/// Calls for keys, wherever the keys are.
pub(crate) type Calls<'a> = Routed<&'a AnyRoute>;

impl Caches {
    /// All tenants, in the order in which they were configured. Keys of database `plain_database` have their own names.
    pub(crate) fn tenants(&self, plain_database: u8) -> Result<Vec<Arc<Tenant>>, Error> {
        let names: Vec<String> = match self {
            Self::One(tenants) => tenants.iter().map(|(name, _)| name.to_owned()).collect(),
            Self::Sharded(tenants) => tenants.iter().map(|(name, _)| name.to_owned()).collect(),
        };
        let tenant = |(number, name): (usize, String)| {
            let caches = match self {
                Self::One(tenants) => AnyRoute::One(tenants.tenant_shared(&name)?),
                Self::Sharded(tenants) => AnyRoute::Shards(tenants.tenant_shared(&name)?),
            };
            Ok(Arc::new(Tenant {
                number,
                name,
                caches,
                flush: Mutex::default(),
                turn: Arc::default(),
                rates: Rates::default(),
                weight: AtomicU16::new(1),
                databases: Databases::new(plain_database),
            }))
        };
        names.into_iter().enumerate().map(tenant).collect()
    }

    /// Gives all caches together another memory budget; where only DRAM has a budget, sets that.
    pub(crate) fn set_memory_bytes(&self, bytes: u64) {
        match self {
            Self::One(tenants) if !tenants.set_memory_bytes(bytes) => tenants.set_dram_bytes(bytes),
            Self::Sharded(tenants) if !tenants.set_memory_bytes(bytes) => {
                tenants.set_dram_bytes(bytes);
            }
            Self::One(_) | Self::Sharded(_) => {}
        }
    }

    /// Rebuilds the index of what an earlier run left on flash.
    pub(crate) async fn rebuild(&self) {
        match self {
            Self::One(tenants) => tenants.rebuild().await,
            Self::Sharded(tenants) => tenants.rebuild().await,
        };
    }

    /// How long the drive that all tenants share will last, if its rating is known; of several drives, the first to
    /// end.
    pub(crate) fn drive_life(&self) -> Option<DriveLife> {
        match self {
            Self::One(tenants) => tenants.drive_life(),
            Self::Sharded(tenants) => tenants.drive_life(),
        }
    }

    /// Closes all caches, so that the next start continues with their contents.
    pub(crate) async fn close(&self, within: std::time::Duration) -> Result<Stats, Error> {
        match self {
            Self::One(tenants) => tenants.close_within(within).await,
            Self::Sharded(tenants) => tenants.close_within(within).await,
        }
    }
}

impl Tenant {
    /// Replaces its policy; the prefix is not looked at.
    pub(crate) fn set_policy(&self, policy: &TenantPolicy) {
        self.rates.set(policy);
        self.weight.store(policy.weight, Ordering::Relaxed);
    }

    /// Its share of turns relative to other tenants.
    pub(crate) fn weight(&self) -> u16 {
        self.weight.load(Ordering::Relaxed)
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Calls for its keys.
    pub(crate) fn calls(&self) -> Calls<'_> {
        Routed::new(&self.caches)
    }

    /// Whether its keys may be on flash.
    pub(crate) fn has_flash(&self) -> bool {
        self.caches().iter().any(|cache| cache.layout().is_some())
    }

    /// Its shards, if there are several.
    pub(crate) fn shards(&self) -> Option<&Shards> {
        match &self.caches {
            AnyRoute::One(_) => None,
            AnyRoute::Shards(shards) => Some(shards),
        }
    }

    /// All caches that hold its keys.
    pub(crate) fn caches(&self) -> Vec<&Larder> {
        self.caches.caches().collect()
    }

    /// The counters of all its caches together.
    pub(crate) fn stats(&self) -> Stats {
        self.calls().stats()
    }

    /// Starts a plan to flush all keys later and returns its number. The previous plan is cancelled and its task is
    /// woken, so clients can never make more than one task wait.
    pub(crate) fn plans_flush(&self) -> u64 {
        let mut plan = self.flush.lock().unwrap_or_else(PoisonError::into_inner);
        plan.number += 1;
        if let Some(waker) = plan.waker.take() {
            waker.wake();
        }
        plan.number
    }

    /// Whether the plan `number` is still the newest. If so, the task is woken when another plan replaces it.
    pub(crate) fn still_plans(&self, number: u64, cx: &Context<'_>) -> bool {
        let mut plan = self.flush.lock().unwrap_or_else(PoisonError::into_inner);
        if plan.number == number {
            plan.waker = Some(cx.waker().clone());
        }
        plan.number == number
    }

    /// A page of a walk over all keys, as [`Larder::scan_from`].
    pub(crate) async fn scan_from(&self, cursor: u64, count: usize) -> Result<ScanPage, Error> {
        self.calls().scan_from(cursor, count).await
    }

    /// A random cursor of such a walk.
    pub(crate) fn random_cursor(&self) -> u64 {
        let caches = u64::try_from(self.caches().len()).unwrap_or(1);
        fastrand::u64(..caches << CURSOR_BITS)
    }

    /// Memory that its caches may use now, in bytes.
    pub(crate) fn memory_limit_bytes(&self) -> u64 {
        self.calls().memory_limit_bytes()
    }

    /// Estimated number of keys.
    pub(crate) fn estimated_len(&self) -> u64 {
        self.calls().estimated_len()
    }

    /// Estimated number of keys, by where they are and whether they have a lifetime.
    pub(crate) fn estimated_items(&self) -> EstimatedItems {
        self.calls().estimated_items()
    }

    /// What leaves its caches is told to `listener`, or to no one.
    pub(crate) fn set_removal_listener(&self, listener: Option<RemovalListener>) {
        self.calls().set_removal_listener(listener);
    }

    /// Forgets all keys.
    pub(crate) async fn clear(&self) -> Result<(), Error> {
        self.calls().clear().await
    }
}
