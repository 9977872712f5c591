//! A control group that limits the disk bandwidth of its processes, removed on drop: a slow drive, or one that stalls.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::cgroup;

/// A limit that no request fits into: requests wait until the limit is lifted.
const STALLED: u64 = 1;

/// See the module.
pub(super) struct Throttle {
    group: Group,
    /// The disk, as "major:minor".
    disk: String,
}

/// The two versions of control groups.
enum Group {
    First(PathBuf),
    Second(PathBuf),
}

impl Throttle {
    /// Makes a group for a process' I/O to the disk of `dir`, without a limit at first.
    pub(super) fn of(process: u32, dir: &Path) -> Result<Self, String> {
        let disk = disk_of(dir)?;
        let name = format!("larder-servers-{process}");
        let first = Path::new("/sys/fs/cgroup/blkio").join(&name);
        let second = Path::new("/sys/fs/cgroup").join(&name);
        let group = if fs::create_dir(&first).is_ok() {
            Group::First(first)
        } else if fs::create_dir(&second).is_ok() {
            let _ = fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+io");
            Group::Second(second)
        } else {
            return Err(
                "no control group of disks can be made; be root, on Linux with cgroups".to_owned()
            );
        };
        let throttle = Self { group, disk };
        throttle.write("cgroup.procs", &process.to_string()).map(|()| throttle)
    }

    /// Limits writes to this number of bytes a second.
    pub(super) fn slow_writes(&self, bytes_per_second: u64) -> Result<(), String> {
        self.limit("write", "wbps", bytes_per_second)
    }

    /// Stalls all reads and writes.
    pub(super) fn stall(&self) -> Result<(), String> {
        self.limit("read", "rbps", STALLED)?;
        self.limit("write", "wbps", STALLED)
    }

    /// Removes the limit.
    pub(super) fn lift(&self) -> Result<(), String> {
        self.limit("read", "rbps", 0)?;
        self.limit("write", "wbps", 0)
    }

    /// Sets the limit; 0 means no limit.
    fn limit(&self, first: &str, second: &str, bytes: u64) -> Result<(), String> {
        match &self.group {
            Group::First(_) => self.write(
                &format!("blkio.throttle.{first}_bps_device"),
                &format!("{} {bytes}", self.disk),
            ),
            Group::Second(_) => {
                let bytes = if bytes == 0 { "max".to_owned() } else { bytes.to_string() };
                self.write("io.max", &format!("{} {second}={bytes}", self.disk))
            }
        }
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        let (Group::First(path) | Group::Second(path)) = &self.group;
        let path = path.join(file);
        fs::write(&path, text).map_err(|cause| format!("{}: {text}: {cause}", path.display()))
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        let _ = self.lift();
        let (Group::First(path) | Group::Second(path)) = &self.group;
        cgroup::remove(path);
    }
}

/// The whole disk of a directory, because limits do not apply to partitions.
fn disk_of(dir: &Path) -> Result<String, String> {
    let told = |cause| format!("{}: {cause}", dir.display());
    let device = fs::metadata(dir).map_err(told)?.dev();
    let numbers = format!("{}:{}", major(device), minor(device));
    let entry = PathBuf::from("/sys/dev/block").join(&numbers);
    let entry = entry.canonicalize().map_err(|_| {
        format!("{}: it is on no disk (device {numbers}); name another with --dir", dir.display())
    })?;
    let whole =
        if entry.join("partition").exists() { entry.parent() } else { Some(entry.as_path()) };
    let whole = whole.ok_or("a partition of nothing")?.join("dev");
    let text =
        fs::read_to_string(&whole).map_err(|cause| format!("{}: {cause}", whole.display()))?;
    Ok(text.trim().to_owned())
}

/// The major number of a device, as glibc's macro calculates it.
fn major(device: u64) -> u64 {
    device >> 8 & 0xfff | device >> 32 & 0xffff_f000
}

fn minor(device: u64) -> u64 {
    device & 0xff | device >> 12 & 0xffff_ff00
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_are_divided_as_the_c_library_does() {
        assert_eq!((major(0xfe00), minor(0xfe00)), (254, 0));
        let (wide, deep) = (0x1_2345_u64, 0x67_89ab_u64);
        let device =
            (wide & 0xfff) << 8 | (wide & !0xfff) << 32 | deep & 0xff | (deep & !0xff) << 12;
        assert_eq!((major(device), minor(device)), (wide, deep));
    }
}
