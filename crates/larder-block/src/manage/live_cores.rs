//! Cores that come to a cache that runs, and go, while the others are served.
//!
//! *Always:* the label lists a core durably before anything is cached of it; and no more only when the core has durably
//! all that was acknowledged, and nobody is served by it. So what a crash leaves is the cache with that core, or
//! without it. What of a core that was taken away still lies on the cache device is nobody's: a start finds nothing of
//! it, its number is not given again, and it gives way like all that nobody asks for.

use std::collections::BTreeMap;
use std::slice;

use larder_device::{Claim, Device, Io};

use super::Core;
use super::attach::ATTEMPTS;
use super::checked::watches;
use super::cores::complaint;
use super::create::{check_core_lines, claim};
use super::open::Opened;
use super::stored::{StoredCache, StoredCore};
use crate::layout::CoreId;
use crate::{Error, ErrorKind};

impl Opened {
    /// Has the cache be before `core` as well: from now on [`RunningCache::core`](crate::running::RunningCache::core)
    /// has it. It is left as it is, and nothing is cached of it yet. A calibration is forgotten, and routing by it
    /// ends: it says nothing of the new core.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if there cannot be such a core, or the cache device is detached; [`ErrorKind::Device`]. The
    /// cache is what it was then.
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

    /// From now on it is served.
    pub(super) fn serve(&mut self, core: &Core, claim: Claim) {
        let id = core.id;
        self.cache.add_core(id, core.device.clone());
        self.cores.push(core.clone());
        self.claims.push(claim);
        let blocks = self.cache.core(id).map(|core| core.info().block_bytes);
        self.block_bytes = blocks.map_or(self.block_bytes, |own| own.min(self.block_bytes));
    }

    /// With a label that says so, and nothing under way; requests wait then.
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

    /// Has the cache be before that core no more. All that is dirty of it is destaged while its users and those of the
    /// others go on; in the last moment all wait. Then its device is let go of, and what is asked of it is refused.
    /// What is cached of the others stays. A calibration is forgotten, and routing by it ends.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if the cache has no such core or no other, or its device is detached;
    /// [`ErrorKind::Device`] if something could not be destaged or may be dirty all the same, for the start could not
    /// read all, or if the label was not written. That core is served on then.
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
                // That of the cache device is the first.
                drop(self.claims.remove(at + 1));
            }
        } else {
            self.cache.with(|cache| cache.leaves(None));
        }
        self.cache.go_on();
        left?;
        self.prepare_mark()
    }

    /// What the label says then.
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

    /// Ends with nothing under way, all of the core there, and a label that does not list it; or with an error.
    async fn leave_core(&mut self, id: CoreId, next: StoredCache) -> Result<(), Error> {
        let number = id.get();
        let failed = |error: &larder_device::Error| {
            Error::of_device(&format!("taking core {number} away"), error)
        };
        for _ in 0..ATTEMPTS {
            // While everybody is served.
            self.cache.clean_core(id).await.map_err(|failure| failed(&failure.error))?;
            self.cache.quiet().await.map_err(|failure| failed(&failure.error))?;
            // What had begun before nothing of it was to become dirty may have ended since.
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
            // What was written around the cache may not be durable there.
            let flushed = core.device.submit(Io::Flush).await;
            flushed.map_err(|failure| {
                Error::of_device(&format!("taking core {number} away"), &failure.error)
            })?;
        }
        let Err(unwritten) = self.relabel(next).await else { return Ok(()) };
        Err(self.doubt(unwritten, &format!("core {number} is none of the cache's")))
    }

    /// Which cores there are is written on the cache device.
    pub(super) fn check_label(&self) -> Result<(), Error> {
        if self.is_attached() {
            return Ok(());
        }
        let message = "the cache device is detached, and its label says which cores there are: attach one first";
        Err(Error::new(ErrorKind::Setup, message))
    }
}
