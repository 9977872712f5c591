//! A device whose drive's counters are read while it is in use.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{Opened, Target};
use crate::device::Device;
use crate::device::Extent;
use crate::error::{Error, ErrorKind};
use crate::info::{DeviceInfo, DeviceStats};
use crate::io::{CheckedIo, IoFuture};
use crate::nvme::live::Watched;
use crate::nvme::node::Roots;
use crate::nvme::{Commands, DriveFile, LiveCounters, Node};

/// The device, and the thread that reads its drive's counters.
struct WatchedDevice {
    /// Dropped before the device, because its thread reads the device's counters.
    counters: LiveCounters,
    device: Arc<dyn Device>,
}

impl Device for WatchedDevice {
    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        self.device.start(io)
    }

    fn stats(&self) -> DeviceStats {
        DeviceStats { drives: vec![self.counters.report()], ..self.device.stats() }
    }

    fn boot(&self) -> Option<u64> {
        self.device.boot()
    }

    fn stored_at(&self, range: Range<u64>) -> Vec<Extent> {
        self.device.stored_at(range)
    }
}

/// The same device; if it is on an NVMe drive, the drive's counters are read every `interval`.
pub(super) fn watched(
    opened: Opened,
    path: &Path,
    roots: &Roots,
    interval: Duration,
) -> Result<Opened, Error> {
    let Ok(node) = Node::find(path, roots) else { return Ok(opened) };
    let device = Arc::clone(&opened.device);
    let handles = device.info().placement.handles;
    let own = move || device.stats().host_written_bytes;
    let counters = counters(&node, roots, (Some(interval), handles), own)?;
    let device = WatchedDevice { counters, device: opened.device };
    Ok(Opened { device: Arc::new(device), ..opened })
}

fn counters(
    node: &Node,
    roots: &Roots,
    (interval, handles): (Option<Duration>, u16),
    own_bytes: impl Fn() -> u64 + Send + 'static,
) -> Result<LiveCounters, Error> {
    let watched = Watched {
        path: node.block_path.display().to_string(),
        nsid: node.nsid,
        block_bytes: node.block_bytes,
        range: node.range.clone(),
        handles,
    };
    // For a partition, ask the whole namespace.
    let whole = roots.dev.join(&node.namespace);
    let drive = DriveFile::open(node.generic_path.as_deref().unwrap_or(&whole), false);
    let drive = drive.map(|drive| Box::new(drive) as Box<dyn Commands>);
    LiveCounters::start(drive, watched, interval, own_bytes).map_err(|error| {
        Error::from_os(format!("{}: a thread for its counters", node.block_path.display()), error)
    })
}

/// The counters of the drive behind `target`, which need not be open. They are read now, and on each
/// [`LiveCounters::refresh`].
///
/// # Errors
/// [`ErrorKind::Setup`] if there is no NVMe drive behind it.
pub fn drive_counters(target: &str) -> Result<LiveCounters, Error> {
    let target: Target = target.parse().map_err(|why: String| Error::new(ErrorKind::Setup, why))?;
    let roots = Roots::default();
    counters(&Node::find(&target.path, &roots)?, &roots, (None, 1), || 0)
}
