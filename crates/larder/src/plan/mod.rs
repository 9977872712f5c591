//! The placement plan: which stream writes with which of the device's few handles.
//!
//! A stream is a pair of a tenant, whose bytes these are, and a class, which says when they will die.
//! The plan is solved once, at the opening, from the number of handles that the device has
//! (`solve.rs`). With enough handles each stream has its own; with too few, those whose lifetimes
//! are most alike share. Metadata and everything undeclared use the default handle.
//!
//! Lifetimes are estimates, made before anything was written. They assume that the device is written
//! over once a day; only how they compare matters. What a stream writes over and over lives for
//!
//! - days = its part of the device / its share of the writes,
//!
//! and what has a time to live at most for that long.

mod solve;
mod streams;
mod table;

use std::fmt;
use std::time::Duration;

use larder_device::{DeviceInfo, PlacementHandle};

use crate::config::Config;
use crate::error::Error;
use crate::layout::Layout;
pub(crate) use solve::solve;
pub(crate) use streams::streams_of;

/// The plan of several tenants on one device: their names, options and bytes of it. Each is expected
/// to write as much as its part suggests. [`Tenants`](crate::Tenants) follows it.
///
/// # Errors
/// [`ErrorKind::Config`](crate::ErrorKind::Config) if a tenant's options cannot work with its part.
///
/// ```
/// use larder::{Config, plan};
/// use larder_device::{Device, ModelDevice, Payload};
/// use larder_ssd::managed::{Geometry, ManagedConfig};
///
/// let geometry = Geometry::with_overprovisioning(64 << 20, 256 << 10, 20.0).unwrap();
/// let drive = ModelDevice::new(ManagedConfig::new(geometry), Payload::None).unwrap();
/// let tenants = [("photos", Config::default(), 40 << 20), ("pages", Config::default(), 20 << 20)];
/// let plan = plan::plan(&tenants, drive.info())?;
/// assert_eq!(plan.handle_of("pages", plan::Class::Loc).index(), 2);
/// # Ok::<(), larder::Error>(())
/// ```
pub fn plan(tenants: &[(&str, Config, u64)], device: &DeviceInfo) -> Result<PlacementPlan, Error> {
    let mut streams = Vec::new();
    for (tenant, config, bytes) in tenants {
        let info = DeviceInfo { capacity_bytes: *bytes, ..device.clone() };
        let layout = config.check().and_then(|()| Layout::plan(config, &info));
        let layout = layout.map_err(|error| error.of(&format!("tenant {tenant:?}")))?;
        let share = part_of(*bytes, device.capacity_bytes);
        let own = streams_of(config, &layout, tenant).into_iter();
        streams.extend(own.map(|one| Stream { write_share: one.write_share * share, ..one }));
    }
    Ok(solve(&streams, &device.placement))
}

#[allow(clippy::cast_precision_loss)] // an estimate
fn part_of(bytes: u64, whole: u64) -> f64 {
    bytes as f64 / whole.max(1) as f64
}

/// What the bytes of a stream are, and with that how long they live.
///
/// ```
/// use larder::plan::Class;
///
/// assert_eq!(Class::Loc.to_string(), "LOC");
/// assert_eq!(Class::LocTtl(2).to_string(), "LOC, TTL class 2");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Class {
    /// Buckets of the small-object engine: rewritten in place, at random.
    Soc,
    /// Those of them that are rewritten often (see
    /// [`Config::dynamic_placement`](crate::Config::dynamic_placement)).
    SocHot,
    /// The log in front of the buckets: written in order, soon overwritten.
    SocLog,
    /// Regions of the large-object engine: written and dropped in order.
    Loc,
    /// Regions of large objects whose time to live is in the class of this number.
    LocTtl(u16),
    /// Regions of large objects that were kept when theirs was reclaimed, in the segment of this
    /// number, 1 or 2 (see [`RegionEviction::SegmentedFifo`](crate::RegionEviction::SegmentedFifo)).
    LocKept(u16),
    /// Superblock, snapshot, tombstones: written rarely, under the default handle.
    Metadata,
}

impl Class {
    /// Whether writes go to random places, over what is there.
    fn is_in_place(self) -> bool {
        matches!(self, Self::Soc | Self::SocHot)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Soc => f.pad("SOC"),
            Self::SocHot => f.pad("SOC, hot buckets"),
            Self::SocLog => f.pad("SOC log"),
            Self::Loc => f.pad("LOC"),
            Self::LocTtl(number) => f.pad(&format!("LOC, TTL class {number}")),
            Self::LocKept(segment) => f.pad(&format!("LOC, kept, segment {segment}")),
            Self::Metadata => f.pad("metadata"),
        }
    }
}

/// A stream that wants a handle.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stream {
    /// Empty for a cache that has its device for itself.
    pub(crate) tenant: String,
    pub(crate) class: Class,
    /// Part of the writes to the device, expected.
    pub(crate) write_share: f64,
    /// `None` if nobody can tell.
    pub(crate) lifetime: Option<Duration>,
    /// Whether its tenant wants placement.
    pub(crate) places: bool,
}

/// Why a stream has the handle that it has.
///
/// ```
/// use larder::plan::Why;
///
/// assert_eq!(Why::Alone.to_string(), "a handle of its own");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Why {
    /// There were enough handles.
    Alone,
    /// There were too few handles, and of those who share this one the lifetimes are most alike.
    TooFewHandles,
    /// The device has the default handle only.
    NoHandles,
    /// [`Config::placement`](crate::Config::placement) is off.
    Off,
    /// It is metadata.
    Metadata,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Alone => "a handle of its own",
            Self::TooFewHandles => "too few handles: most similar lifetimes share",
            Self::NoHandles => "the device has the default handle only",
            Self::Off => "placement is off",
            Self::Metadata => "metadata uses the default handle",
        })
    }
}

/// One stream and the handle that it was given.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Assignment {
    /// Whose bytes these are; empty for a cache that has its device for itself.
    pub tenant: String,
    /// What they are.
    pub class: Class,
    /// How long they live, expected, if the device is written over once a day. `None` if nobody can
    /// tell.
    pub lifetime: Option<Duration>,
    /// Part of the writes to the device, expected, 0 to 1.
    pub write_share: f64,
    /// The handle to write them with.
    pub handle: PlacementHandle,
    /// Who else writes with this handle: tenant and class.
    pub shared_with: Vec<(String, Class)>,
    /// Why.
    pub why: Why,
}

impl Assignment {
    /// Whether the stream wanted a handle and had to do with the default.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// assert!(!cache.placement().streams().iter().any(|stream| stream.fell_back()));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn fell_back(&self) -> bool {
        matches!(self.why, Why::NoHandles | Why::Off)
    }
}

/// Who writes with which handle. Prints as a table.
///
/// ```
/// use std::sync::Arc;
/// use larder::{Config, Larder, RealClock, block_on, plan::Class};
/// use larder_device::{ModelDevice, Payload};
/// use larder_ssd::managed::{Geometry, ManagedConfig};
///
/// let geometry = Geometry::with_overprovisioning(8 << 20, 256 << 10, 60.0).unwrap();
/// let drive = ModelDevice::new(ManagedConfig::new(geometry), Payload::Memory).unwrap();
/// let config = Config { soc_percent: Some(20.0), ..Config::default() };
/// let cache = Larder::open(config, Some(Arc::new(drive)), Arc::new(RealClock));
/// let cache = block_on(cache)?;
/// let plan = cache.placement();
/// assert_ne!(plan.handle_of("", Class::Soc), plan.handle_of("", Class::Loc));
/// assert!(plan.to_string().contains("a handle of its own"), "{plan}");
/// # Ok::<(), larder::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PlacementPlan {
    streams: Vec<Assignment>,
    /// Handles of the device, the default among them.
    handles: u16,
    groups: u16,
    path: &'static str,
}

impl PlacementPlan {
    /// The plan of a cache without flash.
    pub(crate) const NONE: &'static Self =
        &Self { streams: Vec::new(), handles: 0, groups: 0, path: "" };

    /// All streams, metadata among them. Empty without flash.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// assert!(cache.placement().streams().is_empty());
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn streams(&self) -> &[Assignment] {
        &self.streams
    }

    /// The handle of a stream; the default if it is not declared.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, block_on, plan::Class};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// assert_eq!(cache.placement().handle_of("", Class::Loc).index(), 0);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn handle_of(&self, tenant: &str, class: Class) -> PlacementHandle {
        let mut of_tenant = self.streams.iter().filter(|stream| stream.tenant == tenant);
        let found = of_tenant.find(|stream| stream.class == class);
        found.map_or(PlacementHandle::DEFAULT, |stream| stream.handle)
    }

    /// What concerns one tenant.
    pub(crate) fn of_tenant(&self, tenant: &str) -> Self {
        let own = |stream: &&Assignment| stream.tenant == tenant;
        Self { streams: self.streams.iter().filter(own).cloned().collect(), ..*self }
    }

    /// The streams that had to share or to fall back.
    pub(crate) fn compromised_streams(&self) -> u64 {
        let compromised = |why| !matches!(why, Why::Alone | Why::Metadata);
        self.streams.iter().filter(|stream| compromised(stream.why)).count() as u64
    }
}
