//! Finds the namespace behind a path that the user gives: device nodes, partitions, and links such as those of
//! `/dev/disk/by-id`, looked up in sysfs.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::{Error, ErrorKind};
use crate::info::VolatileCache;
use crate::sys;

/// Sector size of sysfs, independent of the device's block size.
const SECTOR_BYTES: u64 = 512;
/// Least bytes that a segment of a transfer holds: buffers are aligned to this.
const SEGMENT_BYTES: u32 = 4096;
/// Most bytes per deallocation where the kernel does not report a limit.
const DEALLOCATION_BYTES: u64 = 1 << 30;

/// The kind of node that a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// A namespace as a block device (`/dev/nvme0n1`).
    Block,
    /// A partition of it (`/dev/nvme0n1p2`).
    Partition,
    /// A namespace as a character device (`/dev/ng0n1`).
    Generic,
}

/// A namespace of an NVMe drive, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The kind of node that was asked for.
    pub kind: NodeKind,
    /// The block device's name (`nvme0n1`).
    pub namespace: String,
    /// The namespace's number on the drive.
    pub nsid: u32,
    /// Bytes of a logical block.
    pub block_bytes: u32,
    /// Size of the namespace in bytes.
    pub namespace_bytes: u64,
    /// The range of bytes of the namespace that the path stands for; for a partition, its own.
    pub range: Range<u64>,
    /// The block device; for a partition, the partition's.
    pub block_path: PathBuf,
    /// The character device of the namespace, if the kernel has made one.
    pub generic_path: Option<PathBuf>,
    /// The controllers of the drive; more than one if the drive can be reached on several paths.
    pub controller_paths: Vec<PathBuf>,
    /// Write streams of the block layer (Linux 6.16); 0 if there are none.
    pub write_streams: u16,
    /// Bytes that a stream fills before the drive starts its next reclaim unit.
    pub write_stream_granularity: u64,
    /// Most bytes of one command.
    pub max_transfer_bytes: u32,
    /// Most bytes of one deallocation.
    pub max_deallocation_bytes: u64,
    /// Most bytes that one command may zero; 0 if the kernel uses no such command here.
    pub max_zeroing_bytes: u64,
    /// Bytes of metadata per block, where the kernel reports them; else 0.
    pub metadata_bytes: u16,
    /// Whether a loss of power may undo writes that were not flushed.
    pub volatile_cache: VolatileCache,
    /// Longest write in bytes that a loss of power leaves either whole or undone, where the kernel reports it.
    pub atomic_write_bytes: Option<u32>,
    /// Whether the kernel refuses all writes to it.
    pub read_only: bool,
    /// Model and serial number, for messages.
    pub model: String,
}

/// Roots of sysfs and of the device nodes; tests use others.
#[derive(Debug, Clone)]
pub struct Roots {
    /// `/sys`.
    pub sys: PathBuf,
    /// `/dev`.
    pub dev: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self { sys: PathBuf::from("/sys"), dev: PathBuf::from("/dev") }
    }
}

impl Node {
    /// Finds the namespace that `path` leads to.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if there is none, for example for a controller, a mapped or striped device or a disk of
    /// another kind. The message says what to name instead.
    pub fn find(path: impl AsRef<Path>, roots: &Roots) -> Result<Self, Error> {
        let path = path.as_ref();
        let refuse = |complaint: &str| {
            Err(Error::new(ErrorKind::Setup, format!("{}: {complaint}", path.display())))
        };
        let real = fs::canonicalize(path)
            .map_err(|error| Error::from_os(path.display().to_string(), error))?;
        let Some(name) = real.file_name().and_then(|name| name.to_str()) else {
            return refuse("not a device node");
        };
        if name.starts_with("dm-") || name.starts_with("md") {
            return refuse(
                "a mapped or striped device, which passes no placement on; name the NVMe namespaces \
                 below it, and let the cache stripe over them",
            );
        }
        let generic = name.strip_prefix("ng").map(|rest| format!("nvme{rest}"));
        let block_name = generic.clone().unwrap_or_else(|| name.to_owned());
        let class = roots.sys.join("class/block").join(&block_name);
        if !class.exists() {
            return match name.strip_prefix("nvme") {
                Some(number) if number.bytes().all(|byte| byte.is_ascii_digit()) => refuse(
                    "a controller; name one of its namespaces, such as its n1 (see `larder device list`)",
                ),
                _ => refuse("not a namespace of an NVMe drive (see `larder device list`)"),
            };
        }
        let is_partition = class.join("partition").exists();
        let kind = match (&generic, is_partition) {
            (Some(_), _) => NodeKind::Generic,
            (None, true) => NodeKind::Partition,
            (None, false) => NodeKind::Block,
        };
        let whole = if is_partition {
            let real = fs::canonicalize(&class).map_err(|error| sysfs_error(&class, error))?;
            real.parent().map(Path::to_owned).unwrap_or(real)
        } else {
            class.clone()
        };
        let Ok(nsid) = read::<u32>(&whole.join("nsid")) else {
            return refuse("not a namespace of an NVMe drive (see `larder device list`)");
        };
        Self::from_sysfs(kind, nsid, &class, &whole, roots)
    }

    /// All namespaces of NVMe drives.
    pub fn all(roots: &Roots) -> Vec<Self> {
        let Ok(entries) = fs::read_dir(roots.sys.join("class/block")) else { return Vec::new() };
        let mut names: Vec<_> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            // Skip the per-path nodes of a multi-path drive (nvme0c1n1): they are not namespaces of their own.
            .filter(|name| name.starts_with("nvme") && !name["nvme".len()..].contains('c'))
            .collect();
        names.sort();
        let found = names.iter().filter_map(|name| {
            let class = roots.sys.join("class/block").join(name);
            let nsid = read(&class.join("nsid")).ok()?;
            Self::from_sysfs(NodeKind::Block, nsid, &class, &class, roots).ok()
        });
        found.collect()
    }

    fn from_sysfs(
        kind: NodeKind,
        nsid: u32,
        class: &Path,
        whole: &Path,
        roots: &Roots,
    ) -> Result<Self, Error> {
        let name_of = |path: &Path| {
            path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned()
        };
        let queue = whole.join("queue");
        let sectors = |path: PathBuf| -> Result<u64, Error> {
            Ok(read::<u64>(&path)?.saturating_mul(SECTOR_BYTES))
        };
        let namespace = name_of(whole);
        let namespace_bytes = sectors(whole.join("size"))?;
        let range = match kind {
            NodeKind::Partition => {
                let start = sectors(class.join("start"))?;
                let end = start.saturating_add(sectors(class.join("size"))?);
                if end > namespace_bytes {
                    let message = format!(
                        "{}: the partition ends at {end}, behind the end of {namespace} at \
                         {namespace_bytes}",
                        name_of(class)
                    );
                    return Err(Error::new(ErrorKind::Setup, message));
                }
                start..end
            }
            NodeKind::Block | NodeKind::Generic => 0..namespace_bytes,
        };
        let generic_path = namespace.strip_prefix("nvme").map(|rest| format!("ng{rest}"));
        let generic_path = generic_path.map(|name| roots.dev.join(name)).filter(|it| it.exists());
        let kib: u32 = read(&queue.join("max_hw_sectors_kb")).unwrap_or(128);
        let segments: u32 = read(&queue.join("max_segments")).unwrap_or(u32::MAX);
        let max_transfer_bytes =
            kib.saturating_mul(1024).min(segments.saturating_mul(SEGMENT_BYTES));
        let discard: u64 = read(&queue.join("discard_max_hw_bytes")).unwrap_or(0);
        let controllers = controllers_of(whole);
        Ok(Self {
            kind,
            nsid,
            block_bytes: read(&queue.join("logical_block_size"))?,
            namespace_bytes,
            range,
            block_path: roots.dev.join(name_of(class)),
            generic_path,
            write_streams: read(&queue.join("max_write_streams")).unwrap_or(0),
            write_stream_granularity: read(&queue.join("write_stream_granularity")).unwrap_or(0),
            max_transfer_bytes,
            max_deallocation_bytes: if discard > 0 { discard } else { DEALLOCATION_BYTES },
            max_zeroing_bytes: read(&queue.join("write_zeroes_max_bytes")).unwrap_or(0),
            metadata_bytes: sys::metadata_bytes(&queue),
            volatile_cache: sys::volatile_cache(&queue),
            atomic_write_bytes: sys::atomic_write_bytes(&queue),
            read_only: read::<u8>(&class.join("ro")).is_ok_and(|ro| ro == 1),
            model: controllers.first().map(|path| model_of(path)).unwrap_or_default(),
            controller_paths: controllers.iter().map(|it| roots.dev.join(name_of(it))).collect(),
            namespace,
        })
    }
}

/// The sysfs directories of the controllers through which a namespace is reached.
fn controllers_of(whole: &Path) -> Vec<PathBuf> {
    let Ok(device) = fs::canonicalize(whole.join("device")) else { return Vec::new() };
    let is_controller = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.strip_prefix("nvme")
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    if is_controller(&device) {
        return vec![device];
    }
    // A subsystem, with links to its controllers.
    let Ok(entries) = fs::read_dir(&device) else { return Vec::new() };
    let mut found: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|it| is_controller(it))
        .collect();
    found.sort();
    found
}

fn model_of(controller: &Path) -> String {
    let text = |name: &str| fs::read_to_string(controller.join(name)).unwrap_or_default();
    format!("{} {}", text("model").trim(), text("serial").trim()).trim().to_owned()
}

fn read<T: FromStr>(path: &Path) -> Result<T, Error> {
    let text = fs::read_to_string(path).map_err(|error| sysfs_error(path, error))?;
    let malformed = || {
        let message = format!("{}: \"{}\" is not a number", path.display(), text.trim());
        Error::new(ErrorKind::Setup, message)
    };
    text.trim().parse().map_err(|_| malformed())
}

fn sysfs_error(path: &Path, error: std::io::Error) -> Error {
    Error::from_os(format!("reading {}", path.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A sysfs with a namespace of 1 MiB and a partition, as the kernel lays it out.
    fn roots(folder: &Path) -> Roots {
        let roots = Roots { sys: folder.join("sys"), dev: folder.join("dev") };
        let subsystem = roots.sys.join("devices/virtual/nvme-subsystem/nvme-subsys0");
        let whole = subsystem.join("nvme0n1");
        let partition = whole.join("nvme0n1p1");
        fs::create_dir_all(whole.join("queue")).unwrap();
        fs::create_dir_all(&partition).unwrap();
        fs::create_dir_all(subsystem.join("nvme0")).unwrap();
        fs::create_dir_all(roots.sys.join("class/block")).unwrap();
        fs::create_dir_all(&roots.dev).unwrap();
        let write = |path: PathBuf, text: &str| fs::write(path, text).unwrap();
        write(whole.join("nsid"), "1\n");
        write(whole.join("size"), "2048\n");
        write(whole.join("ro"), "0\n");
        write(whole.join("queue/logical_block_size"), "4096\n");
        write(whole.join("queue/max_hw_sectors_kb"), "512\n");
        write(whole.join("queue/max_write_streams"), "8\n");
        write(whole.join("queue/write_zeroes_max_bytes"), "131072\n");
        write(whole.join("metadata_bytes"), "16\n");
        write(whole.join("queue/write_stream_granularity"), "16777216\n");
        write(subsystem.join("nvme0/model"), "QEMU NVMe Ctrl   \n");
        write(subsystem.join("nvme0/serial"), "a  \n");
        write(partition.join("partition"), "1\n");
        write(partition.join("start"), "8\n");
        write(partition.join("size"), "1000\n");
        write(partition.join("ro"), "1\n");
        symlink(&subsystem, whole.join("device")).unwrap();
        symlink(&whole, roots.sys.join("class/block/nvme0n1")).unwrap();
        symlink(&partition, roots.sys.join("class/block/nvme0n1p1")).unwrap();
        for name in ["nvme0n1", "nvme0n1p1", "ng0n1", "nvme0", "dm-0", "vda"] {
            write(roots.dev.join(name), "");
        }
        roots
    }

    #[test]
    fn a_namespace_is_found_by_block_device_character_device_and_link() {
        let folder = tempfile::tempdir().unwrap();
        let roots = roots(folder.path());
        let block = Node::find(roots.dev.join("nvme0n1"), &roots).unwrap();
        assert_eq!((block.kind, block.nsid, block.block_bytes), (NodeKind::Block, 1, 4096));
        assert_eq!((block.range.clone(), block.max_transfer_bytes), (0..1 << 20, 512 << 10));
        assert_eq!((block.write_streams, block.write_stream_granularity), (8, 16 << 20));
        assert_eq!((block.max_zeroing_bytes, block.metadata_bytes), (128 << 10, 16));
        assert_eq!(block.generic_path, Some(roots.dev.join("ng0n1")));
        assert_eq!(block.controller_paths, [roots.dev.join("nvme0")]);
        assert_eq!((block.model.as_str(), block.read_only), ("QEMU NVMe Ctrl a", false));
        let generic = Node::find(roots.dev.join("ng0n1"), &roots).unwrap();
        assert_eq!(generic, Node { kind: NodeKind::Generic, ..block.clone() });
        symlink(roots.dev.join("nvme0n1"), roots.dev.join("by-id")).unwrap();
        assert_eq!(Node::find(roots.dev.join("by-id"), &roots).unwrap(), block);
        assert_eq!(Node::all(&roots), [block]);
    }

    #[test]
    fn a_partition_is_its_range_of_the_namespace() {
        let folder = tempfile::tempdir().unwrap();
        let roots = roots(folder.path());
        let partition = Node::find(roots.dev.join("nvme0n1p1"), &roots).unwrap();
        assert_eq!((partition.kind, partition.nsid), (NodeKind::Partition, 1));
        assert_eq!(partition.range, 4096..4096 + 512_000);
        assert_eq!(partition.block_path, roots.dev.join("nvme0n1p1"));
        assert_eq!(partition.generic_path, Some(roots.dev.join("ng0n1")));
        assert!(partition.read_only);
        fs::write(roots.sys.join("class/block/nvme0n1p1/size"), "4096").unwrap();
        let error = Node::find(roots.dev.join("nvme0n1p1"), &roots).unwrap_err().to_string();
        assert!(error.contains("ends at 2101248, behind the end of nvme0n1 at 1048576"), "{error}");
    }

    #[test]
    fn what_is_no_namespace_is_refused_with_what_to_name() {
        let folder = tempfile::tempdir().unwrap();
        let roots = roots(folder.path());
        let complaint =
            |name: &str| Node::find(roots.dev.join(name), &roots).unwrap_err().to_string();
        assert!(complaint("nvme0").contains("a controller; name one of its namespaces"));
        assert!(complaint("dm-0").contains("a mapped or striped device"));
        assert!(complaint("vda").contains("not a namespace of an NVMe drive"));
        assert!(complaint("missing").contains("No such file"));
    }
}
