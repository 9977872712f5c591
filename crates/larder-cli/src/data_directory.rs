//! The directory in which Larder keeps its own files.

use std::path::PathBuf;

use larder_workload::Error;

/// The directory from the service manager, or the usual one.
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
