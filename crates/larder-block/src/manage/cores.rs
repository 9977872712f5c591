//! Adds and drops cores while the cache is not served. Defines which numbers new cores may have.

use std::collections::BTreeMap;
use std::slice;
use std::sync::Arc;

use larder_device::Device;
use larder_device::label::{Kind, Labeller};

use super::Core;
use super::checked::watches;
use super::create::{check_core_lines, claim_all};
use super::front::{CacheLabel, look};
use super::open::check_cores;
use super::stored::{StoredCache, StoredCore};
use crate::layout::CoreId;
use crate::{Error, ErrorKind};

/// Adds `core` to the cache on `device`, which does not run and has the cores `known`. Nothing of the new core is
/// cached yet, and the core is not written. A calibration is discarded, because it says nothing about the new core.
///
/// # Errors
/// [`ErrorKind::Setup`] if such a core is impossible, [`ErrorKind::Format`] if there is no cache,
/// [`ErrorKind::Device`]. The cache is then unchanged.
pub async fn add_core(device: &Arc<dyn Device>, known: &[Core], core: &Core) -> Result<(), Error> {
    let all: Vec<Core> = known.iter().chain([core]).cloned().collect();
    let _claims = claim_all(device, &all)?;
    let CacheLabel { uuid, generation, mut stored } = look(device).await?;
    check_cores(&stored, known)?;
    let (id, bytes) = (core.id, core.device.info().capacity_bytes);
    if let Some(complaint) = complaint(&stored, id) {
        return Err(Error::new(ErrorKind::Setup, complaint));
    }
    check_core_lines(core, stored.layout.line_bytes())?;
    let place = stored.free_place();
    stored.cores.push(StoredCore { id, name: core.name.clone(), bytes, place });
    stored.cores.sort_by_key(|core| core.id);
    stored.profile = None;
    let content = stored.encode()?;
    let watches = watches(device, (uuid, &stored), slice::from_ref(core), &BTreeMap::new());
    for watch in watches.values() {
        let written = watch.refresh(&[]).await;
        written.map_err(|error| Error::of_device("writing a fingerprint", &error))?;
    }
    let labeller = Labeller::new(Arc::clone(device), Kind::BlockCache, uuid, generation);
    let written = labeller.write(content).await;
    written.map_err(|error| Error::of_device("writing the label", &error))
}

/// Drops a core of the cache on `device`, which does not run. Dirty data of the core is lost. For a core that will not
/// come back.
///
/// # Errors
/// [`ErrorKind::Setup`] if the cache has no such core or no other one, [`ErrorKind::Format`] if there is no cache,
/// [`ErrorKind::Device`].
pub async fn give_up(device: &Arc<dyn Device>, id: CoreId) -> Result<(), Error> {
    let _claims = claim_all(device, &[])?;
    let CacheLabel { uuid, generation, stored } = look(device).await?;
    let content = stored.without(id)?.encode()?;
    let labeller = Labeller::new(Arc::clone(device), Kind::BlockCache, uuid, generation);
    let written = labeller.write(content).await;
    written.map_err(|error| Error::of_device("writing the label", &error))
}

/// The reason why a new core cannot have this number.
pub(super) fn complaint(stored: &StoredCache, id: CoreId) -> Option<String> {
    let number = id.get();
    if stored.cores.iter().any(|known| known.id == id) {
        return Some(format!("core {number}: the cache has one of that number; give another"));
    }
    (number < stored.next_core).then(|| {
        format!(
            "core {number}: a core of that number may have been taken away, and what was cached of it lies there \
             still; give {} or more",
            stored.next_core
        )
    })
}

impl StoredCache {
    /// The content of the label without a core. Data of it on the cache device then belongs to no core.
    pub(super) fn without(&self, id: CoreId) -> Result<Self, Error> {
        let numbers: Vec<String> =
            self.cores.iter().map(|core| core.id.get().to_string()).collect();
        let (number, numbers) = (id.get(), numbers.join(", "));
        if self.cores.iter().all(|core| core.id != id) {
            let message = format!("core {number}: the cache has {numbers}; name one of these");
            return Err(Error::new(ErrorKind::Setup, message));
        }
        if self.cores.len() == 1 {
            let message = format!(
                "core {number} is the only one, and a cache has at least one: add another first, or have everything \
                 destaged and leave the cache"
            );
            return Err(Error::new(ErrorKind::Setup, message));
        }
        let mut next = self.clone();
        next.cores.retain(|core| core.id != id);
        next.left.iter_mut().for_each(|left| left.retain(|(core, _)| *core != id));
        next.next_core = next.next_core.max(number + 1);
        next.profile = None;
        Ok(next)
    }

    /// The numbers that a new core may have, ascending.
    pub fn free_cores(&self) -> impl Iterator<Item = CoreId> + '_ {
        let is_free = |id: &CoreId| self.cores.iter().all(|known| known.id != *id);
        (self.next_core..).map_while(CoreId::new).filter(is_free)
    }
}
