//! Conversion between types of the file system and of the kernel.

use std::time::{SystemTime, UNIX_EPOCH};

use fuser::{Errno, FileAttr, FileType, INodeNo};

use crate::attributes::{Attributes, Kind, Time};
use crate::error::{Error, ErrorKind};

/// The `errno` of an error.
pub(super) fn errno(error: &Error) -> Errno {
    Errno::from_i32(match error.kind() {
        ErrorKind::NotFound => libc::ENOENT,
        ErrorKind::Exists => libc::EEXIST,
        ErrorKind::NotDirectory => libc::ENOTDIR,
        ErrorKind::IsDirectory => libc::EISDIR,
        ErrorKind::NotEmpty => libc::ENOTEMPTY,
        ErrorKind::NoSpace => libc::ENOSPC,
        ErrorKind::NameTooLong => libc::ENAMETOOLONG,
        ErrorKind::InvalidRequest => libc::EINVAL,
        ErrorKind::TooManyLinks => libc::EMLINK,
        ErrorKind::FileTooLarge => libc::EFBIG,
        ErrorKind::NotPermitted => libc::EPERM,
        ErrorKind::NoAttribute => libc::ENODATA,
        ErrorKind::ReadOnly => libc::EROFS,
        ErrorKind::Damaged | ErrorKind::Io | ErrorKind::Setup => libc::EIO,
    })
}

/// Converts a time from the kernel. fuser 0.18 decodes a time before 1970 wrongly: it subtracts the nanoseconds, which
/// count forward from the second. A `SystemTime` of 1.25 s before 1970 therefore means a quarter of a second after the
/// time 1 s before 1970.
pub(super) fn time(sent: SystemTime) -> Time {
    match sent.duration_since(UNIX_EPOCH) {
        Ok(_) => sent.into(),
        Err(error) => {
            let before = error.duration();
            let seconds = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
            Time { seconds: -seconds, nanoseconds: before.subsec_nanos() }
        }
    }
}

pub(super) fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
    }
}

pub(super) fn file_attr(of: &Attributes) -> FileAttr {
    FileAttr {
        ino: INodeNo(of.ino),
        size: of.size,
        blocks: of.allocated_bytes / 512,
        atime: of.accessed.into(),
        mtime: of.modified.into(),
        ctime: of.changed.into(),
        crtime: of.created.into(),
        kind: file_type(of.kind),
        perm: of.permissions,
        nlink: of.links,
        uid: of.uid,
        gid: of.gid,
        rdev: of.rdev,
        blksize: 4096,
        flags: 0,
    }
}
