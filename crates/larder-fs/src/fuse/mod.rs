//! A file system for the kernel: mounted by FUSE.
//!
//! The kernel keeps pages, names and attributes, and asks for what it does not have. It alone changes the file system,
//! so what it keeps stays right. Mapped files go through its page cache. `fsync` of a file or directory reaches the
//! store's `flush`. Permissions are the kernel's matter (`default_permissions`); so are locks.

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

/// How a file system is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountOptions {
    /// What `mount` shows as its source.
    pub name: String,
    /// Others than the one who mounts may use it. Without it, root may not either.
    pub for_all: bool,
    /// The kernel refuses changes.
    pub read_only: bool,
    /// The kernel obeys set-user-ID bits and devices that are there.
    pub trusted: bool,
    /// Threads that answer the kernel; at least 1.
    pub threads: usize,
    /// What has changed is made durable after this time, though nobody asks for it.
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

/// Mounts a file system at a directory. It is served by threads of its own, and closed when it is unmounted: by
/// [`Mounted::unmount`], or by anybody with `umount`.
///
/// # Errors
/// What the kernel says: no `/dev/fuse`, no such directory, no permission (without root, `fusermount3` is needed).
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
