//! The attributes of an inode.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Number of an inode. Numbers are never reused, so each names one file permanently.
pub type Ino = u64;

/// The root directory.
pub const ROOT: Ino = 1;

/// The kind of file of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::File,
        Self::Directory,
        Self::Symlink,
        Self::Fifo,
        Self::Socket,
        Self::CharDevice,
        Self::BlockDevice,
    ];

    /// The file type bits of `st_mode`.
    pub const fn mode_bits(self) -> u32 {
        match self {
            Self::File => 0o100_000,
            Self::Directory => 0o040_000,
            Self::Symlink => 0o120_000,
            Self::Fifo => 0o010_000,
            Self::Socket => 0o140_000,
            Self::CharDevice => 0o020_000,
            Self::BlockDevice => 0o060_000,
        }
    }

    /// The kind in the file type bits of `st_mode`. `None` if they are invalid.
    pub fn of_mode(mode: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.mode_bits() == mode & 0o170_000)
    }
}

/// A point in time: seconds since 1970, which may be negative, plus nanoseconds below 10^9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time {
    /// Whole seconds.
    pub seconds: i64,
    /// Nanoseconds after that, 0 to 999,999,999.
    pub nanoseconds: u32,
}

impl Time {
    /// The time `since` after 1970.
    pub fn after_epoch(since: Duration) -> Self {
        let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        Self { seconds, nanoseconds: since.subsec_nanos() }
    }
}

impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(since) => Self::after_epoch(since),
            Err(error) => {
                let before = error.duration();
                let up = u32::from(before.subsec_nanos() > 0);
                let seconds = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
                let nanoseconds = up * 1_000_000_000 - before.subsec_nanos();
                Self { seconds: -seconds - i64::from(up), nanoseconds }
            }
        }
    }
}

impl From<Time> for SystemTime {
    fn from(time: Time) -> Self {
        let whole = Duration::from_secs(time.seconds.unsigned_abs());
        let at = if time.seconds < 0 {
            UNIX_EPOCH.checked_sub(whole)
        } else {
            UNIX_EPOCH.checked_add(whole)
        };
        let at = at.and_then(|at| at.checked_add(Duration::from_nanos(time.nanoseconds.into())));
        at.unwrap_or(UNIX_EPOCH)
    }
}

/// The attributes that `stat` reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attributes {
    /// The inode.
    pub ino: Ino,
    /// The kind of file.
    pub kind: Kind,
    /// Permissions: the twelve bits of `chmod`.
    pub permissions: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Hard links; for a directory 2, plus one for each subdirectory.
    pub links: u32,
    /// Device number, for devices.
    pub rdev: u32,
    /// Length in bytes; for a directory that of its pages, for a symbolic link that of its target.
    pub size: u64,
    /// Bytes of its pages on the store, without holes.
    pub allocated_bytes: u64,
    /// Time of the last read, updated as with `relatime`.
    pub accessed: Time,
    /// Time of the last change of its data.
    pub modified: Time,
    /// Time of the last change of data or attributes.
    pub changed: Time,
    /// Time of its creation.
    pub created: Time,
}

/// Owner and permissions of a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// Owner of the file.
    pub uid: u32,
    /// Its group, unless the directory passes its own group on (set-group-ID).
    pub gid: u32,
    /// The twelve bits of `chmod`, with the umask applied; other bits are ignored.
    pub permissions: u16,
}

/// Attributes to set; `None` leaves an attribute unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetAttributes {
    /// The twelve bits of `chmod`.
    pub permissions: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length in bytes: data beyond it is dropped, added bytes read as zeros. Files only.
    pub size: Option<u64>,
    /// Time of the last read.
    pub accessed: Option<Time>,
    /// Time of the last change of its data.
    pub modified: Option<Time>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_are_kept() {
        for (seconds, nanoseconds) in [(0, 0), (-1, 5), (-7, 0), (9, 999_999_999), (-1 << 31, 1)] {
            let time = Time { seconds, nanoseconds };
            assert_eq!(Time::from(SystemTime::from(time)), time);
        }
    }

    #[test]
    fn modes_say_kinds() {
        for kind in Kind::ALL {
            assert_eq!(Kind::of_mode(kind.mode_bits() | 0o7777), Some(kind));
        }
        assert_eq!(Kind::of_mode(0o777), None);
    }
}
