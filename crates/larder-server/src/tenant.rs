//! A tenant: whose keys they are, and where they lie.

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};

use larder::{
    AnyRoute, DriveLife, Error, EstimatedItems, Larder, Route, Routed, ScanPage, Shards, Stats,
    Tenants,
};

use crate::policy::TenantPolicy;
use crate::rates::Rates;

/// Cursors of a cache have so many bits, and above them is the number of the cache.
const CURSOR_BITS: u32 = 56;

/// The caches of all tenants.
pub(crate) enum Caches {
    /// On one device, or in DRAM only.
    One(Tenants<Larder>),
    /// On several devices.
    Sharded(Tenants<Shards>),
}

/// When all keys are to be forgotten: what was said last counts.
#[derive(Default)]
struct FlushPlan {
    number: u64,
    /// Of the task that waits for it.
    waker: Option<Waker>,
}

/// See the module.
pub(crate) struct Tenant {
    /// Its place among all tenants.
    pub(crate) number: usize,
    name: String,
    caches: AnyRoute,
    flush: Mutex<FlushPlan>,
    /// Whose requests of many keys are done one after the other, whichever worker they come from.
    pub(crate) turn: Arc<async_lock::Mutex<()>>,
    /// What its requests are held to.
    pub(crate) rates: Rates,
    weight: AtomicU16,
}

/// The calls of keys, wherever these lie.
pub(crate) type Calls<'a> = Routed<&'a AnyRoute>;

impl Caches {
    /// All tenants, in the order in which they were configured.
    pub(crate) fn tenants(&self) -> Result<Vec<Arc<Tenant>>, Error> {
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
            }))
        };
        names.into_iter().enumerate().map(tenant).collect()
    }

    /// Gives all caches together another budget of memory; of DRAM, where only that has one.
    pub(crate) fn set_memory_bytes(&self, bytes: u64) {
        match self {
            Self::One(tenants) if !tenants.set_memory_bytes(bytes) => tenants.set_dram_bytes(bytes),
            Self::Sharded(tenants) if !tenants.set_memory_bytes(bytes) => {
                tenants.set_dram_bytes(bytes);
            }
            Self::One(_) | Self::Sharded(_) => {}
        }
    }

    /// Finds again what an earlier run has left on flash.
    pub(crate) async fn rebuild(&self) {
        match self {
            Self::One(tenants) => tenants.rebuild().await,
            Self::Sharded(tenants) => tenants.rebuild().await,
        };
    }

    /// How long the drive lasts that all of them share, if its rating is known; of several, the one that ends first.
    pub(crate) fn drive_life(&self) -> Option<DriveLife> {
        match self {
            Self::One(tenants) => tenants.drive_life(),
            Self::Sharded(tenants) => tenants.drive_life(),
        }
    }

    /// Closes all caches, and goes on with what they hold when they are opened again.
    pub(crate) async fn close(&self, within: std::time::Duration) -> Result<Stats, Error> {
        match self {
            Self::One(tenants) => tenants.close_within(within).await,
            Self::Sharded(tenants) => tenants.close_within(within).await,
        }
    }
}

impl Tenant {
    /// What it may do from now on; its prefix is not looked at.
    pub(crate) fn set_policy(&self, policy: &TenantPolicy) {
        self.rates.set(policy);
        self.weight.store(policy.weight, Ordering::Relaxed);
    }

    /// How often it gets what is given out by turns, beside others.
    pub(crate) fn weight(&self) -> u16 {
        self.weight.load(Ordering::Relaxed)
    }

    /// What it is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Calls of its keys.
    pub(crate) fn calls(&self) -> Calls<'_> {
        Routed::new(&self.caches)
    }

    /// Its shards, if there are several.
    pub(crate) fn shards(&self) -> Option<&Shards> {
        match &self.caches {
            AnyRoute::One(_) => None,
            AnyRoute::Shards(shards) => Some(shards),
        }
    }

    /// All caches that its keys are in.
    pub(crate) fn caches(&self) -> Vec<&Larder> {
        self.caches.caches().collect()
    }

    /// The counters of all of them together.
    pub(crate) fn stats(&self) -> Stats {
        self.calls().stats()
    }

    /// All keys are to be forgotten later, by the plan of this number. The plan before it is given up, and its task is
    /// woken: no client makes more than one wait.
    pub(crate) fn plans_flush(&self) -> u64 {
        let mut plan = self.flush.lock().unwrap_or_else(PoisonError::into_inner);
        plan.number += 1;
        if let Some(waker) = plan.waker.take() {
            waker.wake();
        }
        plan.number
    }

    /// Whether no other plan was made since the one of this number. If not, the task is woken when one is.
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

    /// A cursor of such a walk, anywhere.
    pub(crate) fn random_cursor(&self) -> u64 {
        let caches = u64::try_from(self.caches().len()).unwrap_or(1);
        fastrand::u64(..caches << CURSOR_BITS)
    }

    /// Memory that its caches may take now, in bytes.
    pub(crate) fn memory_limit_bytes(&self) -> u64 {
        self.calls().memory_limit_bytes()
    }

    /// How many keys there are, about.
    pub(crate) fn estimated_len(&self) -> u64 {
        self.calls().estimated_len()
    }

    /// The same, by where they are and whether they have a lifetime.
    pub(crate) fn estimated_items(&self) -> EstimatedItems {
        self.calls().estimated_items()
    }

    /// Forgets all keys.
    pub(crate) async fn clear(&self) -> Result<(), Error> {
        self.calls().clear().await
    }
}
