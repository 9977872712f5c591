//! Mounting of a file system by FUSE.
//!
//! The kernel caches pages, names and attributes, and requests what it does not have. Only the kernel changes the file
//! system, so its caches stay valid. Mapped files go through its page cache. `fsync` of a file or directory reaches the
//! store's `flush`. The kernel checks permissions (`default_permissions`) and handles locks.

mod convert;
mod mounted;
mod requests;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fuser::{Config, MountOption, SessionACL};

use crate::filesystem::FileSystem;
pub use mounted::Mounted;
use requests::Requests;

/// Options of a mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountOptions {
    /// The source that `mount` shows.
    pub name: String,
    /// Allow other users than the one that mounts. Without it, not even root may use the mount.
    pub for_all: bool,
    /// The kernel refuses changes.
    pub read_only: bool,
    /// The kernel honours set-user-ID bits and device files.
    pub trusted: bool,
    /// Threads that answer requests of the kernel; at least 1.
    pub threads: usize,
    /// Interval after which changes are made durable without a request.
    pub sync_every: Duration,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            name: "larder-fs".to_owned(),
            for_all: false,
            read_only: false,
            trusted: false,
            threads: 2,
            sync_every: Duration::from_secs(5),
        }
    }
}

/// Mounts a file system at a directory. Separate threads serve it, and it is closed when it is unmounted: by
/// [`Mounted::unmount`], or from outside with `umount`.
///
/// # Errors
/// Errors of the kernel: no `/dev/fuse`, no such directory, no permission (without root, `fusermount3` is needed).
pub fn mount(fs: Arc<FileSystem>, path: &Path, options: &MountOptions) -> io::Result<Mounted> {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(options.name.clone()),
        MountOption::Subtype("larder".to_owned()),
        MountOption::DefaultPermissions,
        if options.read_only { MountOption::RO } else { MountOption::RW },
    ];
    if options.trusted {
        config.mount_options.extend([MountOption::Dev, MountOption::Suid]);
    }
    config.acl = if options.for_all { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(options.threads.max(1));
    let path = path.canonicalize()?;
    let kernel = fuser::spawn_mount(Requests::new(Arc::clone(&fs)), &path, &config)?;
    Mounted::new(kernel, path, fs, options.sync_every)
}
