//! Random calls to a file system and to the model.

use std::sync::Arc;

use larder_fs::SetAttributes;
use larder_fs::{Error, ErrorKind, FileSystem, Ino, Kind, Owner, ROOT, Renaming, SeekTo, Setting};

use super::model::{Model, Node, Outcome};

/// Size of the test's file system.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// Number of names in each directory.
    pub(crate) names: u32,
    /// Approximate maximum number of inodes.
    pub(crate) inodes: usize,
    /// Maximum bytes of an ordinary file.
    pub(crate) file_bytes: u64,
    /// Bytes of the longest files, which are rare.
    pub(crate) long_bytes: u64,
    /// One call in this number is a sync.
    pub(crate) sync_every: u32,
}

/// A file system and its model.
pub(crate) struct Driver {
    pub(crate) fs: FileSystem,
    pub(crate) model: Model,
    pub(crate) rng: fastrand::Rng,
    pub(crate) scale: Scale,
    /// Whether the last call was a sync that succeeded.
    pub(crate) synced: bool,
}

/// The error: the store failed or has no room, so the result cannot be compared with the model.
pub(crate) type Step = Result<(), Error>;

fn is_answer(kind: ErrorKind) -> bool {
    !matches!(kind, ErrorKind::Io | ErrorKind::ReadOnly | ErrorKind::NoSpace | ErrorKind::Damaged)
}

/// Separates results about the file system from failures of the underlying store.
fn answered<T>(call: Result<T, Error>) -> Result<Result<T, Error>, Error> {
    match call {
        Err(error) if !is_answer(error.kind()) => Err(error),
        call => Ok(call),
    }
}

impl Driver {
    pub(crate) fn new(fs: FileSystem, model: Model, seed: u64, scale: Scale) -> Self {
        Self { fs, model, rng: fastrand::Rng::with_seed(seed), scale, synced: false }
    }

    fn name(&mut self) -> Vec<u8> {
        let number = self.rng.u32(..self.scale.names);
        let padding = if number.is_multiple_of(7) { 200 } else { 0 };
        format!("name {number}{}", "x".repeat(padding)).into_bytes()
    }

    fn any(&mut self, is: impl Fn(&Node) -> bool) -> Option<Ino> {
        let found = self.model.nodes.iter().filter(|(_, node)| is(node)).map(|(ino, _)| *ino);
        let found: Vec<Ino> = found.collect();
        self.rng.choice(found)
    }

    fn directory(&mut self) -> Ino {
        self.any(|node| node.kind == Kind::Directory).unwrap_or(ROOT)
    }

    fn file(&mut self) -> Option<Ino> {
        self.any(|node| node.kind == Kind::File)
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![self.rng.u8(1..); length];
        if let Some(first) = bytes.first_chunk_mut() {
            *first = self.rng.u64(..).to_le_bytes();
        }
        bytes
    }

    /// Makes one call to both, and compares the results. Errors that the model cannot have end the run.
    pub(crate) fn step(&mut self) -> Step {
        self.synced = false;
        if self.rng.u32(..self.scale.sync_every) == 0 {
            self.fs.sync()?;
            self.synced = true;
            return Ok(());
        }
        let is_full = self.model.nodes.len() >= self.scale.inodes;
        match self.rng.u32(..100) {
            0..14 if !is_full => self.make(),
            0..22 => self.remove(),
            22..30 => self.rename(),
            30..34 => self.link(),
            34..38 => self.hold_or_release(),
            38..42 => self.extended(),
            42..48 => self.resize(),
            48..52 => self.punch_or_allocate(),
            52..56 => self.read_directory(),
            56..58 => self.set_permissions(),
            58..76 => self.read(),
            _ => self.write(),
        }
    }

    /// Checks that both have the same result. The value is returned if the call succeeded.
    fn settle<T>(
        &mut self,
        call: Result<T, Error>,
        expected: Outcome,
        what: &str,
    ) -> Result<Option<T>, Error> {
        match (call, expected) {
            (Ok(value), Ok(())) => Ok(Some(value)),
            (Err(error), _) if !is_answer(error.kind()) => Err(error),
            (Err(error), Err(kind)) if error.kind() == kind => Ok(None),
            (Ok(_), Err(kind)) => panic!("{what}: went well, and {kind:?} was expected"),
            (Err(error), expected) => panic!("{what}: {error}, and {expected:?} was expected"),
        }
    }

    fn make(&mut self) -> Step {
        let (parent, name) = (self.directory(), self.name());
        let expected = self.model.may_make(parent, &name);
        let owner = Owner { uid: 7, gid: 8, permissions: self.rng.u16(..0o1000) };
        let kind = match self.rng.u8(..10) {
            0..2 => Kind::Directory,
            2 => Kind::Symlink,
            3 => Kind::Fifo,
            _ => Kind::File,
        };
        let target = self.name();
        let call = match kind {
            Kind::Symlink => self.fs.symlink(parent, &name, &target, owner),
            _ => self.fs.make_node(parent, &name, kind, owner, 0),
        };
        let Some(made) = self.settle(call, expected, "make")? else { return Ok(()) };
        let mut node = Node::new(kind, owner.permissions, 0);
        match kind {
            Kind::Directory => node.parent = parent,
            Kind::Symlink => (node.permissions, node.bytes) = (0o777, Arc::new(target)),
            _ => {}
        }
        if kind == Kind::Fifo {
            // The model reads the data of everything but directories; a pipe has none to compare.
            self.fs.unlink(parent, &name)?;
            return Ok(());
        }
        self.model.made(parent, &name, made.ino, node);
        Ok(())
    }

    fn remove(&mut self) -> Step {
        let (parent, name) = (self.directory(), self.name());
        let is_directory = self.rng.u8(..4) == 0;
        let call = match is_directory {
            true => self.fs.rmdir(parent, &name),
            false => self.fs.unlink(parent, &name),
        };
        let call = answered(call)?;
        let expected = match is_directory {
            true => self.model.rmdir(parent, &name),
            false => self.model.unlink(parent, &name),
        };
        self.settle(call, expected, "remove").map(drop)
    }

    fn rename(&mut self) -> Step {
        let (parent, name) = (self.directory(), self.name());
        let (to, new) = (self.directory(), self.name());
        let how = match self.rng.u8(..6) {
            0 => Renaming::NoReplace,
            1 => Renaming::Exchange,
            _ => Renaming::Replace,
        };
        let call = answered(self.fs.rename((parent, &name), (to, &new), how))?;
        let expected = self.model.rename((parent, &name), (to, &new), how);
        self.settle(call, expected, "rename").map(drop)
    }

    fn link(&mut self) -> Step {
        let (parent, name) = (self.directory(), self.name());
        let Some(ino) = self.any(|_| true) else { return Ok(()) };
        let call = answered(self.fs.link(ino, parent, &name))?;
        let expected = self.model.link(ino, parent, &name);
        self.settle(call, expected, "link").map(drop)
    }

    fn hold_or_release(&mut self) -> Step {
        let held = self.any(|node| node.held > 0);
        if let Some(ino) = held.filter(|_| self.rng.bool()) {
            self.fs.release(ino, 1)?;
            self.model.release(ino);
        } else if let Some(ino) = self.file() {
            self.fs.hold(ino, 1)?;
            self.model.node(ino).held += 1;
        }
        Ok(())
    }

    fn extended(&mut self) -> Step {
        let Some(ino) = self.any(|_| true) else { return Ok(()) };
        let name = format!("user.{}", self.rng.u8(..4)).into_bytes();
        let is_there = self.model.nodes[&ino].extended.contains_key(&name);
        if self.rng.u8(..3) == 0 {
            let call = self.fs.remove_extended(ino, &name);
            let expected = if is_there { Ok(()) } else { Err(ErrorKind::NoAttribute) };
            if self.settle(call, expected, "remove attribute")?.is_some() {
                self.model.node(ino).extended.remove(&name);
            }
            return Ok(());
        }
        let length = self.rng.usize(..500);
        let value = self.bytes(length);
        let (how, expected) = match (self.rng.u8(..3), is_there) {
            (0, true) => (Setting::Create, Err(ErrorKind::Exists)),
            (0, false) => (Setting::Create, Ok(())),
            (1, false) => (Setting::Replace, Err(ErrorKind::NoAttribute)),
            _ => (Setting::Any, Ok(())),
        };
        let call = self.fs.set_extended(ino, &name, &value, how);
        if self.settle(call, expected, "set attribute")?.is_some() {
            self.model.node(ino).extended.insert(name, value);
        }
        Ok(())
    }

    /// An offset in a file, mostly within the usual length.
    fn offset(&mut self) -> u64 {
        let most = match self.rng.u8(..200) {
            0 => self.scale.long_bytes,
            _ => self.scale.file_bytes,
        };
        self.rng.u64(..=most)
    }

    fn resize(&mut self) -> Step {
        let Some(ino) = self.file() else { return Ok(()) };
        let size = self.offset();
        self.fs.set_attributes(ino, SetAttributes { size: Some(size), ..Default::default() })?;
        let length = usize::try_from(size).unwrap();
        Arc::make_mut(&mut self.model.node(ino).bytes).resize(length, 0);
        Ok(())
    }

    fn set_permissions(&mut self) -> Step {
        let Some(ino) = self.any(|_| true) else { return Ok(()) };
        let permissions = self.rng.u16(..0o1000);
        let set = SetAttributes { permissions: Some(permissions), ..Default::default() };
        assert_eq!(self.fs.set_attributes(ino, set)?.permissions, permissions);
        self.model.node(ino).permissions = permissions;
        Ok(())
    }

    fn punch_or_allocate(&mut self) -> Step {
        let Some(ino) = self.file() else { return Ok(()) };
        let from = self.offset().min(self.scale.file_bytes);
        let range = from..from + self.rng.u64(1..20_000);
        let bytes = Arc::make_mut(&mut self.model.node(ino).bytes);
        if self.rng.bool() {
            self.fs.punch(ino, range.clone())?;
            let end = usize::try_from(range.end).unwrap().min(bytes.len());
            let start = usize::try_from(range.start).unwrap().min(end);
            bytes[start..end].fill(0);
        } else {
            let keeps = self.rng.bool();
            self.fs.allocate(ino, range.clone(), keeps)?;
            let end = usize::try_from(range.end).unwrap();
            if !keeps && bytes.len() < end {
                bytes.resize(end, 0);
            }
        }
        Ok(())
    }

    fn write(&mut self) -> Step {
        let Some(ino) = self.file() else { return Ok(()) };
        let offset = self.offset();
        let length = match self.rng.u8(..10) {
            0 => self.rng.usize(1..60_000),
            1..4 => 4096,
            _ => self.rng.usize(1..5000),
        };
        let offset = if self.rng.bool() { offset / 4096 * 4096 } else { offset };
        let written = self.bytes(length);
        let count = self.fs.write(ino, offset, &written)?;
        assert_eq!(count, length, "there is room");
        let bytes = Arc::make_mut(&mut self.model.node(ino).bytes);
        let at = usize::try_from(offset).unwrap();
        if bytes.len() < at + length {
            bytes.resize(at + length, 0);
        }
        bytes[at..at + length].copy_from_slice(&written);
        Ok(())
    }

    fn read(&mut self) -> Step {
        let Some(ino) = self.file() else { return Ok(()) };
        let offset = self.offset();
        let length = self.rng.usize(1..20_000);
        let read = self.fs.read(ino, offset, length)?;
        let bytes = &self.model.nodes[&ino].bytes;
        let from = usize::try_from(offset).unwrap().min(bytes.len());
        let to = (from + length).min(bytes.len());
        assert!(read == bytes[from..to], "inode {ino} from {offset}, {length} bytes");
        if let Ok(data) = self.fs.seek(ino, offset, SeekTo::Data) {
            let from = usize::try_from(offset).unwrap();
            let to = usize::try_from(data).unwrap();
            assert!(bytes[from..to].iter().all(|byte| *byte == 0), "what is skipped is a hole");
        }
        Ok(())
    }

    fn read_directory(&mut self) -> Step {
        let ino = self.directory();
        let mut names = std::collections::BTreeMap::new();
        let mut behind = 2;
        loop {
            let step = self.rng.usize(1..5);
            let entries = self.fs.read_directory(ino, behind, step)?;
            let Some(last) = entries.last() else { break };
            behind = last.cookie;
            names.extend(entries.into_iter().map(|entry| (entry.name, entry.ino)));
        }
        assert_eq!(names, self.model.nodes[&ino].names);
        let attributes = self.fs.attributes(ino)?;
        assert_eq!(attributes.links, self.model.nodes[&ino].links);
        Ok(())
    }
}
