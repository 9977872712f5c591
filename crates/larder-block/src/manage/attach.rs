//! Detaches the cache device of a running cache, and attaches another one, while the cores are served.
//!
//! *Always:* before a core is written past a device, the label of the device says durably that its content is void,
//! and the device has no dirty data. An attached device is empty.

use std::collections::BTreeMap;
use std::sync::Arc;

use larder_device::Device;
use larder_device::label::Uuid;

use super::checked::watches;
use super::create::{CreateOptions, LayoutOptions, Over, claim, may_be_written_over, plan};
use super::open::{OpenCache, blank};
use super::stored::StoredCache;
use crate::layout::log::LogOptions;
use crate::running::{Front, Handles};
use crate::{Error, ErrorKind};

/// Number of attempts to reach a state without dirty data before the operation fails.
pub(super) const ATTEMPTS: u32 = 4;

/// How to format a cache device that is attached.
#[derive(Clone, Debug, Default)]
pub struct AttachOptions {
    /// The layout.
    pub layout: LayoutOptions,
    /// What may be overwritten.
    pub over: Over,
    /// Placement handles for writes.
    pub handles: Handles,
    /// Options that may change between two starts of a log.
    pub log: LogOptions,
}

impl OpenCache {
    /// Whether there is a cache device.
    pub fn is_attached(&self) -> bool {
        self.keeper.labeller.is_some()
    }

    /// Detaches the cache device. Destages everything while clients continue, writes a label that says that the
    /// content of the device is void, and from then on sends all requests to the cores. The mode is kept for the next
    /// device.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if there is none; [`ErrorKind::Device`] if some data could not be destaged or the label
    /// could not be written. The cache then continues as before.
    pub async fn detach(&mut self) -> Result<(), Error> {
        if !self.is_attached() {
            let message = "the cache device is detached already: attach another one first";
            return Err(Error::new(ErrorKind::Setup, message));
        }
        self.check_all_there("detaching the cache device")?;
        self.cache.with(|cache| cache.set_no_dirty(true));
        let mut left = self.leave().await;
        if left.is_ok() {
            self.cache.with(|cache| cache.leave_device(self.cores.iter().map(|core| core.id)));
            self.watches.clear();
            self.cache.watch(&self.watches);
            self.cache.set_front(None);
            self.keeper.labeller = None;
            drop(self.claims.remove(0));
            left = self.prepare_mark();
        } else {
            let is_doubtful = self.keeper.is_doubtful;
            self.cache.with(|cache| cache.set_no_dirty(is_doubtful));
        }
        self.cache.go_on();
        left
    }

    /// Succeeds with nothing in flight and a label that says that the content is void.
    async fn leave(&mut self) -> Result<(), Error> {
        for _ in 0..ATTEMPTS {
            self.cache.destage_all().await?;
            let quiet = self.cache.quiet().await;
            quiet.map_err(|failure| Error::of_device("detaching", &failure.error))?;
            // A write that began before `set_no_dirty` may have left dirty data.
            if self.cache.with(|cache| cache.is_on_cores()) {
                return self.distrust().await;
            }
            self.cache.go_on();
        }
        Err(Error::new(ErrorKind::Device, "detaching: something is dirty again and again"))
    }

    async fn distrust(&mut self) -> Result<(), Error> {
        let mode = self.cache.with(|cache| cache.options().mode);
        let stored = self.keeper.stored.clone();
        let next = StoredCache { is_distrusted: true, was_stopped: true, mode, ..stored };
        let Err(unwritten) = self.relabel(next).await else { return Ok(()) };
        Err(self.doubt(unwritten, "nothing on the device must be believed"))
    }

    /// Formats `device`, and continues with it in the current mode. The content of the device is lost.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if there is a cache device already, or if `device` is in use, too small, or has content
    /// that `options` do not allow to overwrite; [`ErrorKind::Device`]. The cache then continues without a device.
    pub async fn attach(
        &mut self,
        device: &Arc<dyn Device>,
        options: &AttachOptions,
    ) -> Result<Uuid, Error> {
        if self.is_attached() {
            let message = format!("the cache {} is attached already: detach it first", self.uuid);
            return Err(Error::new(ErrorKind::Setup, message));
        }
        let (name, block_bytes) = (&device.info().name, device.info().block_bytes);
        if block_bytes > self.block_bytes {
            let message = format!(
                "{name}: its blocks have {block_bytes} bytes, and clients know blocks of {}: give a device with such \
                 blocks, or stop the cache and create it anew",
                self.block_bytes
            );
            return Err(Error::new(ErrorKind::Setup, message));
        }
        let claim = claim(device)?;
        let mode = self.cache.with(|cache| cache.options().mode);
        let layout = options.layout.clone();
        let create = CreateOptions { layout, mode, over: options.over };
        let stored = plan(device, &self.cores, &create)?;
        stored.encode()?;
        may_be_written_over(device, options.over).await?;
        let (keeper, found) = blank(device, stored, 0, &options.log).await?;
        let uuid = keeper.uuid;
        let quiet = self.cache.quiet().await;
        let taken = quiet.map_err(|failure| Error::of_device("attaching", &failure.error));
        let front = Front { device: Arc::clone(device), handles: options.handles };
        let cores = self.cores.iter().map(|core| core.id);
        let taken = taken.and_then(|_| {
            self.cache.with(|cache| cache.take_device(found.layout, found.shape, cores))
        });
        if taken.is_ok() {
            self.cache.set_front(Some(front));
            (self.keeper, self.uuid, self.started) = (keeper, uuid, found.started);
            self.claims.insert(0, claim);
            let of_cache = (uuid, self.stored());
            self.watches = watches(device, of_cache, &self.cores, &BTreeMap::new());
            self.cache.watch(&self.watches);
        }
        let marked = taken.and_then(|()| self.prepare_mark());
        self.cache.go_on();
        marked?;
        self.note_fingerprints().await;
        Ok(uuid)
    }
}
