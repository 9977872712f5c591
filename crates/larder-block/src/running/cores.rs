//! The cores of a cache. They come and go while it runs.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use larder_device::Device;

use crate::fingerprint::Watch;
use crate::layout::CoreId;

/// A core of the cache.
#[derive(Clone)]
pub(super) struct BackingCore {
    pub(super) device: Arc<dyn Device>,
    /// Block size that clients see, unless the core's own blocks are larger. No cache device may have larger blocks.
    pub(super) block_bytes: u32,
    /// Maintains the fingerprint of the core on the cache device, if one is kept.
    pub(super) watch: Option<Arc<Watch>>,
}

/// All cores, by number.
pub(super) struct Cores(RwLock<BTreeMap<CoreId, BackingCore>>);

impl Cores {
    pub(super) fn new(cores: BTreeMap<CoreId, Arc<dyn Device>>, block_bytes: u32) -> Self {
        let behind = |(core, device)| (core, BackingCore { device, block_bytes, watch: None });
        Self(RwLock::new(cores.into_iter().map(behind).collect()))
    }

    pub(super) fn numbers(&self) -> Vec<CoreId> {
        self.read().keys().copied().collect()
    }

    pub(super) fn get(&self, core: CoreId) -> Option<BackingCore> {
        self.read().get(&core).cloned()
    }

    /// Whether core number `core` is this device. Another device may have taken the number of a removed core.
    pub(super) fn has(&self, core: CoreId, device: &Arc<dyn Device>) -> bool {
        self.read().get(&core).is_some_and(|behind| Arc::ptr_eq(&behind.device, device))
    }

    pub(super) fn insert(&self, core: CoreId, behind: BackingCore) {
        self.write().insert(core, behind);
    }

    /// Maintains the fingerprints of these cores, and stops maintaining all others.
    pub(super) fn watch(&self, watches: &BTreeMap<CoreId, Arc<Watch>>) {
        for (core, behind) in &mut *self.write() {
            behind.watch = watches.get(core).cloned();
        }
    }

    pub(super) fn remove(&self, core: CoreId) {
        self.write().remove(&core);
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<CoreId, BackingCore>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<CoreId, BackingCore>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
