//! What all workers know of scripts: their sources, by tenant, which of them run, and their limits.

mod cache;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use slab::Slab;

use self::cache::ScriptCache;
use crate::account::Account;
use crate::config::ServerConfig;

/// SHA-1 of a source, in hexadecimal digits of lower case.
pub(crate) type ScriptName = [u8; 40];

/// The scripts of all tenants.
pub(crate) struct Scripts {
    tenants: Vec<TenantScripts>,
    time_limit_micros: AtomicU64,
    memory_bytes_max: AtomicUsize,
}

#[derive(Default)]
struct TenantScripts {
    cache: Mutex<ScriptCache>,
    running: Mutex<Slab<Arc<AtomicBool>>>,
}

/// A script that runs, until this is dropped.
pub(crate) struct RunningScript<'a> {
    of: &'a TenantScripts,
    place: usize,
    is_stopped: Arc<AtomicBool>,
}

impl Scripts {
    pub(crate) fn new(tenants: usize, config: &ServerConfig) -> Self {
        let this = Self {
            tenants: (0..tenants).map(|_| TenantScripts::default()).collect(),
            time_limit_micros: AtomicU64::new(0),
            memory_bytes_max: AtomicUsize::new(0),
        };
        this.set_limits(config);
        this
    }

    /// Takes over the limits of `config`, for scripts that begin from now on.
    pub(crate) fn set_limits(&self, config: &ServerConfig) {
        let micros = u64::try_from(config.script_time_limit.as_micros()).unwrap_or(u64::MAX);
        self.time_limit_micros.store(micros, Ordering::Relaxed);
        self.memory_bytes_max.store(config.script_bytes_max, Ordering::Relaxed);
    }

    /// How long a script may run.
    pub(crate) fn time_limit(&self) -> Duration {
        Duration::from_micros(self.time_limit_micros.load(Ordering::Relaxed))
    }

    /// Bytes of memory that a script may use.
    pub(crate) fn memory_bytes_max(&self) -> usize {
        self.memory_bytes_max.load(Ordering::Relaxed)
    }

    fn cache(&self, tenant: usize) -> MutexGuard<'_, ScriptCache> {
        self.tenants[tenant].cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The source of the tenant's script `name`.
    pub(crate) fn find(&self, tenant: usize, name: &ScriptName) -> Option<Arc<[u8]>> {
        self.cache(tenant).find(name)
    }

    /// Whether the tenant has this script.
    pub(crate) fn has(&self, tenant: usize, name: &ScriptName) -> bool {
        self.cache(tenant).has(name)
    }

    /// Keeps a script for the tenant. `false` if there is no memory for it.
    pub(crate) fn keep(
        &self,
        account: &Arc<Account>,
        tenant: usize,
        name: &ScriptName,
        source: &[u8],
    ) -> bool {
        self.cache(tenant).keep(name, source, || account.keep(account.tenant(tenant)))
    }

    /// Forgets the tenant's scripts.
    pub(crate) fn forget(&self, tenant: usize) {
        *self.cache(tenant) = ScriptCache::default();
    }

    /// The tenant's scripts, and the bytes that they take.
    pub(crate) fn kept(&self, tenant: usize) -> (usize, usize) {
        let cache = self.cache(tenant);
        (cache.len(), cache.bytes())
    }

    /// A script of the tenant begins.
    pub(crate) fn begins(&self, tenant: usize) -> RunningScript<'_> {
        let of = &self.tenants[tenant];
        let is_stopped = Arc::<AtomicBool>::default();
        let place = of.running().insert(Arc::clone(&is_stopped));
        RunningScript { of, place, is_stopped }
    }

    /// Stops the scripts of the tenant that run. `false` if there are none.
    pub(crate) fn stop(&self, tenant: usize) -> bool {
        let running = self.tenants[tenant].running();
        running.iter().for_each(|(_, is_stopped)| is_stopped.store(true, Ordering::Relaxed));
        !running.is_empty()
    }
}

impl TenantScripts {
    fn running(&self) -> MutexGuard<'_, Slab<Arc<AtomicBool>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunningScript<'_> {
    /// Whether a client has stopped it.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }
}

impl Drop for RunningScript<'_> {
    fn drop(&mut self) {
        self.of.running().remove(self.place);
    }
}
