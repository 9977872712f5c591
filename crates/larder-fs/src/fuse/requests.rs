//! Handling of kernel requests.
//!
//! The kernel counts its references to inodes: each reply with an inode holds it, and a `forget` releases it. So a file
//! without a name lives until it is no longer open.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use super::convert::{errno, file_attr, file_type};
use crate::attributes::{Attributes, Kind, Owner, SetAttributes, Time};
use crate::error::{Error, ErrorKind, Result};
use crate::filesystem::{FileSystem, SeekTo, Setting};
use crate::volume::Renaming;

/// How long the kernel may cache replies. Only the kernel changes the file system.
const KEPT: Duration = Duration::from_secs(60);
/// Inode numbers are not reused, so generations are not needed.
const GENERATION: Generation = Generation(0);
/// Maximum bytes of a write.
const WRITE_BYTES_MAX: u32 = 1 << 20;
/// Directory entries that are looked up at a time.
const ENTRIES: usize = 128;
/// The bits of a mode that `chmod` sets.
const PERMISSIONS: u32 = 0o7777;

/// Handles kernel requests for one file system.
pub(super) struct Requests {
    fs: Arc<FileSystem>,
}

fn permissions(mode: u32) -> u16 {
    u16::try_from(mode & PERMISSIONS).unwrap_or(0)
}

fn owner(request: &Request, mode: u32) -> Owner {
    Owner { uid: request.uid(), gid: request.gid(), permissions: permissions(mode) }
}

fn attributes(reply: ReplyAttr, found: Result<Attributes>) {
    match found {
        Ok(found) => reply.attr(&KEPT, &file_attr(&found)),
        Err(error) => reply.error(errno(&error)),
    }
}

fn bytes(reply: ReplyData, found: Result<Vec<u8>>) {
    match found {
        Ok(found) => reply.data(&found),
        Err(error) => reply.error(errno(&error)),
    }
}

fn done(reply: ReplyEmpty, result: Result<()>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(&error)),
    }
}

impl Requests {
    pub(super) fn new(fs: Arc<FileSystem>) -> Self {
        Self { fs }
    }

    fn entry(&self, reply: ReplyEntry, found: Result<Attributes>) {
        match found.and_then(|found| self.fs.hold(found.ino, 1).map(|()| found)) {
            Ok(found) => reply.entry(&KEPT, &file_attr(&found), GENERATION),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn time(&self, time: TimeOrNow) -> Time {
        match time {
            TimeOrNow::SpecificTime(time) => super::convert::time(time),
            TimeOrNow::Now => self.fs.now(),
        }
    }

    fn fallocate(&self, ino: u64, offset: u64, length: u64, mode: i32) -> Result<()> {
        let invalid = || Error::new(ErrorKind::InvalidRequest, "a range without an end");
        let range = offset..offset.checked_add(length).ok_or_else(invalid)?;
        let keeps = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        if mode & libc::FALLOC_FL_PUNCH_HOLE != 0 {
            return self.fs.punch(ino, range);
        }
        if mode & libc::FALLOC_FL_ZERO_RANGE != 0 {
            self.fs.punch(ino, range.clone())?;
        }
        self.fs.allocate(ino, range, keeps)
    }
}

impl Filesystem for Requests {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let wanted = [
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_CACHE_SYMLINKS,
        ];
        for flag in wanted {
            // A kernel that does not support a flag works without it.
            let _ = config.add_capabilities(flag);
        }
        let _ = config.set_max_write(WRITE_BYTES_MAX);
        Ok(())
    }

    fn destroy(&mut self) {
        // An error here has already occurred in a sync, or has the effect of a power loss.
        let _ = self.fs.close();
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(reply, self.fs.find(parent.0, name.as_bytes()));
    }

    fn forget(&self, _: &Request, ino: INodeNo, lookups: u64) {
        let _ = self.fs.release(ino.0, lookups);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        attributes(reply, self.fs.attributes(ino.0));
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = SetAttributes {
            permissions: mode.map(permissions),
            uid,
            gid,
            size,
            accessed: atime.map(|time| self.time(time)),
            modified: mtime.map(|time| self.time(time)),
        };
        attributes(reply, self.fs.set_attributes(ino.0, set));
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        bytes(reply, self.fs.read_link(ino.0));
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let Some(kind) = Kind::of_mode(mode) else { return reply.error(Errno::EINVAL) };
        let owner = owner(request, mode);
        self.entry(reply, self.fs.make_node(parent.0, name.as_bytes(), kind, owner, rdev));
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let made = self.fs.mkdir(parent.0, name.as_bytes(), owner(request, mode));
        self.entry(reply, made);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(reply, self.fs.unlink(parent.0, name.as_bytes()));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(reply, self.fs.rmdir(parent.0, name.as_bytes()));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let target = target.as_os_str().as_bytes();
        let owner = owner(request, PERMISSIONS);
        self.entry(reply, self.fs.symlink(parent.0, name.as_bytes(), target, owner));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let how = if flags.is_empty() {
            Renaming::Replace
        } else if flags == RenameFlags::RENAME_NOREPLACE {
            Renaming::NoReplace
        } else if flags == RenameFlags::RENAME_EXCHANGE {
            Renaming::Exchange
        } else {
            return reply.error(Errno::EINVAL);
        };
        let from = (parent.0, name.as_bytes());
        done(reply, self.fs.rename(from, (newparent.0, newname.as_bytes()), how));
    }

    fn link(
        &self,
        _: &Request,
        ino: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        self.entry(reply, self.fs.link(ino.0, newparent.0, newname.as_bytes()));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // Only the kernel changes the file, so its cached pages stay valid.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        bytes(reply, self.fs.read(ino.0, offset, usize::try_from(size).unwrap_or(0)));
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.fs.write(ino.0, offset, data) {
            Ok(written) => reply.written(u32::try_from(written).unwrap_or(u32::MAX)),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // Closing a file gives no durability guarantee. A program that needs one calls fsync.
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        done(reply, self.fs.fsync(ino.0));
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        done(reply, self.fs.fsync(ino.0));
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let entries = match self.fs.read_directory(ino.0, offset, ENTRIES) {
            Ok(entries) => entries,
            Err(error) => return reply.error(errno(&error)),
        };
        for entry in entries {
            let kind = file_type(entry.kind);
            let name = OsStr::from_bytes(&entry.name);
            if reply.add(INodeNo(entry.ino), entry.cookie, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn readdirplus(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let entries = match self.fs.read_directory(ino.0, offset, ENTRIES) {
            Ok(entries) => entries,
            Err(error) => return reply.error(errno(&error)),
        };
        for entry in entries {
            let is_dot = entry.name == b"." || entry.name == b"..";
            let Ok(found) = self.fs.attributes(entry.ino) else { continue };
            // The kernel counts each entry except the dots as a lookup.
            if !is_dot && self.fs.hold(entry.ino, 1).is_err() {
                continue;
            }
            let (ino, name) = (INodeNo(entry.ino), OsStr::from_bytes(&entry.name));
            if reply.add(ino, entry.cookie, name, &KEPT, &file_attr(&found), GENERATION) {
                if !is_dot {
                    let _ = self.fs.release(entry.ino, 1);
                }
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let space = self.fs.space();
        let (free, page) = (space.free_pages, space.page_bytes);
        let files = space.inodes.saturating_add(free);
        reply.statfs(space.pages, free, free, files, free, page, 255, page);
    }

    fn setxattr(
        &self,
        _: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        if is_acl(name) {
            return reply.error(Errno::from_i32(libc::EOPNOTSUPP));
        }
        let how = match flags {
            libc::XATTR_CREATE => Setting::Create,
            libc::XATTR_REPLACE => Setting::Replace,
            _ => Setting::Any,
        };
        done(reply, self.fs.set_extended(ino.0, name.as_bytes(), value, how));
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        if is_acl(name) {
            return reply.error(Errno::from_i32(libc::EOPNOTSUPP));
        }
        match self.fs.extended(ino.0, name.as_bytes()) {
            Ok(value) => attribute(reply, &value, size),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        match self.fs.extended_names(ino.0) {
            Ok(names) => {
                let list: Vec<u8> =
                    names.into_iter().flat_map(|name| [name, vec![0]]).flatten().collect();
                attribute(reply, &list, size);
            }
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(reply, self.fs.remove_extended(ino.0, name.as_bytes()));
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let made = self.fs.create(parent.0, name.as_bytes(), owner(request, mode));
        match made.and_then(|made| self.fs.hold(made.ino, 1).map(|()| made)) {
            Ok(made) => {
                let flags = FopenFlags::FOPEN_KEEP_CACHE;
                reply.created(&KEPT, &file_attr(&made), GENERATION, FileHandle(0), flags);
            }
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let known =
            libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE;
        if mode & !known != 0 {
            return reply.error(Errno::from_i32(libc::EOPNOTSUPP));
        }
        done(reply, self.fallocate(ino.0, offset, length, mode));
    }

    fn lseek(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let to = match whence {
            libc::SEEK_DATA => SeekTo::Data,
            libc::SEEK_HOLE => SeekTo::Hole,
            _ => return reply.error(Errno::EINVAL),
        };
        let Ok(offset) = u64::try_from(offset) else {
            return reply.error(Errno::from_i32(libc::ENXIO));
        };
        match self.fs.seek(ino.0, offset, to) {
            Ok(found) => reply.offset(i64::try_from(found).unwrap_or(i64::MAX)),
            Err(error) if error.kind() == ErrorKind::NoAttribute => {
                reply.error(Errno::from_i32(libc::ENXIO));
            }
            Err(error) => reply.error(errno(&error)),
        }
    }
}

/// The kernel would have to enforce access lists, which it does not for this file system.
fn is_acl(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"system.posix_acl_")
}

/// Replies with an attribute, or with its length if the kernel requests that.
fn attribute(reply: ReplyXattr, bytes: &[u8], size: u32) {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    if size == 0 {
        reply.size(length);
    } else if length > size {
        reply.error(Errno::from_i32(libc::ERANGE));
    } else {
        reply.data(bytes);
    }
}
