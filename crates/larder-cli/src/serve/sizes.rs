//! Default sizes for a server, by this machine or its control group.

use std::fs;
use std::path::Path;

/// The default memory is this part of what there is.
const MEMORY_PART: u64 = 4;
/// The least default memory.
const MEMORY_MIN: u64 = 64 << 20;
/// Clients get this part of the memory.
const CLIENTS_PART: u64 = 8;
/// At least this.
const CLIENTS_MIN: u64 = 16 << 20;
/// And room for 8 of the longest values: each tenant and each direction needs some.
const CLIENTS_VALUES: u64 = 8;
/// Default flash, as a multiple of memory.
const FLASH_TIMES: u64 = 8;
/// Default flash is at most this part of the free space.
const FREE_PART: u64 = 2;

/// Default memory of the cache, in bytes.
pub(crate) fn memory() -> u64 {
    memory_of(machine_bytes(), group_bytes(Path::new("/")))
}

/// The bytes of `memory` for clients, with values of up to `value_max` bytes: less than half of it, unless that would
/// be too little to serve.
pub(crate) fn clients(memory: u64, value_max: u64) -> u64 {
    let wanted = (memory / CLIENTS_PART).max(CLIENTS_MIN);
    wanted.max(value_max.saturating_mul(CLIENTS_VALUES))
}

fn memory_of(machine: Option<u64>, group: Option<u64>) -> u64 {
    let there = match (machine, group) {
        (Some(machine), Some(group)) => machine.min(group),
        (machine, group) => machine.or(group).unwrap_or(0),
    };
    (there / MEMORY_PART).max(MEMORY_MIN) >> 20 << 20
}

/// Default flash in a directory with `free` bytes of free space.
pub(crate) fn flash(memory: u64, free: u64) -> u64 {
    (memory * FLASH_TIMES).min(free / FREE_PART) >> 20 << 20
}

/// Free space of the file system of a directory.
pub(crate) fn free(directory: &Path) -> std::io::Result<u64> {
    let found = rustix::fs::statvfs(directory)?;
    Ok(found.f_bavail * found.f_frsize)
}

fn machine_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}

/// The lowest limit of the control groups of this process. `root` is prepended to all paths.
fn group_bytes(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let limits = groups.lines().filter_map(|line| {
        // 0::/user.slice/… in version 2, 4:memory:/docker/… in version 1.
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let (mount, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let mount = root.join(mount);
        let own = mount.join(path.trim_start_matches('/'));
        // In a container the path may be that of the host, and the group may be the mount itself.
        let up = own.ancestors().take_while(|it| it.starts_with(&mount));
        up.filter_map(|group| fs::read_to_string(group.join(file)).ok()?.trim().parse().ok()).min()
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const G: u64 = 1 << 30;

    #[test]
    fn a_quarter_of_what_is_there() {
        assert_eq!(memory_of(Some(16 * G), None), 4 * G);
        assert_eq!(memory_of(Some(16 * G), Some(2 * G)), G / 2);
        assert_eq!(memory_of(Some(16 * G), Some(u64::MAX)), 4 * G);
        assert_eq!(memory_of(None, None), MEMORY_MIN);
        assert_eq!(memory_of(Some(100 << 20), None), MEMORY_MIN);
    }

    #[test]
    fn clients_have_an_eighth_but_enough_for_the_longest_values() {
        assert_eq!(clients(8 * G, 1 << 20), G);
        assert_eq!(clients(64 << 20, 1 << 20), 16 << 20);
        assert_eq!(clients(G, 128 << 20), G);
    }

    #[test]
    fn flash_leaves_half_of_what_is_free() {
        assert_eq!(flash(G, 100 * G), 8 * G);
        assert_eq!(flash(G, 6 * G), 3 * G);
        assert_eq!(flash(G, 1000), 0);
    }

    #[test]
    fn the_least_limit_of_all_groups_counts() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(group_bytes(root.path()), None);
        write("proc/self/cgroup", "0::/system.slice/larder.service\n");
        assert_eq!(group_bytes(root.path()), None);
        write("sys/fs/cgroup/system.slice/larder.service/memory.max", "max\n");
        write("sys/fs/cgroup/system.slice/memory.max", "5000000\n");
        assert_eq!(group_bytes(root.path()), Some(5_000_000));
        write("sys/fs/cgroup/system.slice/larder.service/memory.max", "3000000\n");
        assert_eq!(group_bytes(root.path()), Some(3_000_000));
        write("proc/self/cgroup", "4:cpu,memory:/docker/abc\n3:pids:/x\n");
        write("sys/fs/cgroup/memory/memory.limit_in_bytes", "7000000\n");
        assert_eq!(group_bytes(root.path()), Some(7_000_000), "the group is the mount itself");
    }
}
