//! A file system made of maps, with which all results are compared.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use larder_fs::{ErrorKind, FileSystem, Ino, Kind, ROOT, Renaming};

/// An inode of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) links: u32,
    pub(crate) permissions: u16,
    pub(crate) bytes: Arc<Vec<u8>>,
    pub(crate) names: BTreeMap<Vec<u8>, Ino>,
    pub(crate) parent: Ino,
    pub(crate) extended: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) held: u64,
}

/// All inodes, by the numbers that the file system gave them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) nodes: BTreeMap<Ino, Node>,
}

pub(crate) type Outcome = Result<(), ErrorKind>;

impl Node {
    pub(crate) fn new(kind: Kind, permissions: u16, parent: Ino) -> Self {
        Self {
            kind,
            links: if kind == Kind::Directory { 2 } else { 1 },
            permissions,
            bytes: Arc::default(),
            names: BTreeMap::new(),
            parent,
            extended: BTreeMap::new(),
            held: 0,
        }
    }
}

impl Model {
    pub(crate) fn new() -> Self {
        Self { nodes: BTreeMap::from([(ROOT, Node::new(Kind::Directory, 0o755, ROOT))]) }
    }

    pub(crate) fn node(&mut self, ino: Ino) -> &mut Node {
        self.nodes.get_mut(&ino).expect("the driver knows its inodes")
    }

    pub(crate) fn find(&self, parent: Ino, name: &[u8]) -> Result<Ino, ErrorKind> {
        let directory = self.nodes.get(&parent).ok_or(ErrorKind::NotFound)?;
        if directory.kind != Kind::Directory {
            return Err(ErrorKind::NotDirectory);
        }
        directory.names.get(name).copied().ok_or(ErrorKind::NotFound)
    }

    /// Whether a name can be created.
    pub(crate) fn may_make(&self, parent: Ino, name: &[u8]) -> Outcome {
        match self.find(parent, name) {
            Ok(_) => Err(ErrorKind::Exists),
            Err(ErrorKind::NotFound) if self.nodes[&parent].links == 0 => Err(ErrorKind::NotFound),
            Err(ErrorKind::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn made(&mut self, parent: Ino, name: &[u8], ino: Ino, node: Node) {
        if node.kind == Kind::Directory {
            self.node(parent).links += 1;
        }
        self.nodes.insert(ino, node);
        self.node(parent).names.insert(name.to_vec(), ino);
    }

    pub(crate) fn link(&mut self, ino: Ino, parent: Ino, name: &[u8]) -> Outcome {
        if self.nodes[&ino].kind == Kind::Directory {
            return Err(ErrorKind::NotPermitted);
        }
        if self.nodes[&ino].links == 0 {
            return Err(ErrorKind::NotFound);
        }
        self.may_make(parent, name)?;
        self.node(ino).links += 1;
        self.node(parent).names.insert(name.to_vec(), ino);
        Ok(())
    }

    pub(crate) fn unlink(&mut self, parent: Ino, name: &[u8]) -> Outcome {
        let ino = self.find(parent, name)?;
        if self.nodes[&ino].kind == Kind::Directory {
            return Err(ErrorKind::IsDirectory);
        }
        self.node(parent).names.remove(name);
        self.lost(ino);
        Ok(())
    }

    pub(crate) fn rmdir(&mut self, parent: Ino, name: &[u8]) -> Outcome {
        let ino = self.find(parent, name)?;
        if self.nodes[&ino].kind != Kind::Directory {
            return Err(ErrorKind::NotDirectory);
        }
        if !self.nodes[&ino].names.is_empty() {
            return Err(ErrorKind::NotEmpty);
        }
        self.node(parent).names.remove(name);
        self.node(parent).links -= 1;
        self.lost(ino);
        Ok(())
    }

    fn lost(&mut self, ino: Ino) {
        let node = self.node(ino);
        node.links = if node.kind == Kind::Directory { 0 } else { node.links - 1 };
        if node.links == 0 && node.held == 0 {
            self.nodes.remove(&ino);
        }
    }

    pub(crate) fn release(&mut self, ino: Ino) {
        self.node(ino).held -= 1;
        if self.node(ino).held == 0 && self.node(ino).links == 0 {
            self.nodes.remove(&ino);
        }
    }

    fn is_within(&self, mut at: Ino, above: Ino) -> bool {
        while at != above && at != ROOT {
            at = self.nodes.get(&at).map_or(ROOT, |node| node.parent);
        }
        at == above
    }

    pub(crate) fn rename(
        &mut self,
        (parent, name): (Ino, &[u8]),
        (to, new): (Ino, &[u8]),
        how: Renaming,
    ) -> Outcome {
        let source = self.find(parent, name)?;
        let target = match self.find(to, new) {
            Ok(target) => Some(target),
            Err(ErrorKind::NotFound) => None,
            Err(error) => return Err(error),
        };
        let is_directory = |ino: Ino| self.nodes[&ino].kind == Kind::Directory;
        if is_directory(source) && self.is_within(to, source) {
            return Err(ErrorKind::InvalidRequest);
        }
        if self.nodes[&to].links == 0 {
            return Err(ErrorKind::NotFound);
        }
        match (how, target) {
            (Renaming::NoReplace, Some(_)) => return Err(ErrorKind::Exists),
            (Renaming::Exchange, None) => return Err(ErrorKind::NotFound),
            (_, Some(target)) if target == source => return Ok(()),
            (Renaming::Exchange, Some(target)) => {
                if is_directory(target) && self.is_within(parent, target) {
                    return Err(ErrorKind::InvalidRequest);
                }
                self.node(parent).names.insert(name.to_vec(), target);
                self.node(to).names.insert(new.to_vec(), source);
                self.moved(source, parent, to);
                self.moved(target, to, parent);
                return Ok(());
            }
            (_, Some(target)) => {
                match (is_directory(source), is_directory(target)) {
                    (true, false) => return Err(ErrorKind::NotDirectory),
                    (false, true) => return Err(ErrorKind::IsDirectory),
                    (true, true) if !self.nodes[&target].names.is_empty() => {
                        return Err(ErrorKind::NotEmpty);
                    }
                    _ => {}
                }
                if is_directory(target) {
                    self.node(to).links -= 1;
                }
                self.lost(target);
            }
            (_, None) => {}
        }
        self.node(to).names.insert(new.to_vec(), source);
        self.node(parent).names.remove(name);
        self.moved(source, parent, to);
        Ok(())
    }

    fn moved(&mut self, what: Ino, from: Ino, to: Ino) {
        if self.nodes[&what].kind == Kind::Directory && from != to {
            self.node(what).parent = to;
            self.node(from).links -= 1;
            self.node(to).links += 1;
        }
    }

    /// The state after a power loss: no file is open.
    pub(crate) fn after_power_loss(&self) -> Self {
        let mut left = self.clone();
        left.nodes.retain(|_, node| node.links > 0);
        left.nodes.values_mut().for_each(|node| node.held = 0);
        left
    }

    /// Reads the state of a file system, by names from the root on.
    pub(crate) fn read_from(fs: &FileSystem) -> Self {
        let mut read = Self { nodes: BTreeMap::new() };
        let mut waiting = vec![(ROOT, ROOT)];
        while let Some((ino, parent)) = waiting.pop() {
            if read.nodes.contains_key(&ino) {
                continue;
            }
            let attributes = fs.attributes(ino).unwrap();
            let mut node = Node::new(attributes.kind, attributes.permissions, 0);
            node.links = attributes.links;
            match node.kind {
                Kind::Directory => {
                    node.parent = parent;
                    for entry in fs.read_directory(ino, 2, usize::MAX).unwrap() {
                        waiting.push((entry.ino, ino));
                        assert!(node.names.insert(entry.name, entry.ino).is_none(), "a name twice");
                    }
                }
                _ => {
                    let bytes = fs.read(ino, 0, usize::MAX).unwrap();
                    assert_eq!(bytes.len() as u64, attributes.size);
                    node.bytes = Arc::new(bytes);
                }
            }
            for name in fs.extended_names(ino).unwrap() {
                let value = fs.extended(ino, &name).unwrap();
                node.extended.insert(name, value);
            }
            read.nodes.insert(ino, node);
        }
        read
    }

    /// The differences between two states, as text.
    pub(crate) fn difference(&self, other: &Self) -> String {
        let mut text = String::new();
        let inos = self.nodes.keys().chain(other.nodes.keys());
        for ino in inos.collect::<std::collections::BTreeSet<_>>() {
            let (one, two) = (self.nodes.get(ino), other.nodes.get(ino));
            if one == two {
                continue;
            }
            let show = |node: Option<&Node>| match node {
                None => "nothing".to_owned(),
                Some(node) => format!(
                    "{:?} links {} mode {:o} bytes {} parent {} names {:?}",
                    node.kind,
                    node.links,
                    node.permissions,
                    node.bytes.len(),
                    node.parent,
                    node.names
                ),
            };
            let _ = writeln!(text, "inode {ino}: {}\n      not {}", show(one), show(two));
        }
        text
    }
}
