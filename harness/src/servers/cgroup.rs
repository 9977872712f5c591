//! A control group with a memory limit, removed on drop. The page cache of its processes counts.

use std::fs;
use std::path::{Path, PathBuf};

/// Memory controllers of the two versions of control groups: directory, and name of the limit.
const ROOTS: [(&str, &str); 2] =
    [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];

/// See the module.
pub(super) struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// Puts a process into its own group.
    pub(super) fn of(process: u32, name: &str, bytes: u64) -> Result<Self, String> {
        let path_of = |root: &str| Path::new(root).join(format!("larder-servers-{process}"));
        for (root, limit) in ROOTS {
            let group = Self { path: path_of(root) };
            if fs::create_dir(&group.path).is_err() {
                continue;
            }
            // In version 2 a child group has a memory controller only if its parent enables it.
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

/// Removes a group whose process is ending.
pub(super) fn remove(group: &Path) {
    // The kernel takes a moment to notice that the process has exited.
    for _ in 0..50 {
        if fs::remove_dir(group).is_ok() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
