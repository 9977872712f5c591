//! The flash of a server: a file in its data directory, or the files of several shards.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use indicatif::BinaryBytes;
use larder::{Device, FileDevice};
use larder_device::{ErrorKind, FileOptions, create_private_directory};
use larder_workload::Error;

use super::settings::Settings;
use super::sizes;
use super::words;
use crate::data_directory::default_directory;

/// Name of the file in the data directory.
const FILE: &str = "larder.flash";

/// The flash of the cache.
pub(crate) enum Data {
    /// DRAM only.
    None,
    File(PathBuf, Arc<FileDevice>),
    /// In the order in which they were named; `None` for a file that cannot be opened.
    Shards(Vec<(PathBuf, Option<Arc<FileDevice>>)>),
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
        if !settings.files.0.is_empty() {
            let paths: Vec<&Path> = settings.files.0.iter().map(PathBuf::as_path).collect();
            let made = CreatedPaths::of(&paths);
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
        let device = FileDevice::create(&path, bytes).map_err(|error| {
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
        Ok((Self::File(path, Arc::new(device)), made))
    }

    /// Opens or creates a file for each shard. A file that cannot be opened counts as missing.
    fn open_all(settings: &Settings) -> Result<Self, Error> {
        let paths = &settings.files.0;
        let count = paths.len() as u64;
        let (flash, memory) =
            (settings.flash.0.map(|bytes| bytes / count), settings.memory.0 / count);
        let mut shards = Vec::new();
        let mut why = String::new();
        for path in paths {
            let device = shard(path, flash, memory);
            if let Err(error) = &device {
                why = format!("{}: {error}", path.display());
                super::complain(format_args!("warning: {why}; its shard has failed"));
            }
            shards.push((path.clone(), device.ok().map(Arc::new)));
        }
        if shards.iter().all(|(_, device)| device.is_none()) {
            return Err(Error::run(format!("no file of the set can be opened: {why}")));
        }
        Ok(Self::Shards(shards))
    }

    /// The single device, without shards.
    pub(crate) fn device(&self) -> Option<Arc<dyn Device>> {
        match self {
            Self::File(_, device) => Some(Arc::clone(device) as _),
            Self::None | Self::Shards(_) => None,
        }
    }

    /// The devices of a set.
    pub(crate) fn shards(&self) -> Option<Vec<Option<Arc<dyn Device>>>> {
        let Self::Shards(shards) = self else { return None };
        let shards = shards.iter().map(|(_, device)| device.clone().map(|device| device as _));
        Some(shards.collect())
    }

    /// Describes the flash for people.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::None => "none: DRAM only".to_owned(),
            Self::File(path, device) => described(path, device),
            Self::Shards(shards) => {
                let each = shards.iter().map(|(path, device)| match device {
                    Some(device) => described(path, device),
                    None => format!("{} is missing", path.display()),
                });
                let each: Vec<String> = each.collect();
                format!("{} shards: {}", shards.len(), each.join(", "))
            }
        }
    }
}

fn described(path: &Path, device: &FileDevice) -> String {
    let bytes = BinaryBytes(device.info().capacity_bytes);
    let how = if device.direct() { "direct" } else { "through the page cache" };
    format!("{bytes} in {} ({how})", path.display())
}

/// Opens the file or device of a shard; `flash` is its wanted size, if given.
fn shard(path: &Path, flash: Option<u64>, memory: u64) -> Result<FileDevice, String> {
    let found = fs::metadata(path).ok();
    // A block device has its own size.
    let is_device = found.as_ref().is_some_and(|found| !found.is_file());
    let there = found.map(|found| found.len()).filter(|bytes| *bytes > 0);
    let capacity_bytes = match (flash, there) {
        _ if is_device => None,
        (Some(bytes), _) => Some(bytes >> 12 << 12),
        (None, Some(_)) => None,
        (None, None) => {
            let directory = path.parent().filter(|it| !it.as_os_str().is_empty());
            let free = sizes::free(directory.unwrap_or(Path::new(".")));
            Some(sizes::flash(memory, free.map_err(|error| error.to_string())?))
        }
    };
    let create = capacity_bytes.is_some();
    let options = FileOptions { capacity_bytes, create, ..FileOptions::default() };
    FileDevice::open(path, &options).map_err(|error| words::of_serve(&error))
}
