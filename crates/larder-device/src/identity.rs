//! Recognises a device when it is opened again, possibly under another name.
//!
//! Names of disks change from boot to boot, and those of loop devices whenever they are set up. So a path proves
//! nothing. Identifiers that the drive, its partition or its volume reports do, and for a file its inode.

use std::fmt;

/// Longest value of an identifier that is kept, in bytes.
const VALUE_BYTES_MAX: usize = 96;

/// The kind of an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum IdentifierKind {
    /// The world wide name of a drive or namespace (WWN, EUI-64, NGUID), as in sysfs.
    Wwn,
    /// The serial number of a drive.
    Serial,
    /// The UUID of a partition in its partition table.
    Partition,
    /// The UUID of a volume of the device mapper or of a software RAID.
    Volume,
    /// The UUID of the file system on the device, as `blkid` prints it. It is stored on the device, so only a program
    /// that reads the device knows it.
    FileSystem,
    /// A name in `/dev/disk/by-id`.
    ById,
    /// Device and inode of a file, or of the file behind a loop device.
    Inode,
}

impl IdentifierKind {
    const ALL: [Self; 7] = [
        Self::Wwn,
        Self::Serial,
        Self::Partition,
        Self::Volume,
        Self::FileSystem,
        Self::ById,
        Self::Inode,
    ];

    /// Whether a device with a different value is certainly another device. The other kinds change with a copy, a
    /// restored file, a version of udev or `mkfs`.
    pub fn is_strong(self) -> bool {
        !matches!(self, Self::FileSystem | Self::ById | Self::Inode)
    }

    /// Its name, for people and for storage.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wwn => "WWN",
            Self::Serial => "serial",
            Self::Partition => "partition UUID",
            Self::Volume => "volume UUID",
            Self::FileSystem => "file-system UUID",
            Self::ById => "by-id",
            Self::Inode => "inode",
        }
    }
}

/// One identifier of a device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identifier {
    /// The kind.
    pub kind: IdentifierKind,
    /// Its value.
    pub value: String,
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.value)
    }
}

/// All identifiers of a device; empty if none are known, as for memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity(Vec<Identifier>);

impl Identity {
    /// An identity with at most one identifier of each kind, the first.
    pub fn new(identifiers: impl IntoIterator<Item = Identifier>) -> Self {
        let mut kept: Vec<Identifier> = Vec::new();
        for mut one in identifiers {
            // Identifiers are stored as lines.
            one.value.retain(|letter| !letter.is_control());
            while one.value.len() > VALUE_BYTES_MAX {
                one.value.pop();
            }
            let is_new = kept.iter().all(|known| known.kind != one.kind);
            if is_new && !one.value.is_empty() {
                kept.push(one);
            }
        }
        kept.sort();
        Self(kept)
    }

    /// The identity of the device or file that a path leads to, as the system reports it. Empty if it reports nothing.
    pub fn of_path(path: &std::path::Path) -> Self {
        #[cfg(target_os = "linux")]
        return linux::identify(path);
        #[cfg(not(target_os = "linux"))]
        {
            let _ = path;
            Self::default()
        }
    }

    /// The identifiers, ordered by kind.
    pub fn identifiers(&self) -> &[Identifier] {
        &self.0
    }

    /// The identifier of this kind.
    pub fn of_kind(&self, kind: IdentifierKind) -> Option<&Identifier> {
        self.0.iter().find(|identifier| identifier.kind == kind)
    }

    /// Whether no identifier is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Pairs of identifiers of the same kind with different values: this identity's, and the other's.
    pub fn differing<'a>(
        &'a self,
        other: &'a Self,
    ) -> impl Iterator<Item = (&'a Identifier, &'a Identifier)> {
        let same_kind =
            |one: &'a Identifier| other.0.iter().find(|it| it.kind == one.kind).map(|it| (one, it));
        self.0.iter().filter_map(same_kind).filter(|(one, other)| one.value != other.value)
    }

    /// Whether both share at least one identifier, and differ in none.
    pub fn agrees(&self, other: &Self) -> bool {
        let mut all = self.0.iter();
        all.any(|one| other.0.contains(one)) && self.differing(other).next().is_none()
    }

    /// The identity as text, one identifier per line.
    pub fn to_lines(&self) -> String {
        let line = |one: &Identifier| format!("{}={}\n", one.kind.name(), one.value);
        self.0.iter().map(line).collect()
    }

    /// Parses such text. Unknown lines are ignored.
    pub fn from_lines(text: &str) -> Self {
        let of_line = |line: &str| {
            let (name, value) = line.split_once('=')?;
            let kind = IdentifierKind::ALL.into_iter().find(|kind| kind.name() == name)?;
            Some(Identifier { kind, value: value.to_owned() })
        };
        Self::new(text.lines().filter_map(of_line))
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("unknown");
        }
        let all: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&all.join(", "))
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::Metadata;
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    use std::path::{Path, PathBuf};

    use super::{Identifier, IdentifierKind, Identity};

    pub(super) fn identify(path: &Path) -> Identity {
        let Ok(metadata) = std::fs::metadata(path) else { return Identity::default() };
        let kind = metadata.file_type();
        if kind.is_block_device() || kind.is_char_device() {
            return Identity::new(of_node(&metadata, kind.is_block_device()));
        }
        Identity::new(of_inode(&metadata))
    }

    fn of_inode(metadata: &Metadata) -> Option<Identifier> {
        let value = format!("{}:{}", metadata.dev(), metadata.ino());
        Some(Identifier { kind: IdentifierKind::Inode, value })
    }

    fn of_node(metadata: &Metadata, is_block: bool) -> Vec<Identifier> {
        let number = metadata.rdev();
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let class = if is_block { "block" } else { "char" };
        let shown = PathBuf::from(format!("/sys/dev/{class}/{major}:{minor}"));
        let Ok(own) = std::fs::canonicalize(shown) else { return Vec::new() };
        // The disk of a partition is its parent directory.
        let is_partition = own.join("partition").exists();
        let disk = if is_partition { own.join("..") } else { own.clone() };
        let first = |kind, places: &[PathBuf]| {
            let value = places.iter().find_map(|place| text(place))?;
            Some(Identifier { kind, value })
        };
        let mut found = Vec::new();
        let wwn = [disk.join("wwid"), disk.join("device/wwid"), disk.join("nguid")];
        found.extend(first(IdentifierKind::Wwn, &wwn));
        let serial = [disk.join("serial"), disk.join("device/serial")];
        found.extend(first(IdentifierKind::Serial, &serial));
        let volume = [disk.join("dm/uuid"), disk.join("md/uuid")];
        found.extend(first(IdentifierKind::Volume, &volume));
        if is_block {
            let linked = |directory, kind| {
                let value = linked_name(Path::new(directory), number)?;
                Some(Identifier { kind, value })
            };
            found.extend(linked("/dev/disk/by-partuuid", IdentifierKind::Partition));
            found.extend(linked("/dev/disk/by-id", IdentifierKind::ById));
        }
        if let Some(file) = text(&disk.join("loop/backing_file"))
            && let Ok(metadata) = std::fs::metadata(file)
        {
            found.extend(of_inode(&metadata));
        }
        found
    }

    fn text(path: &Path) -> Option<String> {
        let text = std::fs::read_to_string(path).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// The name of a link to the device of this number; if there are several, the first in order.
    fn linked_name(directory: &Path, number: u64) -> Option<String> {
        let leads_there = |path: &Path| {
            std::fs::metadata(path)
                .is_ok_and(|it| it.file_type().is_block_device() && it.rdev() == number)
        };
        let entries = std::fs::read_dir(directory).ok()?.flatten();
        let links = entries.filter(|entry| leads_there(&entry.path()));
        links.filter_map(|entry| entry.file_name().into_string().ok()).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: IdentifierKind, value: &str) -> Identifier {
        Identifier { kind, value: value.to_owned() }
    }

    #[test]
    fn what_is_stored_is_read() {
        let identity = Identity::new([
            of(IdentifierKind::Inode, "3:4"),
            of(IdentifierKind::Wwn, "naa.5\n000"),
            of(IdentifierKind::Wwn, "a second one"),
            of(IdentifierKind::Serial, &"ä".repeat(200)),
        ]);
        assert_eq!(identity.identifiers().len(), 3);
        assert_eq!(Identity::from_lines(&identity.to_lines()), identity);
        assert_eq!(Identity::from_lines("colour=red\nWWN\n\n=\n"), Identity::default());
        assert!(identity.to_string().starts_with("WWN naa.5000, serial ää"), "{identity}");
    }

    #[test]
    fn what_one_does_not_have_does_not_differ() {
        let one = Identity::new([of(IdentifierKind::Wwn, "1"), of(IdentifierKind::Serial, "s")]);
        let other =
            Identity::new([of(IdentifierKind::Serial, "s"), of(IdentifierKind::Inode, "1")]);
        assert!(one.agrees(&other) && one.differing(&other).next().is_none());
        assert!(!one.agrees(&Identity::default()));
        let third = Identity::new([of(IdentifierKind::Wwn, "2"), of(IdentifierKind::Serial, "s")]);
        assert!(!one.agrees(&third) && one.differing(&third).count() == 1);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_renamed_file_is_the_one_that_it_was() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::write(at("a"), "a").unwrap();
        std::fs::write(at("b"), "b").unwrap();
        let before = Identity::of_path(&at("a"));
        assert_ne!(before, Identity::of_path(&at("b")));
        std::fs::rename(at("a"), at("c")).unwrap();
        assert_eq!(before, Identity::of_path(&at("c")));
        assert!(Identity::of_path(&at("a")).is_empty(), "there is none");
    }
}
