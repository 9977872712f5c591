//! What is known of each write stream while the cache runs: its placement handle, the bytes written with it, and the
//! events that drives report about it.
//!
//! Drives know handles, not streams. So an event concerns all streams that write with its handle, and
//! [`HandleReport::of_all`] has each event once, whatever number of caches and tenants share the drive.

use larder_device::nvme::HandleEvents;
use larder_device::plan::{Assignment, Class};

use super::Larder;

/// A write stream, and what is known of its placement handle.
///
/// ```
/// use std::sync::Arc;
/// use larder::{Config, Larder, RealClock, block_on};
/// use larder_device::{ModelDevice, Payload};
/// use larder_ssd::managed::{Geometry, ManagedConfig};
///
/// let geometry = Geometry::with_overprovisioning(64 << 20, 256 << 10, 20.0).unwrap();
/// let drive = ModelDevice::new(ManagedConfig::new(geometry), Payload::Memory).unwrap();
/// let drive = drive.reporting("model:64M", Arc::new(RealClock));
/// let config = Config { dram_bytes: 8 << 20, ..Config::default() };
/// let cache = block_on(Larder::open(config, Some(Arc::new(drive)), Arc::new(RealClock)))?;
/// for report in cache.stream_reports() {
///     assert_eq!((report.path, report.events.moves()), ("model", 0));
///     println!("{}: {:?} bytes", report.assignment.class, report.handle_written_bytes);
/// }
/// # Ok::<(), larder::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StreamReport {
    /// The stream, its handle, the streams that share it, and why.
    pub assignment: Assignment,
    /// How placement reaches the device, as [`Stats::placement_path`](crate::Stats::placement_path).
    pub path: &'static str,
    /// Bytes that this cache wrote with the handle since it was opened. Streams of the cache that share the handle have
    /// the same number. `None` if the device does not count by handle.
    pub handle_written_bytes: Option<u64>,
    /// Events about the handle, of all drives below together. Streams that share the handle, of other caches too, have
    /// the same events.
    pub events: HandleEvents,
}

/// A placement handle of a drive: the streams that write with it, and the events about it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct HandleReport {
    /// Name of the drive, as [`DriveReport::path`](larder_device::nvme::DriveReport::path).
    pub drive: String,
    /// Tenant (empty for a cache that has its device for itself) and class of each stream. Empty if no stream of these
    /// caches uses the handle, and for events that name no handle.
    pub streams: Vec<(String, Class)>,
    /// The events, with the handle.
    pub events: HandleEvents,
}

impl HandleReport {
    /// The handles of the drives below `caches` that these caches use, and those that have events. Each handle of a
    /// drive is there once. Drives that report nothing are left out.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use larder::{HandleReport, RealClock, Tenant, Tenants, TenantsConfig, block_on};
    /// # use larder_device::{ModelDevice, Payload};
    /// # use larder_ssd::managed::{Geometry, ManagedConfig};
    /// # let geometry = Geometry::with_overprovisioning(128 << 20, 256 << 10, 20.0).unwrap();
    /// # let drive = ModelDevice::new(ManagedConfig { fdp: false, ..ManagedConfig::new(geometry) }, Payload::Memory);
    /// # let drive = drive.unwrap().reporting("model:128M", Arc::new(RealClock));
    /// # let config = TenantsConfig {
    /// #     dram_bytes: 8 << 20,
    /// #     tenants: vec![Tenant::new("photos", 50.0), Tenant::new("pages", 50.0)],
    /// #     ..TenantsConfig::default()
    /// # };
    /// # let tenants = block_on(Tenants::open(config, Some(Arc::new(drive)), Arc::new(RealClock)))?;
    /// // The drive has no placement, so both tenants write with the default handle.
    /// let handles = HandleReport::of_all(tenants.iter().map(|(_, cache)| cache));
    /// let [mixed, default] = &handles[..] else { panic!("{handles:?}") };
    /// assert_eq!((mixed.events.handle, default.events.moves()), (None, 0));
    /// assert_eq!(default.tenant_names(), "photos + pages");
    /// assert!(default.stream_names().contains(" + pages LOC"), "{}", default.stream_names());
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn of_all<'a>(caches: impl IntoIterator<Item = &'a Larder>) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for cache in caches {
            for drive in cache.drives().iter().filter(|drive| drive.looks > 0) {
                // There are numbers to compare later ones with before there are events.
                note(&mut all, &drive.path, &HandleEvents::default());
                for events in &drive.handles {
                    note(&mut all, &drive.path, events);
                }
                for stream in cache.placement().streams() {
                    let handle = Some(stream.handle);
                    let none = HandleEvents { handle, ..HandleEvents::default() };
                    let streams = &mut note(&mut all, &drive.path, &none).streams;
                    let name = (stream.tenant.clone(), stream.class);
                    if !streams.contains(&name) {
                        streams.push(name);
                    }
                }
            }
        }
        all.sort_by(|a, b| (&a.drive, a.events.handle).cmp(&(&b.drive, b.events.handle)));
        all
    }

    /// The tenants of the streams, joined by ` + `. [`HandleReport::of_all`] has an example.
    pub fn tenant_names(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for (tenant, _) in &self.streams {
            if !names.contains(&tenant.as_str()) {
                names.push(tenant);
            }
        }
        names.join(" + ")
    }

    /// The streams, joined by ` + `: each with its tenant if there are several tenants. `mixed` for events that name no
    /// handle.
    pub fn stream_names(&self) -> String {
        if self.events.handle.is_none() {
            return "mixed".to_owned();
        }
        let first = self.streams.first().map(|(tenant, _)| tenant);
        let is_of_one = self.streams.iter().all(|(tenant, _)| Some(tenant) == first);
        let name = |(tenant, class): &(String, Class)| match is_of_one {
            true => class.to_string(),
            false => format!("{tenant} {class}"),
        };
        self.streams.iter().map(name).collect::<Vec<_>>().join(" + ")
    }
}

/// The report of a handle of a drive, which is made of `events` if there was none.
fn note<'a>(
    all: &'a mut Vec<HandleReport>,
    drive: &str,
    events: &HandleEvents,
) -> &'a mut HandleReport {
    let is_same = |it: &HandleReport| it.drive == drive && it.events.handle == events.handle;
    let at = all.iter().position(is_same).unwrap_or_else(|| {
        let (drive, events) = (drive.to_owned(), events.clone());
        all.push(HandleReport { drive, streams: Vec::new(), events });
        all.len() - 1
    });
    // Of two reports, the one that was made later has more events.
    if all[at].events.last_read_at < events.last_read_at {
        all[at].events = events.clone();
    }
    &mut all[at]
}
