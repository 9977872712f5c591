//! The options of a cache, the shape of its devices, and the state of the cache device.

use std::time::Duration;

use crate::mode::Mode;
use crate::policy::classes::IoClasses;
use crate::policy::cleaning::CleaningOptions;
use crate::policy::pressure::BypassPolicy;
use crate::policy::routing::RoutingPolicy;
use crate::policy::{CutOffPolicy, Promotion, PromotionPolicy, ReadAheadPolicy};
use crate::{Error, ErrorKind};

/// Options of a cache. Use `..Default::default()` for the rest. All of them may be changed while it runs.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// The mode. Default write-through.
    pub mode: Mode,
    /// Which sequential requests bypass the cache. Default [`CutOffPolicy::Full`]: only while the cache is full.
    pub cut_off: CutOffPolicy,
    /// Length in bytes from which a run of requests counts as sequential. Default 1 MiB.
    pub cut_off_bytes: u64,
    /// Which read streams are read ahead. Default none.
    pub read_ahead: ReadAheadPolicy,
    /// Which misses are cached. Default always.
    pub promotion: PromotionPolicy,
    /// When dirty data goes to the core in the background. Default ALRU.
    pub cleaning: CleaningOptions,
    /// Rules for requests that are cached differently. Default none.
    pub classes: IoClasses,
    /// Which clean hits the core serves. Default [`RoutingPolicy::Off`]: none.
    pub routing: RoutingPolicy,
    /// Which writes bypass the cache when the cache is full of dirty data. Default [`BypassPolicy::Cost`].
    pub bypass: BypassPolicy,
    /// Number of errors of the cache device after which it is no longer written to. 1 or more; default 8.
    pub cache_errors_max: u32,
    /// Time in which the rest of the metadata is loaded after a start, if there is too much of it to wait for. 0: as
    /// fast as possible. Requests are served during the loading. Default a minute.
    pub load_time: Duration,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            cut_off: CutOffPolicy::Full,
            cut_off_bytes: 1 << 20,
            read_ahead: ReadAheadPolicy::default(),
            promotion: PromotionPolicy::Always,
            cleaning: CleaningOptions::default(),
            classes: IoClasses::default(),
            routing: RoutingPolicy::default(),
            bypass: BypassPolicy::default(),
            cache_errors_max: 8,
            load_time: Duration::from_secs(60),
        }
    }
}

/// Properties of the devices of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheShape {
    /// Bytes for client data on the cache device.
    pub capacity_bytes: u64,
    /// Bytes of a cache line, 4 to 64 KiB.
    pub line_bytes: u32,
}

impl CacheOptions {
    /// Checks the options.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`], naming the option, if one is invalid.
    pub fn check(&self) -> Result<(), Error> {
        if self.cache_errors_max == 0 {
            let message = "cache_errors_max of 0: give how many errors of the cache device are one too many, 1 or more";
            return Err(Error::new(ErrorKind::Setup, message));
        }
        self.cleaning.check()?;
        self.routing.check()?;
        self.read_ahead.check()?;
        Promotion::new(self.promotion, 1, 4096).map(drop)
    }
}

/// The state of the cache device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Health {
    /// It is in use.
    Whole,
    /// It has failed too often. It is no longer written to, and clean data is no longer read from it.
    Failed,
    /// There is no cache device: all requests go to the cores.
    Detached,
}
