//! The flash of a server: a file in its data directory.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use indicatif::BinaryBytes;
use larder::{Device, FileDevice};
use larder_lab::Error;

use super::settings::Settings;
use super::sizes;

/// Name of the file in the data directory.
const FILE: &str = "larder.flash";

/// Where the cache's flash is, if it has some.
pub(crate) struct Data {
    file: Option<(PathBuf, Arc<FileDevice>)>,
}

impl Data {
    /// Opens the flash file, and makes it and its directory if they are not there.
    pub(crate) fn open(settings: &Settings) -> Result<Self, Error> {
        let (flash, memory) = (settings.flash.0, settings.memory.0);
        if flash == Some(0) {
            return Ok(Self { file: None });
        }
        let directory = settings.data_dir.0.clone().map_or_else(default_directory, Ok)?;
        let refused = |doing: &str, error: &dyn std::fmt::Display| {
            let at = directory.display();
            Error::Usage(format!(
                "--data-dir {at}: cannot {doing} ({error}); name a directory that this user may write to"
            ))
        };
        fs::create_dir_all(&directory).map_err(|error| refused("make it", &error))?;
        let path = directory.join(FILE);
        let there = fs::metadata(&path).map(|found| found.len()).ok().filter(|bytes| *bytes > 0);
        let bytes = match (flash, there) {
            (Some(bytes), _) => bytes >> 12 << 12,
            (None, Some(bytes)) => bytes,
            (None, None) => {
                let free =
                    sizes::free(&directory).map_err(|error| refused("see its space", &error))?;
                sizes::flash(memory, free)
            }
        };
        let device = FileDevice::create(&path, bytes).map_err(|error| {
            refused(&format!("open {FILE} of {} in it", BinaryBytes(bytes)), &error)
        })?;
        Ok(Self { file: Some((path, Arc::new(device))) })
    }

    pub(crate) fn device(&self) -> Option<Arc<dyn Device>> {
        self.file.as_ref().map(|(_, device)| Arc::clone(device) as Arc<dyn Device>)
    }

    /// What it is, for people.
    pub(crate) fn describe(&self) -> String {
        let Some((path, device)) = &self.file else { return "none: DRAM only".to_owned() };
        let bytes = BinaryBytes(device.info().capacity_bytes);
        let how = if device.direct() { "direct" } else { "through the page cache" };
        format!("{bytes} in {} ({how})", path.display())
    }
}

/// Where a service manager says, or where such things are kept.
pub(crate) fn default_directory() -> Result<PathBuf, Error> {
    if let Some(directory) = std::env::var_os("STATE_DIRECTORY") {
        return Ok(directory.into());
    }
    if rustix::process::geteuid().is_root() {
        return Ok("/var/lib/larder".into());
    }
    let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share"));
    let Some(data) = data.or_else(home) else {
        return Err(Error::Usage("no home directory: say where with --data-dir".to_owned()));
    };
    Ok(data.join("larder"))
}
