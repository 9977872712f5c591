//! The emulated NVMe drive: one subsystem, one controller, and one or more namespaces, each with an image file.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::check::size;

/// Bytes before and after a partition that must not change.
const CANARY_BYTES: u64 = 1 << 20;
/// The first sector: boot code, four partition entries of 16 bytes, and a signature of two bytes.
const TABLE_BYTES: usize = 512;
const FIRST_PARTITION: usize = 446;
const KIND_LINUX: u8 = 0x83;

/// A drive.
#[derive(Debug, Clone, Default)]
pub(super) struct Drive {
    /// Options of QEMU's `nvme-subsys`: `fdp=on`, `fdp.runs=16M`, `fdp.nruh=8`.
    subsystem: Vec<String>,
    pub(super) namespaces: Vec<Namespace>,
}

/// A namespace of the drive. Numbers start at 1, in the order of the lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Namespace {
    size_bytes: u64,
    block_bytes: u64,
    /// Metadata bytes of each block.
    metadata_bytes: u64,
    /// Reclaim unit handles that it may use: `0;1;4-7`.
    ruhs: Option<String>,
    partition: Option<Partition>,
    read_only: bool,
    zoned: Option<ZoneShape>,
}

/// Zones of a namespace: bytes of each, and the limits on open and active zones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ZoneShape {
    zone_bytes: u64,
    open: u64,
    active: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Partition {
    start_bytes: u64,
    size_bytes: u64,
}

impl Namespace {
    /// Parses `size=64M block=4096 metadata=64 ruhs=0;1 partition=8M+16M readonly zoned=8M+10+12`; only the size is
    /// required.
    pub(super) fn read(words: &str) -> Result<Self, String> {
        let mut namespace = Self {
            size_bytes: 0,
            block_bytes: 512,
            metadata_bytes: 0,
            ruhs: None,
            partition: None,
            read_only: false,
            zoned: None,
        };
        for word in words.split_whitespace() {
            match word.split_once('=').unwrap_or((word, "")) {
                ("size", value) => namespace.size_bytes = size(value)?,
                ("block", value) => namespace.block_bytes = size(value)?,
                ("metadata", value) => namespace.metadata_bytes = size(value)?,
                ("ruhs", value) => namespace.ruhs = Some(value.to_owned()),
                ("partition", value) => {
                    let (start, length) =
                        value.split_once('+').ok_or("partition: START+SIZE is needed")?;
                    let (start_bytes, size_bytes) = (size(start)?, size(length)?);
                    namespace.partition = Some(Partition { start_bytes, size_bytes });
                }
                ("readonly", "") => namespace.read_only = true,
                ("zoned", value) => {
                    let numbers: Result<Vec<u64>, String> = value.split('+').map(size).collect();
                    let [zone_bytes, open, active] = numbers?[..] else {
                        return Err("zoned: SIZE+OPEN+ACTIVE is needed".to_owned());
                    };
                    namespace.zoned = Some(ZoneShape { zone_bytes, open, active });
                }
                _ => return Err(format!("a namespace knows no {word}")),
            }
        }
        Ok(namespace)
    }

    fn check(&self) -> Result<(), String> {
        if ![512, 4096].contains(&self.block_bytes) {
            return Err(format!("block={}: 512 or 4096 is needed", self.block_bytes));
        }
        if self.size_bytes == 0 || !self.size_bytes.is_multiple_of(CANARY_BYTES) {
            return Err("size: whole MiB are needed".to_owned());
        }
        let Some(partition) = self.partition else { return Ok(()) };
        let end = partition.start_bytes.checked_add(partition.size_bytes);
        let room = end.and_then(|end| end.checked_add(CANARY_BYTES));
        let whole = (partition.start_bytes | partition.size_bytes).is_multiple_of(CANARY_BYTES);
        let before = partition.start_bytes >= 2 * CANARY_BYTES;
        if whole && before && partition.size_bytes > 0 && room.is_some_and(|r| r <= self.size_bytes)
        {
            return Ok(());
        }
        Err("partition: whole MiB are needed, with 2 MiB before it and 1 MiB behind it".to_owned())
    }

    /// Makes the image.
    fn make(&self, path: &Path) -> Result<(), String> {
        let written = || {
            let mut file = File::create(path)?;
            file.set_len(self.size_bytes)?;
            if let Some(partition) = self.partition {
                file.write_all(&self.table(partition))?;
                for at in partition.canaries() {
                    file.seek(SeekFrom::Start(at))?;
                    file.write_all(&canary(at))?;
                }
            }
            file.flush()
        };
        written().map_err(|cause: std::io::Error| format!("{}: {cause}", path.display()))
    }

    /// An MBR partition table. Its numbers count logical blocks of the drive.
    fn table(&self, partition: Partition) -> [u8; TABLE_BYTES] {
        let mut table = [0; TABLE_BYTES];
        table[FIRST_PARTITION + 4] = KIND_LINUX;
        let numbers = [partition.start_bytes, partition.size_bytes];
        for (index, bytes) in numbers.into_iter().enumerate() {
            let blocks = u32::try_from(bytes / self.block_bytes).unwrap_or(u32::MAX);
            let at = FIRST_PARTITION + 8 + 4 * index;
            table[at..at + 4].copy_from_slice(&blocks.to_le_bytes());
        }
        table[TABLE_BYTES - 2..].copy_from_slice(&[0x55, 0xaa]);
        table
    }

    /// Whether nothing outside the partition has changed; `None` without a partition.
    fn untouched(&self, path: &Path) -> Result<Option<bool>, String> {
        let Some(partition) = self.partition else { return Ok(None) };
        let same = || {
            let mut file = File::open(path)?;
            let mut table = [0; TABLE_BYTES];
            file.read_exact(&mut table)?;
            let mut same = table == self.table(partition);
            for at in partition.canaries() {
                let expected = canary(at);
                let mut found = vec![0; expected.len()];
                file.seek(SeekFrom::Start(at))?;
                file.read_exact(&mut found)?;
                same &= found == expected;
            }
            Ok(same)
        };
        same().map(Some).map_err(|cause: std::io::Error| format!("{}: {cause}", path.display()))
    }
}

impl Partition {
    fn canaries(self) -> [u64; 2] {
        [self.start_bytes - CANARY_BYTES, self.start_bytes + self.size_bytes]
    }
}

/// A pattern that differs from place to place and that no program writes by chance.
fn canary(at: u64) -> Vec<u8> {
    let mut state = at | 1;
    let words = (0..CANARY_BYTES / 8).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.collect()
}

impl Drive {
    /// Parses the options of the subsystem.
    pub(super) fn subsystem(&mut self, words: &str) -> Result<(), String> {
        for word in words.split_whitespace() {
            if !word.starts_with("fdp") || !word.contains('=') || word.contains(',') {
                return Err(format!("subsystem {word}: fdp=on or fdp.NAME=VALUE is needed"));
            }
            self.subsystem.push(word.to_owned());
        }
        Ok(())
    }

    /// Fails if such a drive is not possible.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.namespaces.is_empty() {
            return Err("a drive needs a namespace".to_owned());
        }
        self.namespaces.iter().try_for_each(Namespace::check)
    }

    /// Makes the images in this directory.
    pub(super) fn make(&self, dir: &Path) -> Result<(), String> {
        self.numbered(dir).try_for_each(|(_, path, namespace)| namespace.make(&path))
    }

    /// Whether the space around each partition is unchanged, with the number of its namespace.
    pub(super) fn untouched(&self, dir: &Path) -> Result<Vec<(usize, bool)>, String> {
        let mut answers = Vec::new();
        for (number, path, namespace) in self.numbered(dir) {
            answers.extend(namespace.untouched(&path)?.map(|same| (number, same)));
        }
        Ok(answers)
    }

    /// Device nodes in /dev that exist once the kernel has found the whole drive.
    pub(super) fn nodes(&self) -> Vec<String> {
        let mut nodes = Vec::new();
        for (index, namespace) in self.namespaces.iter().enumerate() {
            let number = index + 1;
            nodes.extend([format!("/dev/nvme0n{number}"), format!("/dev/ng0n{number}")]);
            nodes.extend(namespace.partition.map(|_| format!("/dev/nvme0n{number}p1")));
        }
        nodes
    }

    /// QEMU's options. The controller is called `nvme0` and is in a slot from which it can be unplugged.
    pub(super) fn options(&self, dir: &Path) -> Vec<String> {
        let mut subsystem = "nvme-subsys,id=subsystem0".to_owned();
        for option in &self.subsystem {
            subsystem.push(',');
            subsystem.push_str(option);
        }
        let mut options = vec![subsystem, "pcie-root-port,id=port0,chassis=1".to_owned()];
        options.push("nvme,id=nvme0,serial=larder,subsys=subsystem0,bus=port0".to_owned());
        let mut words: Vec<String> =
            options.into_iter().flat_map(|device| ["-device".to_owned(), device]).collect();
        for (number, path, namespace) in self.numbered(dir) {
            let read_only = if namespace.read_only { "on" } else { "off" };
            // QEMU requires commas in such options to be doubled.
            let path = path.display().to_string().replace(',', ",,");
            words.extend([
                "-drive".to_owned(),
                format!("file={path},if=none,id=image{number},format=raw,readonly={read_only}"),
            ]);
            let block = namespace.block_bytes;
            let mut device = format!(
                "nvme-ns,drive=image{number},bus=nvme0,nsid={number},\
                 logical_block_size={block},physical_block_size={block}"
            );
            if namespace.metadata_bytes > 0 {
                device.push_str(&format!(",ms={}", namespace.metadata_bytes));
            }
            if let Some(ruhs) = &namespace.ruhs {
                device.push_str(",fdp.ruhs=");
                device.push_str(ruhs);
            }
            if let Some(ZoneShape { zone_bytes, open, active }) = namespace.zoned {
                device.push_str(&format!(
                    ",zoned=on,zoned.zone_size={zone_bytes},zoned.max_open={open},zoned.max_active={active}"
                ));
            }
            words.extend(["-device".to_owned(), device]);
        }
        words
    }

    fn numbered(&self, dir: &Path) -> impl Iterator<Item = (usize, PathBuf, &Namespace)> {
        let named =
            |(index, namespace)| (index + 1, dir.join(format!("ns{}.img", index + 1)), namespace);
        self.namespaces.iter().enumerate().map(named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(namespace: &str) -> Drive {
        let namespaces = vec![Namespace::read(namespace).unwrap()];
        let mut drive = Drive { subsystem: Vec::new(), namespaces };
        drive.subsystem("fdp=on fdp.nruh=2").unwrap();
        drive
    }

    #[test]
    fn a_byte_outside_the_partition_is_noticed_and_one_inside_is_not() {
        let dir = std::env::temp_dir().join(format!("larder-guest-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let drive = drive("size=8M block=4096 partition=3M+2M");
        drive.check().unwrap();
        for (at, expected) in [
            ((3 << 20, true), true),
            (((5 << 20) - 1, true), true),
            ((5 << 20, true), false),
            (((3 << 20) - 1, true), false),
            ((FIRST_PARTITION as u64, true), false),
            ((0, false), true),
        ] {
            drive.make(&dir).unwrap();
            let mut file = File::options().write(true).open(dir.join("ns1.img")).unwrap();
            if at.1 {
                file.seek(SeekFrom::Start(at.0)).unwrap();
                file.write_all(&[0xee]).unwrap();
            }
            assert_eq!(drive.untouched(&dir), Ok(vec![(1, expected)]), "byte {}", at.0);
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_table_counts_in_blocks() {
        let drive = drive("size=8M block=4096 partition=3M+2M");
        let namespace = &drive.namespaces[0];
        let table = namespace.table(namespace.partition.unwrap());
        assert_eq!(table[454..462], [0, 3, 0, 0, 0, 2, 0, 0]);
        assert_eq!(drive.nodes(), ["/dev/nvme0n1", "/dev/ng0n1", "/dev/nvme0n1p1"]);
    }

    #[test]
    fn options_are_those_of_the_emulator() {
        let words = drive("size=8M ruhs=0;1 readonly").options(Path::new("a,b"));
        assert_eq!(words[1], "nvme-subsys,id=subsystem0,fdp=on,fdp.nruh=2");
        assert!(words[7].contains("file=a,,b") && words[7].ends_with("readonly=on"), "{words:?}");
        assert!(words[9].ends_with("physical_block_size=512,fdp.ruhs=0;1"), "{words:?}");
    }

    #[test]
    fn drives_that_cannot_be_are_refused() {
        for words in ["size=8M block=1000", "block=512", "size=1000", "size=8M partition=1M+2M"] {
            assert!(drive(words).check().is_err(), "{words}");
        }
        assert!(drive("size=8M partition=2M+6M").check().is_err());
        assert!(Drive::default().check().is_err());
        assert!(Namespace::read("what=1").is_err());
        assert!(Drive::default().subsystem("fdp=on,drive=x").is_err());
    }
}
