//! Inodes, leaves and attributes in memory. Dirty entries stay; clean ones may be dropped and are read again on demand.

use std::collections::btree_map::Entry;
use std::collections::{BTreeSet, HashMap};

use super::{NodeKey, Volume};
use crate::error::{Error, ErrorKind, Result};
use crate::formats::attributes::{self, Attributes};
use crate::formats::node::{self, Inode, PART_ATTRIBUTES, PART_INODE, PART_LEAVES, Pointers};

/// Approximate limit of cached inodes.
const INODES_MAX: usize = 16_384;
/// Approximate limit of cached leaves: 8 KiB each.
const LEAVES_MAX: usize = 2048;

/// Nodes in memory.
#[derive(Debug, Default)]
pub(crate) struct NodeCache {
    inodes: HashMap<u64, Inode>,
    leaves: HashMap<NodeKey, Pointers>,
    attributes: HashMap<u64, Attributes>,
    dirty: BTreeSet<NodeKey>,
}

impl NodeCache {
    pub(crate) fn dirty_count(&self) -> usize {
        self.dirty.len()
    }

    pub(crate) fn dirty(&self) -> impl Iterator<Item = NodeKey> {
        self.dirty.iter().copied()
    }

    /// Marks all nodes as written to the log.
    pub(crate) fn written(&mut self) {
        self.dirty.clear();
        self.trim();
    }

    /// Drops clean nodes if a limit is exceeded.
    fn trim(&mut self) {
        let dirty = &self.dirty;
        if self.inodes.len() > INODES_MAX {
            self.inodes.retain(|ino, _| dirty.contains(&(*ino, PART_INODE)));
        }
        if self.leaves.len() > LEAVES_MAX {
            self.leaves.retain(|key, _| dirty.contains(key));
        }
        if self.attributes.len() > LEAVES_MAX {
            self.attributes.retain(|ino, _| dirty.contains(&(*ino, PART_ATTRIBUTES)));
        }
    }

    /// Drops a node that was removed.
    pub(crate) fn forget(&mut self, key: NodeKey) {
        self.dirty.remove(&key);
        match key.1 {
            PART_INODE => drop(self.inodes.remove(&key.0)),
            PART_ATTRIBUTES => drop(self.attributes.remove(&key.0)),
            _ => drop(self.leaves.remove(&key)),
        }
    }

    /// Encodes the page of a node that is in memory. `None` if it is not.
    pub(crate) fn encode(&self, key: NodeKey, page_bytes: usize) -> Option<Vec<u8>> {
        match key.1 {
            PART_INODE => {
                self.inodes.get(&key.0).map(|inode| node::encode_inode(key.0, inode, page_bytes))
            }
            PART_ATTRIBUTES => attributes::encode(key.0, self.attributes.get(&key.0)?, page_bytes),
            part => {
                let pointers = self.leaves.get(&key)?;
                Some(node::encode_leaf(key.0, part, pointers, page_bytes))
            }
        }
    }
}

impl Volume {
    /// Reads a node, unless it is in memory.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is no such node; [`ErrorKind::Damaged`].
    pub(crate) fn load(&mut self, key: NodeKey) -> Result<()> {
        let (ino, part) = key;
        let is_there = match part {
            PART_INODE => self.cache.inodes.contains_key(&ino),
            PART_ATTRIBUTES => self.cache.attributes.contains_key(&ino),
            _ => self.cache.leaves.contains_key(&key),
        };
        if is_there {
            return Ok(());
        }
        let Some(pointer) = self.nodes.get(&key).copied().flatten() else {
            let context = format!("there is no inode {ino}, or no part {part} of it");
            return Err(Error::new(ErrorKind::NotFound, context));
        };
        let page = self.flash.read_checked(pointer)?;
        let damaged = || Error::damaged(format!("{:?} is no node of inode {ino}", pointer.address));
        self.cache.trim();
        match part {
            PART_INODE => {
                let inode = node::decode_inode(ino, &page).ok_or_else(damaged)?;
                if inode.size > self.flash.geometry.file_bytes_max() {
                    return Err(damaged());
                }
                self.cache.inodes.insert(ino, inode);
            }
            PART_ATTRIBUTES => {
                let attributes = attributes::decode(ino, &page).ok_or_else(damaged)?;
                self.cache.attributes.insert(ino, attributes);
            }
            _ => {
                let pointers = node::decode_leaf(ino, part, &page).ok_or_else(damaged)?;
                self.cache.leaves.insert(key, pointers);
            }
        }
        Ok(())
    }

    /// An inode.
    ///
    /// # Errors
    /// As [`Volume::load`].
    pub(crate) fn inode(&mut self, ino: u64) -> Result<&Inode> {
        self.load((ino, PART_INODE))?;
        let missing = || Error::new(ErrorKind::NotFound, format!("there is no inode {ino}"));
        self.cache.inodes.get(&ino).ok_or_else(missing)
    }

    /// An inode for a change; it is dirty from now on.
    ///
    /// # Errors
    /// As [`Volume::load`].
    pub(crate) fn inode_mut(&mut self, ino: u64) -> Result<&mut Inode> {
        self.load((ino, PART_INODE))?;
        self.cache.dirty.insert((ino, PART_INODE));
        let missing = || Error::new(ErrorKind::NotFound, format!("there is no inode {ino}"));
        self.cache.inodes.get_mut(&ino).ok_or_else(missing)
    }

    /// Lets the next batch write a node again, unchanged.
    ///
    /// # Errors
    /// As [`Volume::load`].
    pub(crate) fn make_dirty(&mut self, key: NodeKey) -> Result<()> {
        self.load(key)?;
        self.cache.dirty.insert(key);
        Ok(())
    }

    /// Adds a new node, which counts as used from now on. The caller fills it afterwards.
    pub(crate) fn insert_inode(&mut self, ino: u64, inode: Inode) {
        self.nodes.insert((ino, PART_INODE), None);
        self.cache.inodes.insert(ino, inode);
        self.cache.dirty.insert((ino, PART_INODE));
    }

    /// Extended attributes of an inode; empty if it has no node for them.
    ///
    /// # Errors
    /// As [`Volume::load`].
    pub(crate) fn attributes(&mut self, ino: u64) -> Result<Attributes> {
        if !self.nodes.contains_key(&(ino, PART_ATTRIBUTES)) {
            return Ok(Attributes::new());
        }
        self.load((ino, PART_ATTRIBUTES))?;
        Ok(self.cache.attributes.get(&ino).cloned().unwrap_or_default())
    }

    /// Sets the extended attributes of an inode.
    pub(crate) fn set_attributes(&mut self, ino: u64, attributes: Attributes) {
        self.nodes.entry((ino, PART_ATTRIBUTES)).or_insert(None);
        self.cache.attributes.insert(ino, attributes);
        self.cache.dirty.insert((ino, PART_ATTRIBUTES));
    }

    /// The node with the pointer to a page of a file, and the index of the pointer.
    pub(crate) fn holder(&self, index: u64) -> (u32, usize) {
        let (first, each) = (self.geometry().inode_pointers(), self.geometry().leaf_pointers());
        let Some(behind) = index.checked_sub(first as u64) else {
            return (PART_INODE, usize::try_from(index).unwrap_or(0));
        };
        let leaf = u32::try_from(behind / each as u64).unwrap_or(u32::MAX);
        let slot = usize::try_from(behind % each as u64).unwrap_or(0);
        (leaf.saturating_add(PART_LEAVES), slot)
    }

    /// The pointers of a node; `None` if there is no such leaf.
    ///
    /// # Errors
    /// As [`Volume::load`].
    pub(crate) fn pointers(&mut self, ino: u64, part: u32) -> Result<Option<&Pointers>> {
        if part == PART_INODE {
            return Ok(Some(&self.inode(ino)?.pointers));
        }
        if !self.nodes.contains_key(&(ino, part)) {
            return Ok(None);
        }
        self.load((ino, part))?;
        Ok(self.cache.leaves.get(&(ino, part)))
    }

    /// The pointers of a node for a change; creates a missing leaf.
    ///
    /// # Errors
    /// As [`Volume::load`].
    pub(crate) fn pointers_mut(&mut self, ino: u64, part: u32) -> Result<&mut Pointers> {
        if part == PART_INODE {
            return Ok(&mut self.inode_mut(ino)?.pointers);
        }
        let key = (ino, part);
        let none = self.geometry().leaf_pointers();
        if let Entry::Vacant(entry) = self.nodes.entry(key) {
            entry.insert(None);
            self.cache.leaves.insert(key, vec![None; none]);
        } else {
            self.load(key)?;
        }
        self.cache.dirty.insert(key);
        let missing = || Error::new(ErrorKind::NotFound, format!("inode {ino} has no part {part}"));
        self.cache.leaves.get_mut(&key).ok_or_else(missing)
    }
}
