//! Cores that come while nobody is served, and which numbers they may have.

use std::sync::Arc;

use larder_device::Device;
use larder_device::label::{Kind, Labeller};

use super::Core;
use super::create::{check_core_lines, claim_all};
use super::front::{Seen, look};
use super::open::check_cores;
use super::stored::{StoredCache, StoredCore};
use crate::layout::CoreId;
use crate::{Error, ErrorKind};

/// Puts the cache on `device`, which does not run and has `known` for its cores, before `core` as well. Nothing is
/// cached of it yet, and it is left as it is. A calibration is forgotten: it says nothing of the new core.
///
/// # Errors
/// [`ErrorKind::Setup`] if there cannot be such a core, [`ErrorKind::Format`] if there is no cache,
/// [`ErrorKind::Device`]. The cache is what it was then.
pub async fn add_core(device: &Arc<dyn Device>, known: &[Core], core: &Core) -> Result<(), Error> {
    let all: Vec<Core> = known.iter().chain([core]).cloned().collect();
    let _claims = claim_all(device, &all)?;
    let Seen { uuid, generation, mut stored } = look(device).await?;
    check_cores(&stored, known)?;
    let (id, bytes) = (core.id, core.device.info().capacity_bytes);
    if let Some(complaint) = complaint(&stored, id) {
        return Err(Error::new(ErrorKind::Setup, complaint));
    }
    check_core_lines(core, stored.layout.line_bytes())?;
    stored.cores.push(StoredCore { id, name: core.name.clone(), bytes });
    stored.cores.sort_by_key(|core| core.id);
    stored.profile = None;
    let labeller = Labeller::new(Arc::clone(device), Kind::BlockCache, uuid, generation);
    let written = labeller.write(stored.encode()?).await;
    written.map_err(|error| Error::of_device("writing the label", &error))
}

/// Why no new core may have this number.
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
    /// The numbers that a core may have that comes now, the lowest first.
    pub fn free_cores(&self) -> impl Iterator<Item = CoreId> + '_ {
        let is_free = |id: &CoreId| self.cores.iter().all(|known| known.id != *id);
        (self.next_core..).map_while(CoreId::new).filter(is_free)
    }
}
