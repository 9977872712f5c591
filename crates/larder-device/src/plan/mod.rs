//! The placement plan: which stream writes with which of the device's few handles.
//!
//! A stream is a pair of a tenant, which owns the bytes, and a class, which says when they will die. The plan is solved
//! once, when the device is opened, from the number of handles that the device has (`solve.rs`). With enough handles
//! each stream gets its own; with too few, streams with the most similar lifetimes share one. Metadata and undeclared
//! streams use the default handle.
//!
//! Lifetimes are estimates, made before anything was written. They assume that the device is written over once a day;
//! only their ratios matter. A stream that keeps overwriting its space lives for
//!
//! - days = its part of the device / its share of the writes,
//!
//! and data with a time to live lives at most for that time.

mod array_groups;
mod cluster;
mod prediction;
mod solve;
mod table;

use std::fmt;
use std::time::Duration;

use crate::placement::PlacementHandle;
pub use prediction::{DriveUse, predicted_dlwa, separates_buckets};
pub use solve::solve;

/// The kind of data in a stream, which determines how long the data lives.
///
/// ```
/// use larder_device::plan::Class;
///
/// assert_eq!(Class::Loc.to_string(), "LOC");
/// assert_eq!(Class::LocTtl(2).to_string(), "LOC, TTL class 2");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Class {
    /// Buckets of the small-object engine: rewritten in place, at random.
    Soc,
    /// The SOC buckets that are rewritten often.
    SocHot,
    /// The log in front of the buckets: written in order, soon overwritten.
    SocLog,
    /// Regions of the large-object engine: written and dropped in order.
    Loc,
    /// Regions of large objects whose time to live is in the TTL class of this number.
    LocTtl(u16),
    /// Regions of large objects that were kept when their region was reclaimed, in the segment of this number, 1 or 2.
    LocKept(u16),
    /// Tables of the array engine's index: written in order, and each soon out of date.
    ArrayTables,
    /// Regions of array engine objects whose time to live is in the TTL group of this number.
    ArrayGroup(u16),
    /// A block cache's dirty data, which the core does not have.
    BlockDirty,
    /// A block cache's clean data, which the core has too.
    BlockClean,
    /// A block cache's table of where data are, in layouts with a table: overwritten page by page.
    BlockTable,
    /// Superblock, snapshot, tombstones: written rarely, with the default handle.
    Metadata,
}

impl Class {
    /// Whether writes overwrite data in place, at random addresses.
    fn is_in_place(self) -> bool {
        matches!(self, Self::Soc | Self::SocHot | Self::BlockTable)
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
            Self::ArrayTables => f.pad("array, tables"),
            Self::ArrayGroup(number) => f.pad(&format!("array, TTL group {number}")),
            Self::BlockDirty => f.pad("block cache, dirty"),
            Self::BlockClean => f.pad("block cache, clean"),
            Self::BlockTable => f.pad("block cache, table"),
            Self::Metadata => f.pad("metadata"),
        }
    }
}

/// A stream that wants a handle.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// The owner of the data; empty for a cache that has its device for itself.
    pub tenant: String,
    /// The kind of data.
    pub class: Class,
    /// Expected share of the writes to the device, 0 to 1.
    pub write_share: f64,
    /// Expected lifetime of the data; `None` if unknown.
    pub lifetime: Option<Duration>,
    /// Whether its tenant wants placement.
    pub places: bool,
}

/// Why a stream has its handle.
///
/// ```
/// use larder_device::plan::Why;
///
/// assert_eq!(Why::Alone.to_string(), "a handle of its own");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Why {
    /// There were enough handles.
    Alone,
    /// There were too few handles, and the streams that share this one have the most similar lifetimes.
    TooFewHandles,
    /// The device has only the default handle.
    NoHandles,
    /// Its tenant does not want placement.
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
    /// The owner of the data; empty for a cache that has its device for itself.
    pub tenant: String,
    /// The kind of data.
    pub class: Class,
    /// Expected lifetime of the data if the device is written over once a day; `None` if unknown.
    pub lifetime: Option<Duration>,
    /// Expected share of the writes to the device, 0 to 1.
    pub write_share: f64,
    /// The handle to write with.
    pub handle: PlacementHandle,
    /// The other streams that use this handle: tenant and class.
    pub shared_with: Vec<(String, Class)>,
    /// The reason for this handle.
    pub why: Why,
}

impl Assignment {
    /// Whether the stream wanted a handle but has to use the default.
    ///
    pub fn fell_back(&self) -> bool {
        matches!(self.why, Why::NoHandles | Why::Off)
    }
}

/// Which stream writes with which handle. Its `Display` is a table.
///
/// ```
/// use larder_device::plan::{Class, Stream, solve};
/// use larder_device::{Device, ModelDevice, Payload};
/// use larder_ssd::managed::{Geometry, ManagedConfig};
///
/// let geometry = Geometry::with_overprovisioning(8 << 20, 256 << 10, 60.0).unwrap();
/// let drive = ModelDevice::new(ManagedConfig::new(geometry), Payload::None).unwrap();
/// let stream = |class| {
///     let (tenant, lifetime) = (String::new(), None);
///     Stream { tenant, class, write_share: 0.5, lifetime, places: true }
/// };
/// let plan = solve(&[stream(Class::Soc), stream(Class::Loc)], &drive.info().placement);
/// assert_ne!(plan.handle_of("", Class::Soc), plan.handle_of("", Class::Loc));
/// assert!(plan.to_string().contains("a handle of its own"), "{plan}");
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PlacementPlan {
    streams: Vec<Assignment>,
    /// Handles of the device, including the default.
    handles: u16,
    groups: u16,
    path: &'static str,
}

impl PlacementPlan {
    /// The plan of a cache without flash.
    pub const NONE: &'static Self = &Self { streams: Vec::new(), handles: 0, groups: 0, path: "" };

    /// All streams, including metadata. Empty without flash.
    ///
    /// ```
    /// assert!(larder_device::plan::PlacementPlan::NONE.streams().is_empty());
    /// ```
    ///
    pub fn streams(&self) -> &[Assignment] {
        &self.streams
    }

    /// The handle of a stream; the default if the stream is not declared.
    ///
    /// ```
    /// use larder_device::plan::{Class, PlacementPlan};
    ///
    /// assert_eq!(PlacementPlan::NONE.handle_of("", Class::Loc).index(), 0);
    /// ```
    ///
    pub fn handle_of(&self, tenant: &str, class: Class) -> PlacementHandle {
        let mut of_tenant = self.streams.iter().filter(|stream| stream.tenant == tenant);
        let found = of_tenant.find(|stream| stream.class == class);
        found.map_or(PlacementHandle::DEFAULT, |stream| stream.handle)
    }

    /// The part of the plan that concerns one tenant.
    pub fn of_tenant(&self, tenant: &str) -> Self {
        let own = |stream: &&Assignment| stream.tenant == tenant;
        Self { streams: self.streams.iter().filter(own).cloned().collect(), ..*self }
    }

    /// This plan combined with that of other tenants, which have a device of their own.
    #[must_use]
    pub fn beside(mut self, other: Self) -> Self {
        self.streams.extend(other.streams);
        let path = match (self.path, other.path) {
            ("", path) | (path, "") => path,
            (one, other) if one == other => one,
            _ => "of each device",
        };
        let (handles, groups) = (self.handles.max(other.handles), self.groups.max(other.groups));
        Self { streams: self.streams, handles, groups, path }
    }

    /// Number of streams that have to share a handle or use the default.
    pub fn compromised_streams(&self) -> u64 {
        let compromised = |why| !matches!(why, Why::Alone | Why::Metadata);
        self.streams.iter().filter(|stream| compromised(stream.why)).count() as u64
    }
}
