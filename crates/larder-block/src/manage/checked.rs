//! Checks that the given devices are the cores of the cache, by their identities and their fingerprints.
//!
//! *Always:* nothing is written before this check. What cannot be compared is reported: a fingerprint that is missing,
//! or that fits any device, is no reason to refuse a device, and no proof that it is the right one.

use std::collections::BTreeMap;
use std::sync::Arc;

use larder_device::label::{AREA_BYTES, Uuid};
use larder_device::{Device, Identifier, IdentifierKind, Identity};

use super::Core;
use super::front::CacheLabel;
use super::stored::{StoredCache, StoredCore};
use crate::fingerprint::{self, DeviceComparison, Entry, Home, Slot, Watch};
use crate::layout::CoreId;
use crate::{Error, ErrorKind};

/// A core, compared with what the cache knows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedCore {
    /// Its number.
    pub id: CoreId,
    /// The device that was given, by its name.
    pub name: String,
    /// The comparison of its blocks.
    pub compared: DeviceComparison,
    /// The UUID of the file system on it, as `blkid` prints it, if a known file system is found.
    pub file_system: Option<String>,
    /// How its identity differs from the known one, although no block differs.
    pub note: Option<String>,
}

impl CheckedCore {
    /// A warning for people if the check is inconclusive; `None` if everything known matches.
    pub fn warning(&self) -> Option<String> {
        let Self { id, name, compared, .. } = self;
        let number = id.get();
        let what = match compared {
            DeviceComparison { compared: 0, .. } => "no block was compared with it",
            DeviceComparison { differing: 0, distinguishing: 0, .. } => {
                "the blocks that were compared are the same on other devices"
            }
            _ => return None,
        };
        Some(format!(
            "core {number} ({name}): {what}, so nothing says that this is the device that the cache knows"
        ))
    }
}

impl CheckedCore {
    /// Describes how many of its blocks differ, and what else is known.
    fn difference(&self, slots: &BTreeMap<CoreId, Slot>, owner: Option<CoreId>) -> String {
        let Self { id, name, compared, file_system, .. } = self;
        let of_owner = owner.map(|owner| format!(", and it has those of core {}", owner.get()));
        let known =
            slots.get(id).and_then(|slot| slot.identity.of_kind(IdentifierKind::FileSystem));
        let system = match (known, file_system) {
            (Some(was), Some(is)) if was.value != *is => format!("; it had {was} and has {is}"),
            (Some(was), None) => format!("; it had {was} and has none"),
            _ => String::new(),
        };
        format!(
            "core {} ({name}): of {} blocks of its fingerprint {} differ{}{system}",
            id.get(),
            compared.compared,
            compared.differing,
            of_owner.unwrap_or_default()
        )
    }
}

/// The comparison of all given cores.
#[derive(Clone, Default)]
pub(super) struct FingerprintCheck {
    pub(super) cores: Vec<CheckedCore>,
    /// The stored fingerprints of all cores, including missing ones.
    pub(super) slots: BTreeMap<CoreId, Slot>,
    /// Places of fingerprints that could not be read.
    unreadable: Vec<Home>,
}

impl FingerprintCheck {
    /// Clears the fingerprints that could not be read. They are no longer updated, so a later start must not find
    /// them.
    pub(super) async fn clear_unreadable(&self) -> Result<(), Error> {
        for home in &self.unreadable {
            let cleared = home.clear().await;
            cleared.map_err(|error| {
                Error::of_device("a fingerprint that can be neither read nor written", &error)
            })?;
        }
        Ok(())
    }

    pub(super) fn differing(&self) -> impl Iterator<Item = &CheckedCore> {
        self.cores.iter().filter(|core| core.compared.differing > 0)
    }

    /// Describes for people which cores differ, and by how much.
    pub(super) fn complaint(&self) -> Option<String> {
        let of = |core: &CheckedCore| core.difference(&self.slots, None);
        let all: Vec<String> = self.differing().map(of).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

/// The place of the fingerprint of a core. `None` if there was no room for it.
pub(super) fn home(device: &Arc<dyn Device>, uuid: Uuid, core: &StoredCore) -> Option<Home> {
    let place = core.place?;
    let offset = AREA_BYTES + fingerprint::area_bytes(place);
    Some(Home { device: Arc::clone(device), uuid, offset })
}

/// The stored identities of the cores of the cache on `device`, as far as they can be read.
pub async fn known_by(device: &Arc<dyn Device>, seen: &CacheLabel) -> BTreeMap<CoreId, Identity> {
    let mut known_by = BTreeMap::new();
    for core in &seen.stored.cores {
        let Some(home) = home(device, seen.uuid, core) else { continue };
        if let Ok(Some(slot)) = fingerprint::read(&home, core.id).await {
            known_by.insert(core.id, slot.identity);
        }
    }
    known_by
}

/// Begins to maintain the fingerprints of these cores.
pub(super) fn watches(
    device: &Arc<dyn Device>,
    (uuid, stored): (Uuid, &StoredCache),
    cores: &[Core],
    slots: &BTreeMap<CoreId, Slot>,
) -> BTreeMap<CoreId, Arc<Watch>> {
    let of = |core: &Core| {
        let known = stored.cores.iter().find(|known| known.id == core.id)?;
        let slot = slots.get(&core.id).filter(|slot| slot.uuid == uuid).cloned();
        let before = slot.as_ref().map(|slot| slot.identity.clone());
        let home = home(device, uuid, known)?;
        let watch = Watch::new(home, core.id, Arc::clone(&core.device), slot);
        if let Some(before) = before {
            watch.is_known_by(&before);
        }
        Some((core.id, Arc::new(watch)))
    };
    cores.iter().filter_map(of).collect()
}

/// Compares the given cores with what is stored. `force`: cores that are accepted as they are.
///
/// # Errors
/// [`ErrorKind::Changed`] if a core is another device.
pub(super) async fn check(
    device: &Arc<dyn Device>,
    (uuid, stored): (Uuid, &StoredCache),
    cores: &[Core],
    force: &[CoreId],
) -> Result<FingerprintCheck, Error> {
    let mut checked = FingerprintCheck::default();
    for known in &stored.cores {
        let Some(home) = home(device, uuid, known) else { continue };
        match fingerprint::read(&home, known.id).await {
            Ok(Some(slot)) => drop(checked.slots.insert(known.id, slot)),
            Ok(None) => {}
            Err(_) => checked.unreadable.push(home),
        }
    }
    for core in cores {
        let one = check_core(core, &checked.slots).await;
        checked.cores.push(one);
    }
    for (core, one) in cores.iter().zip(&checked.cores) {
        if !force.contains(&core.id)
            && let Some(reason) = other_device(core, one, &checked.slots)
        {
            return Err(refusal(&reason, stored, cores, &checked.slots).await);
        }
    }
    // Its blocks differ, and match those of another core: cores were swapped.
    for core in checked.differing().filter(|core| !force.contains(&core.id)) {
        let Some(given) = cores.iter().find(|given| given.id == core.id) else { continue };
        if let Some(owner) = owner(given, &checked.slots).await.filter(|owner| *owner != core.id) {
            let reason = core.difference(&checked.slots, Some(owner));
            return Err(refusal(&reason, stored, cores, &checked.slots).await);
        }
    }
    Ok(checked)
}

async fn check_core(core: &Core, slots: &BTreeMap<CoreId, Slot>) -> CheckedCore {
    let (id, name) = (core.id, core.name.clone());
    let file_system = fingerprint::file_system(&core.device).await.map(|found| found.value);
    let Some(slot) = slots.get(&id) else {
        return CheckedCore {
            id,
            name,
            compared: DeviceComparison::default(),
            file_system,
            note: None,
        };
    };
    let compared = compare(core, id, slots).await;
    let identity = &core.device.info().identity;
    let differing = slot.identity.differing(identity).map(said);
    let differing: Vec<String> = differing.collect();
    let note = (!differing.is_empty() && compared.differing == 0).then(|| {
        format!(
            "core {} ({name}): {}; {} blocks that were compared are the same",
            id.get(),
            differing.join(", "),
            compared.compared
        )
    });
    CheckedCore { id, name, compared, file_system, note }
}

fn said((was, is): (&Identifier, &Identifier)) -> String {
    format!("it was known by {was} and has {is}")
}

/// Compares a device with the fingerprint of core `of`.
pub(super) async fn compare(
    core: &Core,
    of: CoreId,
    slots: &BTreeMap<CoreId, Slot>,
) -> DeviceComparison {
    let Some(slot) = slots.get(&of) else { return DeviceComparison::default() };
    let is_of_others =
        |entry: &Entry| slots.iter().any(|(id, other)| *id != of && other.entries.contains(entry));
    fingerprint::compare(&core.device, &slot.entries, is_of_others).await
}

/// The reason why a device cannot be the given core, judged by its identity.
fn other_device(
    core: &Core,
    checked: &CheckedCore,
    slots: &BTreeMap<CoreId, Slot>,
) -> Option<String> {
    let slot = slots.get(&core.id)?;
    let identity = &core.device.info().identity;
    let number = core.id.get();
    let strong = slot.identity.differing(identity).find(|(was, _)| was.kind.is_strong());
    if let Some(pair) = strong {
        return Some(format!("core {number} ({}): another device: {}", core.name, said(pair)));
    }
    let pair = slot.identity.differing(identity).next()?;
    // No block identifies it as this core, and its identity is that of another core.
    let has_nothing = checked.compared.distinguishing == 0;
    let owner = slots.iter().find(|(_, slot)| slot.identity.agrees(identity));
    let (owner, _) = owner.filter(|(id, _)| has_nothing && **id != core.id)?;
    Some(format!(
        "core {number} ({}): {}, as core {} had; no block that was compared speaks for it",
        core.name,
        said(pair),
        owner.get()
    ))
}

/// The core to which the device belongs, if that can be determined.
async fn owner(given: &Core, slots: &BTreeMap<CoreId, Slot>) -> Option<CoreId> {
    for (id, slot) in slots {
        if slot.core_bytes != given.device.info().capacity_bytes {
            continue;
        }
        let identity = &given.device.info().identity;
        let differs = slot.identity.differing(identity).any(|(was, _)| was.kind.is_strong());
        let compared = compare(given, *id, slots).await;
        let agrees = compared.distinguishing > 0 || slot.identity.agrees(identity);
        if !differs && agrees && compared.differing == 0 {
            return Some(*id);
        }
    }
    None
}

/// The error: what is wrong, and which given device belongs to which core.
async fn refusal(
    reason: &str,
    stored: &StoredCache,
    cores: &[Core],
    slots: &BTreeMap<CoreId, Slot>,
) -> Error {
    let mut right = Vec::new();
    for core in cores {
        if let Some(owner) = owner(core, slots).await {
            let system = fingerprint::file_system(&core.device).await;
            let system = system.map(|found| format!(" ({found})")).unwrap_or_default();
            right.push((owner, format!("{}={}{system}", owner.get(), core.name)));
        }
    }
    right.sort();
    let is_found = |known: &StoredCore| right.iter().any(|(owner, _)| *owner == known.id);
    let lost = stored.cores.iter().filter(|known| !is_found(known));
    let lost: Vec<String> = lost
        .map(|known| {
            let slot = slots.get(&known.id);
            let system = slot.and_then(|slot| slot.identity.of_kind(IdentifierKind::FileSystem));
            let system = system.map(|was| format!(", {was}")).unwrap_or_default();
            format!("core {} ({}{system})", known.id.get(), known.name)
        })
        .collect();
    let right: Vec<String> = right.into_iter().map(|(_, text)| text).collect();
    let found = match (right.is_empty(), lost.is_empty()) {
        (true, _) => "none of the devices is known as a core".to_owned(),
        (false, true) => format!("by what they have they are {}", right.join(", ")),
        (false, false) => {
            format!("by what they have they are {}; none is {}", right.join(", "), lost.join(", "))
        }
    };
    let message = format!(
        "{reason}. Nothing was written; {found}. Say where each core is, or have a device taken for a core as it is"
    );
    Error::new(ErrorKind::Changed, message)
}
