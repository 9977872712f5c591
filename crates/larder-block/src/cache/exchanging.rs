//! Replaces or removes the cache device, or removes a core, while requests keep coming. Requests are held back until
//! nothing is in flight; then the layout is exchanged, or the core is released, and the held requests begin. Also which
//! cores are missing: cached blocks of theirs are not served, and dirty blocks stay dirty.
//!
//! *Always:* a layout is left only when the cores have all its data and its label says that its content is void
//! ([`manage`](crate::manage) ensures both). So old cached data never hides data that was written to the cores later. A
//! core is released only when it has all acknowledged data and the label no longer lists it. So a start attributes none
//! of the remaining cached data to it.

use std::collections::BTreeSet;

use super::Cache;
use super::device_health::DeviceHealth;
use super::state::{CacheShape, Health};
use crate::layout::{CoreId, Layout, UncachedLayout};
use crate::policy::cleaning::Cleaning;
use crate::{Error, ErrorKind};

impl Cache {
    /// Whether writes that would be dirty also go to the core from now on.
    pub(crate) fn set_no_dirty(&mut self, has_none: bool) {
        self.admission.set_no_dirty(has_none);
    }

    /// Holds back all requests from now on, until [`release`](Self::release).
    pub(crate) fn hold(&mut self) {
        self.ops.hold();
    }

    /// Whether requests are held back and no request or I/O is in flight. The cleaning of a whole core may be
    /// unfinished: it pauses.
    pub(crate) fn is_quiet(&self) -> bool {
        self.ops.is_quiet()
    }

    /// Begins the requests that were held back.
    pub(crate) fn release(&mut self) {
        for (id, request) in self.ops.release() {
            self.submit(id, request);
        }
        self.resume_cleaning();
    }

    /// Continues without a cache device.
    ///
    /// # Panics
    /// If something is in flight, or if the cores lack some data.
    pub(crate) fn leave_device(&mut self, cores: impl Iterator<Item = CoreId>) {
        assert!(self.layout.is_on_cores(), "a cache device is left with nothing on it alone");
        let shape = CacheShape { capacity_bytes: 0, ..self.shape() };
        self.exchange(Box::new(UncachedLayout::default()), shape, cores)
            .expect("it had these options before");
        self.health = DeviceHealth::new(Health::Detached);
    }

    /// Continues with an empty cache device.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if an option is impossible on such a device; then nothing has changed.
    ///
    /// # Panics
    /// If something is in flight, or cached.
    pub(crate) fn take_device(
        &mut self,
        layout: Box<dyn Layout>,
        shape: CacheShape,
        cores: impl Iterator<Item = CoreId>,
    ) -> Result<(), Error> {
        assert_eq!(self.health(), Health::Detached, "there is one already");
        if layout.usage().valid_sectors > 0 {
            let message = "the cache device to be attached has something already: format it";
            return Err(Error::new(ErrorKind::Setup, message));
        }
        self.exchange(layout, shape, cores)?;
        self.health = DeviceHealth::new(Health::Whole);
        Ok(())
    }

    fn exchange(
        &mut self,
        mut layout: Box<dyn Layout>,
        shape: CacheShape,
        cores: impl Iterator<Item = CoreId>,
    ) -> Result<(), Error> {
        assert!(self.is_quiet(), "requests or I/Os are under way");
        let cleaning = Cleaning::new(self.options().cleaning, shape.line_bytes)?;
        self.admission.exchange(shape)?;
        layout.set_shares(self.options().classes.shares());
        // Data that was written to the cores before may not be durable there.
        cores.for_each(|core| layout.core_was_written(core));
        (self.layout, self.cleaning) = (layout, cleaning);
        self.tally.start_again(self.layout.writes_around());
        Ok(())
    }

    /// Sets the core that is to be removed, or `None` if it stays. Until the removal, writes to it that would be dirty
    /// also go to the core.
    pub(crate) fn leaves(&mut self, core: Option<CoreId>) {
        self.admission.set_leaving(core);
    }

    /// Whether a core has no dirty data, and nothing in flight can change that.
    pub(crate) fn has_settled(&self, core: CoreId) -> bool {
        let has_all = || self.layout.dirty_after(core, 0).is_none();
        self.is_quiet() && self.layout.unloaded_parts() == 0 && has_all()
    }

    /// Releases a core. Held requests to it fail.
    ///
    /// # Panics
    /// If something is in flight, or if the core lacks some data.
    pub(crate) fn core_is_gone(&mut self, core: CoreId) {
        assert!(
            self.has_settled(core),
            "a core is let go of that has all, and nothing is under way"
        );
        self.layout.core_is_gone(core);
        self.missing.remove(&core);
        self.ahead.forget_core(core);
        self.tally.forget(core);
        self.admission.forget_core(core);
        self.ops.refuse_held_of(core);
    }

    /// Forgets measurements of the previous set of cores. Routing that was calibrated for them is switched off.
    pub(crate) fn forget_measured(&mut self) {
        self.admission.forget_measured();
    }

    /// Sets which of its cores are missing.
    pub(crate) fn set_missing(&mut self, cores: BTreeSet<CoreId>) {
        self.missing = cores;
    }

    /// A missing core is present again.
    pub(crate) fn is_there(&mut self, core: CoreId) {
        self.missing.remove(&core);
    }

    /// The cores that are missing.
    pub fn missing(&self) -> &BTreeSet<CoreId> {
        &self.missing
    }

    /// Whether the present cores durably have all data that is cached of them.
    pub(crate) fn has_destaged(&self) -> bool {
        let of_missing: u64 =
            self.missing.iter().map(|core| self.layout.dirty_sectors(*core)).sum();
        self.layout.is_on_cores()
            || (of_missing > 0
                && self.layout.unloaded_parts() == 0
                && self.layout.usage().dirty_sectors == of_missing)
    }
}
