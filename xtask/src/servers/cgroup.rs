//! A control group with a limit of memory, until it is dropped. The page cache of what is in it counts.

use std::fs;
use std::path::{Path, PathBuf};

/// Where the two versions of control groups keep those of memory, with the name of their limit.
const ROOTS: [(&str, &str); 2] =
    [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];

/// See the module.
pub(super) struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// Puts a process into a group of its own.
    pub(super) fn of(process: u32, name: &str, bytes: u64) -> Result<Self, String> {
        let path_of = |root: &str| Path::new(root).join(format!("larder-servers-{process}"));
        for (root, limit) in ROOTS {
            let group = Self { path: path_of(root) };
            if fs::create_dir(&group.path).is_err() {
                continue;
            }
            // Of the second version the root's children have memory only if it was given to them.
            let _ = fs::write(Path::new(root).join("cgroup.subtree_control"), "+memory");
            if fs::write(group.path.join(limit), bytes.to_string()).is_err() {
                continue;
            }
            let moved = fs::write(group.path.join("cgroup.procs"), process.to_string());
            return match moved {
                Ok(()) => Ok(group),
                Err(cause) => Err(format!("{name}: {}: {cause}", group.path.display())),
            };
        }
        Err(format!(
            "{name}: no control group of memory can be made; be root, on Linux with cgroups"
        ))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes a group whose process ends.
pub(super) fn remove(group: &Path) {
    // The kernel takes a moment to see that the process has gone.
    for _ in 0..50 {
        if fs::remove_dir(group).is_ok() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
