//! The flash of a server: a file in its data directory, or the files of several shards.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use indicatif::BinaryBytes;
use larder::Device;
use larder_blocks::BlockStore;
use larder_device::{
    ErrorKind, FileOptions, ModelSpec, OpenOptions, Opened, PlacementMode, PlacementStatus, Target,
    TargetKind, create_private_directory,
};
use larder_server::OpenedDevice;
use larder_ssd::managed::PAGE_BYTES;
use larder_workload::Error;

use super::on_blocks::{self, OwnDevice, device_on};
use super::on_drive;
use super::settings::Settings;
use super::sizes;
use super::telling::complain;
use super::vssds::{IsolatedTenants, Levelled};
use super::words;
use crate::data_directory::default_directory;

/// Name of the file in the data directory.
const FILE: &str = "larder.flash";

/// The flash of the cache.
pub(crate) enum Data {
    /// DRAM only.
    None,
    File(Box<OpenedTarget>),
    /// In the order in which they were named; `None` for a target that cannot be opened.
    Shards(Vec<(Target, Option<OpenedTarget>)>),
    /// Virtual SSDs of one array.
    Isolated(IsolatedTenants),
    /// A file or drive of each tenant, in the order of the tenants.
    Own(Vec<OwnDrive>),
}

/// The file or drive of a tenant.
pub(crate) enum OwnDrive {
    Device(Box<OpenedTarget>),
    /// A zoned drive.
    Zones(Target, Arc<dyn BlockStore>),
}

/// A device, and the target that a user named.
pub(crate) struct OpenedTarget {
    target: Target,
    opened: Opened,
}

/// Files and directories that did not exist before, so that a failed start leaves nothing behind.
pub(crate) struct CreatedPaths(Vec<PathBuf>);

impl CreatedPaths {
    /// The `paths` that do not exist yet.
    fn of(paths: &[&Path]) -> Self {
        Self(paths.iter().filter(|path| !path.exists()).map(|path| path.to_path_buf()).collect())
    }

    /// Removes them. Failures are ignored: the user sees the error of the start.
    pub(crate) fn remove(&self) {
        for path in &self.0 {
            let _ = if path.is_dir() { fs::remove_dir(path) } else { fs::remove_file(path) };
        }
    }
}

impl Data {
    /// Opens the flash file, creating it and its directory if needed; or the files of all shards.
    pub(crate) fn open(settings: &Settings) -> Result<(Self, CreatedPaths), Error> {
        let (data, made) = Self::open_any(settings)?;
        let mut groups =
            data.opened().into_iter().map(|it| it.opened.device.info().placement.groups());
        groups
            .try_for_each(|groups| on_drive::check_groups(settings, groups))
            .inspect_err(|_| made.remove())?;
        Ok((data, made))
    }

    fn open_any(settings: &Settings) -> Result<(Self, CreatedPaths), Error> {
        let is_isolated = settings.tenants.iter().any(|tenant| tenant.isolated.is_some());
        if is_isolated && !settings.is_on_array() {
            on_drive::check(settings)?;
        } else if is_isolated {
            let array = IsolatedTenants::open(settings)?;
            return Ok((Self::Isolated(array), CreatedPaths(Vec::new())));
        }
        if settings.tenants.iter().any(|tenant| tenant.file.is_some()) {
            return Self::open_own(settings);
        }
        if let Some(opened) = Self::open_zoned(settings) {
            return Ok((Self::Own(vec![opened?]), CreatedPaths(Vec::new())));
        }
        if !settings.files.0.is_empty() {
            let files = settings.files.0.iter();
            let files = files.filter(|target| target.kind != Some(TargetKind::Model));
            let made = CreatedPaths::of(&files.map(|target| &*target.path).collect::<Vec<_>>());
            return Ok((Self::open_all(settings)?, made));
        }
        let (flash, memory) = (settings.flash.0, settings.memory.0);
        if flash == Some(0) {
            return Ok((Self::None, CreatedPaths(Vec::new())));
        }
        let directory = settings.data_dir.0.clone().map_or_else(default_directory, Ok)?;
        let refused = |doing: &str, error: &dyn std::fmt::Display, fix: &str| {
            let (at, why) = (directory.display(), words::of_serve(error));
            Error::Usage(format!("--data-dir {at}: cannot {doing} ({why}); {fix}"))
        };
        let unwritten = "name a directory that this user may write to";
        let path = directory.join(FILE);
        let made = CreatedPaths::of(&[&path, &directory]);
        create_private_directory(&directory)
            .map_err(|error| refused("make it", &error, unwritten))?;
        let there = fs::metadata(&path).map(|found| found.len()).ok().filter(|bytes| *bytes > 0);
        let bytes = match (flash, there) {
            (Some(bytes), _) => bytes >> 12 << 12,
            (None, Some(bytes)) => bytes,
            (None, None) => {
                let free = sizes::free(&directory)
                    .map_err(|error| refused("see its space", &error, unwritten))?;
                sizes::flash(memory, free)
            }
        };
        let file =
            FileOptions { capacity_bytes: Some(bytes), create: true, ..FileOptions::default() };
        let target = Target { kind: Some(TargetKind::File), path };
        let opened = OpenedTarget::open(target, file, settings.placement()).map_err(|error| {
            made.remove();
            let fix = match error.kind() {
                ErrorKind::InUse => "end the server that has it, or name another directory",
                ErrorKind::NoSpace => {
                    "use less flash (--flash), or name a directory with more room"
                }
                _ => unwritten,
            };
            refused(&format!("open {FILE} of {} in it", BinaryBytes(bytes)), &error, fix)
        })?;
        Ok((Self::File(Box::new(opened)), made))
    }

    /// Opens the zones of the only file, if it is a zoned drive. They are not divided among tenants.
    fn open_zoned(settings: &Settings) -> Option<Result<OwnDrive, Error>> {
        let [target] = settings.files.0.as_slice() else { return None };
        let zones = on_blocks::zones(target)?;
        if settings.tenants.len() > 1 {
            return Some(Err(Error::usage(format!(
                "file = \"{target}\": a zoned drive for {} tenants; give each a `file` of its own, such as a zoned \
                 namespace",
                settings.tenants.len()
            ))));
        }
        Some(zones.map(|zones| OwnDrive::Zones(target.clone(), zones)))
    }

    /// Opens or creates the file of each tenant.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // shares
    fn open_own(settings: &Settings) -> Result<(Self, CreatedPaths), Error> {
        let targets = settings.tenants.iter().map(|tenant| {
            tenant.file.as_ref().ok_or_else(|| {
                Error::usage(format!(
                    "tenant {:?}: file is missing: other tenants have a drive of their own, so it needs one too",
                    tenant.name
                ))
            })
        });
        let targets: Vec<&Target> = targets.collect::<Result<_, _>>()?;
        let made =
            CreatedPaths::of(&targets.iter().map(|target| &*target.path).collect::<Vec<_>>());
        let opened = settings.tenants.iter().zip(targets).map(|(tenant, target)| {
            let part = |bytes: u64| (bytes as f64 * tenant.percent / 100.0) as u64;
            let sizes = (settings.flash.0.map(part), part(settings.memory.0));
            if let Some(zones) = on_blocks::zones(target) {
                return Ok(OwnDrive::Zones(target.clone(), zones?));
            }
            let opened = shard(target, sizes, settings.placement());
            let opened = opened.map(|opened| OwnDrive::Device(Box::new(opened)));
            opened.map_err(|why| Error::run(format!("tenant {:?}: {target}: {why}", tenant.name)))
        });
        let opened: Result<Vec<_>, Error> = opened.collect();
        Ok((Self::Own(opened.inspect_err(|_| made.remove())?), made))
    }

    /// Levelling of the drives under isolated tenants, whose devices are `own`; `None` without these.
    pub(crate) fn level(
        &self,
        own: &[OwnDevice],
        settings: &Settings,
    ) -> Result<Option<Levelled>, Error> {
        let Self::Isolated(array) = self else { return Ok(None) };
        array.level(own, settings).map(Some)
    }

    /// Whether all caches are on erase blocks: those of virtual SSDs, or zones.
    pub(crate) fn is_on_blocks(&self) -> bool {
        match self {
            Self::Isolated(_) => true,
            Self::Own(drives) => drives.iter().all(|drive| drive.opened().is_none()),
            Self::None | Self::File(_) | Self::Shards(_) => false,
        }
    }

    /// Each tenant with its own device, if tenants have their own.
    pub(crate) fn own_devices(&self, settings: &Settings) -> Option<Result<Vec<OwnDevice>, Error>> {
        match self {
            Self::Isolated(array) => Some(array.devices(settings)),
            Self::Own(drives) => {
                let own = settings.tenants.iter().zip(drives).map(|(tenant, drive)| match drive {
                    OwnDrive::Device(it) => {
                        Ok((settings.tenant(tenant), Arc::clone(&it.opened.device)))
                    }
                    OwnDrive::Zones(_, zones) => device_on(Arc::clone(zones), tenant, settings),
                });
                Some(own.collect())
            }
            Self::None | Self::File(_) | Self::Shards(_) => None,
        }
    }

    /// Opens or creates a file for each shard. A file that cannot be opened counts as missing.
    fn open_all(settings: &Settings) -> Result<Self, Error> {
        let targets = &settings.files.0;
        let count = targets.len() as u64;
        let (flash, memory) =
            (settings.flash.0.map(|bytes| bytes / count), settings.memory.0 / count);
        let mut shards = Vec::new();
        let mut why = String::new();
        for target in targets {
            let opened = shard(target, (flash, memory), settings.placement());
            if let Err(error) = &opened {
                why = format!("{target}: {error}");
                complain(format_args!("warning: {why}; its shard has failed"));
            }
            shards.push((target.clone(), opened.ok()));
        }
        if shards.iter().all(|(_, opened)| opened.is_none()) {
            return Err(Error::run(format!("no file of the set can be opened: {why}")));
        }
        Ok(Self::Shards(shards))
    }

    /// Whether each tenant has a part of each drive. On an array only some tenants share dies, and have their turns
    /// there.
    pub(crate) fn is_divided(&self) -> bool {
        matches!(self, Self::File(_) | Self::Shards(_))
    }

    /// The single device, without shards.
    pub(crate) fn device(&self) -> Option<Arc<dyn Device>> {
        match self {
            Self::File(file) => Some(Arc::clone(&file.opened.device)),
            Self::None | Self::Shards(_) | Self::Isolated(_) | Self::Own(_) => None,
        }
    }

    /// The devices of a set.
    pub(crate) fn shards(&self) -> Option<Vec<Option<Arc<dyn Device>>>> {
        let Self::Shards(shards) = self else { return None };
        let device = |opened: &OpenedTarget| Arc::clone(&opened.opened.device);
        Some(shards.iter().map(|(_, opened)| opened.as_ref().map(device)).collect())
    }

    /// The devices that are open.
    fn opened(&self) -> Vec<&OpenedTarget> {
        match self {
            Self::None | Self::Isolated(_) => Vec::new(),
            Self::File(file) => vec![file],
            Self::Own(drives) => drives.iter().filter_map(OwnDrive::opened).collect(),
            Self::Shards(shards) => {
                shards.iter().filter_map(|(_, opened)| opened.as_ref()).collect()
            }
        }
    }

    /// The placement of each open device.
    pub(crate) fn placements(&self) -> impl Iterator<Item = &PlacementStatus> {
        self.opened().into_iter().map(|opened| &opened.opened.status)
    }

    /// How the devices of the shards were opened, for the admin address.
    pub(crate) fn reports(&self, settings: &Settings) -> Vec<OpenedDevice> {
        match self {
            Self::None | Self::Isolated(_) => Vec::new(),
            Self::File(file) => vec![file.report(settings)],
            // A tenant's only cache is its shard 0, whichever drive that is on.
            Self::Own(drives) => {
                let first = drives.iter().take(1).filter_map(OwnDrive::opened);
                first.map(|opened| opened.report(settings)).collect()
            }
            Self::Shards(shards) => {
                let report = |opened: &Option<OpenedTarget>| {
                    opened.as_ref().map(|opened| opened.report(settings)).unwrap_or_default()
                };
                shards.iter().map(|(_, opened)| report(opened)).collect()
            }
        }
    }

    /// Describes the flash for people.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::None => "none: DRAM only".to_owned(),
            Self::File(file) => file.describe(),
            Self::Isolated(array) => array.describe().join("; "),
            Self::Own(drives) => {
                let each: Vec<String> = drives.iter().map(OwnDrive::describe).collect();
                each.join(", ")
            }
            Self::Shards(shards) => {
                let each = shards.iter().map(|(target, opened)| match opened {
                    Some(opened) => opened.describe(),
                    None => format!("{target} is missing"),
                });
                let each: Vec<String> = each.collect();
                match each.as_slice() {
                    [one] => one.clone(),
                    each => format!("{} shards: {}", each.len(), each.join(", ")),
                }
            }
        }
    }
}

impl OwnDrive {
    fn opened(&self) -> Option<&OpenedTarget> {
        match self {
            Self::Device(opened) => Some(opened),
            Self::Zones(..) => None,
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::Device(opened) => opened.describe(),
            Self::Zones(target, zones) => {
                let info = zones.info();
                let bytes = BinaryBytes(info.blocks * info.block_bytes);
                let zone = BinaryBytes(info.block_bytes);
                format!("{bytes} in {}, in zones of {zone}", target.path.display())
            }
        }
    }
}

impl OpenedTarget {
    fn open(
        target: Target,
        file: FileOptions,
        placement: PlacementMode,
    ) -> Result<Self, larder_device::Error> {
        let opened = larder_device::open(&target.to_string(), &OpenOptions { placement, file })?;
        Ok(Self { target, opened })
    }

    fn report(&self, settings: &Settings) -> OpenedDevice {
        let spec = (self.target.kind == Some(TargetKind::Model))
            .then(|| self.target.path.to_string_lossy().parse::<ModelSpec>().ok()?.config().ok())
            .flatten();
        let capacity_bytes = self.opened.device.info().capacity_bytes;
        let flash_bytes = match spec {
            Some(config) => Some(config.geometry.physical_pages() * PAGE_BYTES),
            None => settings.watching.flash_bytes(capacity_bytes),
        };
        let expected = settings.cache.placement().is_some_and(|mode| mode != PlacementMode::Off);
        OpenedDevice { flash_bytes, ..OpenedDevice::of(&self.opened, expected) }
    }

    fn describe(&self) -> String {
        let Self { target, opened } = self;
        let bytes = BinaryBytes(opened.device.info().capacity_bytes);
        if target.kind == Some(TargetKind::Model) {
            return format!("{bytes} of a simulated drive, in memory beside `memory` ({target})");
        }
        let how = if opened.direct { "direct" } else { "through the page cache" };
        format!("{bytes} in {} ({how})", target.path.display())
    }
}

/// Opens the file or drive of a shard; `flash` is its wanted size, if given.
fn shard(
    target: &Target,
    (flash, memory): (Option<u64>, u64),
    placement: PlacementMode,
) -> Result<OpenedTarget, String> {
    let found = fs::metadata(&target.path).ok();
    // Drives, real or simulated, have their own size.
    let has_size = target.kind == Some(TargetKind::Model)
        || found.as_ref().is_some_and(|found| !found.is_file());
    let there = found.map(|found| found.len()).filter(|bytes| *bytes > 0);
    let capacity_bytes = match (flash, there) {
        _ if has_size => None,
        (Some(bytes), _) => Some(bytes >> 12 << 12),
        (None, Some(_)) => None,
        (None, None) => {
            let directory = target.path.parent().filter(|it| !it.as_os_str().is_empty());
            let free = sizes::free(directory.unwrap_or(Path::new(".")));
            Some(sizes::flash(memory, free.map_err(|error| error.to_string())?))
        }
    };
    let create = capacity_bytes.is_some();
    let file = FileOptions { capacity_bytes, create, ..FileOptions::default() };
    let opened = OpenedTarget::open(target.clone(), file, placement);
    opened.map_err(|error| words::of_serve(&error))
}
