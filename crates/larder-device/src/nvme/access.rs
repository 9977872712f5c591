//! The user's permissions on a device node, and opening it exclusively.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, OFlags, accessat};

/// What the effective user may do with a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permissions {
    /// Open it for reading.
    pub read: bool,
    /// Open it for writing.
    pub write: bool,
}

impl Permissions {
    /// Permissions on a path; none where the path does not exist. It opens nothing, because closing a block device that
    /// was open for writing makes the system rescan its partitions.
    pub fn of(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        let may = |access| accessat(CWD, path, access, AtFlags::EACCESS).is_ok();
        Self { read: may(Access::READ_OK), write: may(Access::WRITE_OK) }
    }
}

/// Opens a block device for writing, exclusively: until it is closed, no other program can mount it or open it so.
///
/// # Errors
/// [`io::ErrorKind::ResourceBusy`] if it, or a part of it, is mounted or used by another device; other errors of the
/// operating system.
pub fn open_exclusive(path: impl AsRef<Path>) -> io::Result<File> {
    let flags = i32::try_from(OFlags::EXCL.bits()).expect("a small flag");
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)
}

/// Release of the running kernel, such as (6, 18).
pub fn kernel_release() -> Option<(u32, u32)> {
    parse_release(&std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?)
}

fn parse_release(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim().split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn releases_are_two_numbers() {
        assert_eq!(parse_release("6.18.15+deb13-cloud-amd64\n"), Some((6, 18)));
        assert_eq!(parse_release("5.10\n"), Some((5, 10)));
        assert_eq!(parse_release("unknown"), None);
        assert!(kernel_release().is_some());
    }

    #[test]
    fn permissions_are_those_of_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mode =
            |mode| fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
        mode(0o600);
        assert_eq!(Permissions::of(file.path()), Permissions { read: true, write: true });
        mode(0o400);
        assert!(Permissions::of(file.path()).read);
        let none = Permissions { read: false, write: false };
        assert_eq!(Permissions::of("/nowhere/at/all"), none);
    }
}
