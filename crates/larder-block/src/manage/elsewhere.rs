//! Checks whether another cache has a device as its core, too.
//!
//! *Always:* only the content of the other cache device is trusted, and nothing is written to it, because that cache
//! may be running.

use std::collections::BTreeMap;
use std::sync::Arc;

use larder_device::label::Uuid;
use larder_device::{Device, Identity};

use super::checked::home;
use super::front::{CacheLabel, look};
use super::stored::{StoredCache, StoredCore};
use super::{Core, checked};
use crate::Error;
use crate::fingerprint::{self, Slot};
use crate::layout::CoreId;

/// The dirty data of a core in another cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirtyElsewhere {
    /// None, according to its label.
    Nothing,
    /// This number of sectors, according to its label.
    Sectors(u64),
    /// The label does not say: that cache runs, or its last stop was not orderly.
    Unknown,
}

/// A core that another cache also has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedElsewhere {
    /// The core in question.
    pub core: CoreId,
    /// Its name.
    pub name: String,
    /// The UUID of the other cache.
    pub cache: Uuid,
    /// Its number in the other cache.
    pub number: CoreId,
    /// Its dirty data in the other cache.
    pub dirty: DirtyElsewhere,
}

/// The given devices that are cores of the cache on `other`. Devices are compared by identity, or by fingerprint where
/// the system reports no identity. [`create`](super::create) looks only at its own device, so a program that knows of
/// other caches should call this first.
///
/// # Errors
/// [`ErrorKind::Format`](crate::ErrorKind::Format) if there is no cache on `other`;
/// [`ErrorKind::Device`](crate::ErrorKind::Device).
pub async fn cached_elsewhere(
    other: &Arc<dyn Device>,
    cores: &[Core],
) -> Result<Vec<CachedElsewhere>, Error> {
    let CacheLabel { uuid, stored, .. } = look(other).await?;
    let mut found = Vec::new();
    for known in &stored.cores {
        let slot = match home(other, uuid, known) {
            Some(home) => fingerprint::read(&home, known.id).await.ok().flatten(),
            None => None,
        };
        for core in cores {
            if is_same(core, known, slot.as_ref()).await {
                let (core, name) = (core.id, core.name.clone());
                let dirty = dirty(&stored, known.id);
                found.push(CachedElsewhere { core, name, cache: uuid, number: known.id, dirty });
            }
        }
    }
    Ok(found)
}

fn dirty(stored: &StoredCache, core: CoreId) -> DirtyElsewhere {
    // A cache that was formatted and never started is empty.
    let is_blank = stored.was_stopped && stored.layout.is_blank();
    match &stored.left {
        _ if stored.is_distrusted || is_blank => DirtyElsewhere::Nothing,
        None => DirtyElsewhere::Unknown,
        Some(left) => match left.iter().find(|(of, _)| *of == core) {
            Some((_, sectors)) if *sectors > 0 => DirtyElsewhere::Sectors(*sectors),
            _ => DirtyElsewhere::Nothing,
        },
    }
}

async fn is_same(core: &Core, known: &StoredCore, slot: Option<&Slot>) -> bool {
    let identity = &core.device.info().identity;
    let Some(slot) = slot else {
        return known.name == core.name && known.bytes == core.device.info().capacity_bytes;
    };
    let alone = BTreeMap::from([(known.id, slot.clone())]);
    let compared = checked::compare(core, known.id, &alone).await;
    if have_common_kind(&slot.identity, identity) {
        // The system reuses the inode of a deleted file: a file of which every block differs is another one.
        let is_replaced = compared.compared > 0 && compared.differing == compared.compared;
        return slot.identity.agrees(identity) && !is_replaced;
    }
    compared.distinguishing > 0 && compared.differing == 0
}

fn have_common_kind(one: &Identity, other: &Identity) -> bool {
    let kinds = |identity: &Identity| -> Vec<_> {
        identity.identifiers().iter().map(|identifier| identifier.kind).collect()
    };
    let others = kinds(other);
    kinds(one).iter().any(|kind| others.contains(kind))
}
