//! Replaces or removes the cache device while requests keep coming. Requests are held back until nothing is in flight;
//! then the layout is exchanged and the held requests begin.
//!
//! *Always:* a layout is left only when the cores have all its data and its label says that its content is void
//! ([`manage`](crate::manage) ensures both). So old cached data never hides data that was written to the cores later.

use super::Cache;
use super::locks::Locks;
use super::op::{Op, What};
use super::request::Request;
use super::state::{CacheShape, Health, Mark};
use crate::layout::{CoreId, Layout, RequestId, Uncached};
use crate::policy::Promotion;
use crate::policy::cleaning::Cleaning;
use crate::policy::pressure::Pressure;
use crate::policy::routing::Router;
use crate::{Error, ErrorKind};

impl Cache {
    /// Whether writes that would be dirty also go to the core from now on.
    pub(crate) fn set_no_dirty(&mut self, has_none: bool) {
        self.has_no_dirty = has_none;
    }

    /// Holds back all requests from now on, until [`release`](Self::release).
    pub(crate) fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    /// Whether requests are held back and no request or I/O is in flight. The cleaning of a whole core may be
    /// unfinished: it pauses.
    pub(crate) fn is_quiet(&self) -> bool {
        let has_paused = |op: &Op| matches!(&op.what, What::Clean(clean) if clean.outstanding == 0);
        self.held.is_some()
            && self.ops.iter().all(|(_, op)| has_paused(op))
            && self.ios.is_empty()
            && self.ended.is_empty()
    }

    /// Begins the requests that were held back.
    pub(crate) fn release(&mut self) {
        for (id, request) in self.held.take().unwrap_or_default() {
            self.submit(id, request);
        }
        self.resume_cleaning();
    }

    /// Stores the request if requests are held back, and returns `None`; otherwise returns the request.
    pub(super) fn held_back(&mut self, id: RequestId, request: Request) -> Option<Request> {
        match &mut self.held {
            Some(held) => {
                held.push((id, request));
                None
            }
            None => Some(request),
        }
    }

    /// Continues without a cache device.
    ///
    /// # Panics
    /// If something is in flight, or if the cores lack some data.
    pub(crate) fn leave_device(&mut self, cores: impl Iterator<Item = CoreId>) {
        assert!(self.layout.is_on_cores(), "a cache device is left with nothing on it alone");
        let shape = CacheShape { capacity_bytes: 0, ..self.shape };
        self.exchange(Box::new(Uncached::default()), shape, cores)
            .expect("it had these options before");
        self.health = Health::Detached;
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
        assert_eq!(self.health, Health::Detached, "there is one already");
        if layout.usage().valid_sectors > 0 {
            let message = "the cache device to be attached has something already: format it";
            return Err(Error::new(ErrorKind::Setup, message));
        }
        self.exchange(layout, shape, cores)?;
        self.health = Health::Whole;
        Ok(())
    }

    fn exchange(
        &mut self,
        mut layout: Box<dyn Layout>,
        shape: CacheShape,
        cores: impl Iterator<Item = CoreId>,
    ) -> Result<(), Error> {
        assert!(self.is_quiet(), "requests or I/Os are under way");
        let lines = shape.capacity_bytes / u64::from(shape.line_bytes);
        let promotion = Promotion::new(self.options.promotion, lines, shape.line_bytes)?;
        let cleaning = Cleaning::new(self.options.cleaning, shape.line_bytes)?;
        layout.set_shares(self.options.classes.shares());
        // Data that was written to the cores before may not be durable there.
        cores.for_each(|core| layout.core_was_written(core));
        (self.layout, self.shape, self.promotion, self.cleaning) =
            (layout, shape, promotion, cleaning);
        (self.router, self.saturated_sectors) = (Router::new(self.options.routing), 0);
        self.writes_around = self.layout.writes_around();
        self.pressure = Pressure::new(self.options.bypass);
        (self.locks, self.cache_errors, self.retry_at) = (Locks::default(), 0, None);
        (self.mark, self.has_no_dirty) = (Mark::default(), false);
        Ok(())
    }
}
