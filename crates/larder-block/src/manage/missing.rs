//! Missing cores of a cache.
//!
//! A cache starts without them. The other cores are served, and the dirty data of the missing ones stays on the cache
//! device. It is neither destaged nor evicted until the core is attached, or dropped by its number.

use super::Core;
use super::checked::{self, watches};
use super::create::claim;
use super::open::{OpenCache, check_length};
use super::stored::StoredCore;
use crate::layout::{CoreId, SECTOR_BYTES};
use crate::{Error, ErrorKind};

/// A missing core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingCore {
    /// Its number.
    pub id: CoreId,
    /// Its name when it was last present.
    pub name: String,
    /// Its dirty bytes in the cache, among the loaded data.
    pub dirty_bytes: u64,
}

impl std::fmt::Display for MissingCore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { id, name, dirty_bytes } = self;
        write!(f, "core {} ({name}) with {dirty_bytes} dirty bytes", id.get())
    }
}

impl OpenCache {
    /// The missing cores.
    pub fn missing(&self) -> Vec<MissingCore> {
        let is_missing = |known: &&StoredCore| self.cores.iter().all(|core| core.id != known.id);
        let of = |known: &StoredCore| MissingCore {
            id: known.id,
            name: known.name.clone(),
            dirty_bytes: self.cache.with(|cache| cache.dirty_sectors(known.id))
                * SECTOR_BYTES as u64,
        };
        self.stored().cores.iter().filter(is_missing).map(of).collect()
    }

    /// Refuses an operation that needs all cores.
    pub(super) fn check_all_there(&self, what: &str) -> Result<(), Error> {
        let missing = self.missing();
        if missing.is_empty() {
            return Ok(());
        }
        let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
        let message = format!(
            "{what}: missing is {}: attach it again, or give it up, first",
            missing.join(", ")
        );
        Err(Error::new(ErrorKind::Setup, message))
    }

    fn missing_core(&self, id: CoreId) -> Result<StoredCore, Error> {
        let number = id.get();
        let known = self.stored().cores.iter().find(|known| known.id == id);
        let is_there = self.cores.iter().any(|core| core.id == id);
        match known {
            Some(known) if !is_there => Ok(known.clone()),
            Some(_) => {
                let message = format!("core {number}: it is there, and served");
                Err(Error::new(ErrorKind::Setup, message))
            }
            None => {
                let message = format!("core {number}: the cache has none of this number");
                Err(Error::new(ErrorKind::Setup, message))
            }
        }
    }

    /// Serves a missing core again, with all its cached data.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if it is not missing, or if the device is in use or has another length;
    /// [`ErrorKind::Changed`] if it is another device, or was written while it was missing; [`ErrorKind::Device`]. The
    /// core is then still missing.
    pub async fn attach_core(&mut self, core: &Core) -> Result<(), Error> {
        self.check_label()?;
        let known = self.missing_core(core.id)?;
        check_length(&known, core)?;
        let claim = claim(&core.device)?;
        let Some(device) = self.cache.device() else { return self.check_label() };
        let of_cache = (self.keeper.uuid, self.stored());
        let given = std::slice::from_ref(core);
        let checked = checked::check(&device, of_cache, given, &[]).await?;
        if let Some(complaint) = checked.complaint() {
            let message = format!(
                "{complaint}: it is another device, or was written while it was missing. Nothing was changed; to have \
                 it taken as it is, stop the cache, and start it with this core forced"
            );
            return Err(Error::new(ErrorKind::Changed, message));
        }
        checked.clear_unreadable().await?;
        let watch = watches(&device, of_cache, given, &checked.slots);
        let mut next = self.stored().clone();
        for one in next.cores.iter_mut().filter(|one| one.id == core.id) {
            one.name.clone_from(&core.name);
        }
        let added = self.label_quietly(next).await;
        if added.is_ok() {
            self.serve(core, claim);
            self.watches.extend(watch);
            self.cache.watch(&self.watches);
            self.cache.with(|cache| cache.look_for_dirty([core.id]));
            self.checked.retain(|one| one.id != core.id);
            self.checked.extend(checked.cores);
        }
        self.cache.go_on();
        added?;
        self.prepare_mark()
    }

    /// Drops a missing core. Its dirty data is lost; returns the number of lost bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if it is not missing, or if it is the only core; [`ErrorKind::Device`].
    pub async fn give_up(&mut self, id: CoreId) -> Result<u64, Error> {
        self.missing_core(id)?;
        let next = self.without(id)?;
        let lost = self.cache.with(|cache| {
            let ranges = cache.dirty_ranges(id, usize::MAX);
            ranges.iter().map(|range| range.end - range.start).sum::<u64>()
        });
        let labelled = self.label_quietly(next).await;
        self.cache.go_on();
        labelled?;
        self.cache.drop_missing(id).await?;
        self.prepare_mark()?;
        Ok(lost * SECTOR_BYTES as u64)
    }
}
