//! Adds cores to a running cache, and removes them, while the other cores are served.
//!
//! *Always:* the label lists a core durably before any of its data is cached. The label stops listing it only when the
//! core durably has all acknowledged data and no longer serves clients. So a crash leaves the cache with that core, or
//! without it. Data of a removed core on the cache device belongs to no core: a start ignores it, the number of the
//! core is not reused, and the data is evicted like any other data that is not requested.

use std::collections::BTreeMap;
use std::slice;

use larder_device::{Claim, Device, Io};

use super::Core;
use super::attach::ATTEMPTS;
use super::checked::watches;
use super::cores::complaint;
use super::create::{check_core_lines, claim};
use super::open::OpenCache;
use super::stored::{StoredCache, StoredCore};
use crate::layout::CoreId;
use crate::{Error, ErrorKind};

impl OpenCache {
    /// Adds `core` to the running cache: from now on [`RunningCache::core`](crate::running::RunningCache::core)
    /// returns it. Nothing of it is cached yet, and the core is not written. A calibration is discarded and routing by
    /// it ends, because it says nothing about the new core.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if such a core is impossible, or if the cache device is detached; [`ErrorKind::Device`].
    /// The cache is then unchanged.
    pub async fn add_core(&mut self, core: &Core) -> Result<(), Error> {
        self.check_label()?;
        let claim = claim(&core.device)?;
        let (id, bytes) = (core.id, core.device.info().capacity_bytes);
        if let Some(complaint) = complaint(self.stored(), id) {
            return Err(Error::new(ErrorKind::Setup, complaint));
        }
        check_core_lines(core, self.stored().layout.line_bytes())?;
        let mut next = self.stored().clone();
        let place = next.free_place();
        next.cores.push(StoredCore { id, name: core.name.clone(), bytes, place });
        next.cores.sort_by_key(|core| core.id);
        next.profile = None;
        next.encode()?;
        let added = self.label_quietly(next).await;
        if added.is_ok() {
            self.serve(core, claim);
            if let Some(device) = self.cache.device() {
                let of_cache = (self.keeper.uuid, self.stored());
                let watch = watches(&device, of_cache, slice::from_ref(core), &BTreeMap::new());
                self.watches.extend(watch);
                self.cache.watch(&self.watches);
            }
        }
        self.cache.go_on();
        added?;
        self.note_fingerprints().await;
        self.prepare_mark()
    }

    /// Begins to serve a core.
    pub(super) fn serve(&mut self, core: &Core, claim: Claim) {
        let id = core.id;
        self.cache.add_core(id, core.device.clone());
        self.cores.push(core.clone());
        self.claims.push(claim);
        let blocks = self.cache.core(id).map(|core| core.info().block_bytes);
        self.block_bytes = blocks.map_or(self.block_bytes, |own| own.min(self.block_bytes));
    }

    /// Writes a label while nothing is in flight; afterwards requests are still held back.
    pub(super) async fn label_quietly(&mut self, next: StoredCache) -> Result<(), Error> {
        let quiet = self.cache.quiet().await;
        quiet.map_err(|failure| Error::of_device("adding a core", &failure.error))?;
        let Err(unwritten) = self.relabel(next).await else { return Ok(()) };
        let Some(again) = unwritten.again else { return Err(unwritten.error) };
        let message = format!(
            "{}; and what it said before could not be written again ({again}): the next start may want that core too",
            unwritten.error
        );
        Err(Error::new(ErrorKind::Device, message))
    }

    /// Removes a core from the running cache. Destages its dirty data while all clients continue; all requests wait
    /// only during the last step. Then its device is released, and requests to it are refused. Cached data of the
    /// other cores stays. A calibration is discarded, and routing by it ends.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if the cache has no such core or no other one, or if its device is detached.
    /// [`ErrorKind::Device`] if some data could not be destaged, if the label was not written, or if the start could
    /// not read everything, so that unknown dirty data may exist. The core is then still served.
    pub async fn remove_core(&mut self, id: CoreId) -> Result<(), Error> {
        let next = self.without(id)?;
        if let Some(missing) = self.missing().into_iter().find(|missing| missing.id == id) {
            let message = format!(
                "{missing} is missing: attach it first, so that it gets these; or give it up, and they are lost"
            );
            return Err(Error::new(ErrorKind::Setup, message));
        }
        self.cache.with(|cache| cache.leaves(Some(id)));
        let left = self.leave_core(id, next).await;
        if left.is_ok() {
            self.cache.remove_core(id);
            self.watches.remove(&id);
            self.checked.retain(|one| one.id != id);
            if let Some(at) = self.cores.iter().position(|core| core.id == id) {
                self.cores.remove(at);
                // The claim of the cache device comes first.
                drop(self.claims.remove(at + 1));
            }
        } else {
            self.cache.with(|cache| cache.leaves(None));
        }
        self.cache.go_on();
        left?;
        self.prepare_mark()
    }

    /// The content of the label without the core.
    pub(super) fn without(&self, id: CoreId) -> Result<StoredCache, Error> {
        let next = self.stored().without(id)?;
        self.check_label()?;
        if self.started.failed_reads > 0 {
            let number = id.get();
            let message = format!(
                "core {number}: {} reads of the cache device failed when it was started, so what only it has of that \
                 core may be more than what is known; nothing was changed",
                self.started.failed_reads
            );
            return Err(Error::new(ErrorKind::Device, message));
        }
        Ok(next)
    }

    /// Succeeds with nothing in flight, all data on the core, and a label that does not list it.
    async fn leave_core(&mut self, id: CoreId, next: StoredCache) -> Result<(), Error> {
        let number = id.get();
        let failed = |error: &larder_device::Error| {
            Error::of_device(&format!("taking core {number} away"), error)
        };
        for _ in 0..ATTEMPTS {
            // Clients are still served here.
            self.cache.clean_core(id).await.map_err(|failure| failed(&failure.error))?;
            self.cache.quiet().await.map_err(|failure| failed(&failure.error))?;
            // A write that began before `leaves` may have left dirty data.
            if self.cache.with(|cache| cache.has_settled(id)) {
                return self.label_without(id, next).await;
            }
            self.cache.go_on();
        }
        let message = format!("taking core {number} away: something is dirty again and again");
        Err(Error::new(ErrorKind::Device, message))
    }

    async fn label_without(&mut self, id: CoreId, next: StoredCache) -> Result<(), Error> {
        let number = id.get();
        if let Some(core) = self.cores.iter().find(|core| core.id == id) {
            // Writes around the cache may not be durable on the core.
            let flushed = core.device.submit(Io::Flush).await;
            flushed.map_err(|failure| {
                Error::of_device(&format!("taking core {number} away"), &failure.error)
            })?;
        }
        let Err(unwritten) = self.relabel(next).await else { return Ok(()) };
        Err(self.doubt(unwritten, &format!("core {number} is none of the cache's")))
    }

    /// The list of cores is stored on the cache device, so one must be attached.
    pub(super) fn check_label(&self) -> Result<(), Error> {
        if self.is_attached() {
            return Ok(());
        }
        let message = "the cache device is detached, and its label says which cores there are: attach one first";
        Err(Error::new(ErrorKind::Setup, message))
    }
}
