//! Nodes: inodes, extended attributes and leaves. Their places in the log, and those that are in memory.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;

use super::NodeKey;
use crate::address::Pointer;
use crate::attributes::Attributes as Stat;
use crate::error::{Error, ErrorKind, Result};
use crate::flash::Flash;
use crate::formats::attributes::{self, Attributes};
use crate::formats::node::{self, Inode, PART_ATTRIBUTES, PART_INODE, PART_LEAVES, Pointers};

/// Approximate limit of cached inodes.
const INODES_MAX: usize = 16_384;
/// Approximate limit of cached leaves: 8 KiB each.
const LEAVES_MAX: usize = 2048;

/// All nodes.
///
/// Invariants: `places` has every existing node; a node without a place was never written, and is in memory. Dirty
/// nodes stay in memory; clean ones may be dropped, and are read again on demand.
pub(crate) struct NodeMap {
    flash: Flash,
    places: BTreeMap<NodeKey, Option<Pointer>>,
    inodes: HashMap<u64, Inode>,
    leaves: HashMap<NodeKey, Pointers>,
    attributes: HashMap<u64, Attributes>,
    dirty: BTreeSet<NodeKey>,
}

impl NodeMap {
    /// The nodes that are in the log of `flash`.
    pub(super) fn new(flash: Flash, places: BTreeMap<NodeKey, Pointer>) -> Self {
        Self {
            flash,
            places: places.into_iter().map(|(key, pointer)| (key, Some(pointer))).collect(),
            inodes: HashMap::new(),
            leaves: HashMap::new(),
            attributes: HashMap::new(),
            dirty: BTreeSet::new(),
        }
    }

    /// Number of nodes.
    pub(crate) fn count(&self) -> u64 {
        self.places.len() as u64
    }

    /// Number of inodes.
    pub(crate) fn inode_count(&self) -> u64 {
        self.places.keys().filter(|(_, part)| *part == PART_INODE).count() as u64
    }

    pub(crate) fn contains(&self, key: NodeKey) -> bool {
        self.places.contains_key(&key)
    }

    /// The parts of an inode within `range` that exist.
    pub(super) fn parts(&self, ino: u64, range: RangeInclusive<u32>) -> Vec<u32> {
        let keys = (ino, *range.start())..=(ino, *range.end());
        self.places.range(keys).map(|((_, part), _)| *part).collect()
    }

    /// The nodes in the log, with their places.
    pub(super) fn written(&self) -> impl Iterator<Item = (NodeKey, Pointer)> {
        self.places.iter().filter_map(|(key, place)| Some((*key, (*place)?)))
    }

    /// The place of a node in the log.
    pub(super) fn place(&self, key: NodeKey) -> Option<Pointer> {
        self.places.get(&key).copied().flatten()
    }

    /// Records that a node was written to `place`. Returns its place before.
    pub(super) fn was_written(&mut self, key: NodeKey, place: Pointer) -> Option<Pointer> {
        self.places.insert(key, Some(place)).flatten()
    }

    pub(crate) fn dirty_count(&self) -> usize {
        self.dirty.len()
    }

    pub(crate) fn dirty(&self) -> impl Iterator<Item = NodeKey> {
        self.dirty.iter().copied()
    }

    /// Marks all nodes as written to the log.
    pub(super) fn all_written(&mut self) {
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

    /// Removes a node. Returns its place in the log.
    pub(super) fn remove(&mut self, key: NodeKey) -> Option<Pointer> {
        self.dirty.remove(&key);
        match key.1 {
            PART_INODE => drop(self.inodes.remove(&key.0)),
            PART_ATTRIBUTES => drop(self.attributes.remove(&key.0)),
            _ => drop(self.leaves.remove(&key)),
        }
        self.places.remove(&key).flatten()
    }

    /// Encodes the page of a node that is in memory. `None` if it is not.
    pub(super) fn encode(&self, key: NodeKey) -> Option<Vec<u8>> {
        let page_bytes = self.flash.geometry.page_bytes;
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

    /// Reads a node, unless it is in memory.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is no such node; [`ErrorKind::Damaged`].
    fn load(&mut self, key: NodeKey) -> Result<()> {
        let (ino, part) = key;
        let is_there = match part {
            PART_INODE => self.inodes.contains_key(&ino),
            PART_ATTRIBUTES => self.attributes.contains_key(&ino),
            _ => self.leaves.contains_key(&key),
        };
        if is_there {
            return Ok(());
        }
        let Some(pointer) = self.place(key) else {
            let context = format!("there is no inode {ino}, or no part {part} of it");
            return Err(Error::new(ErrorKind::NotFound, context));
        };
        let page = self.flash.read_checked(pointer)?;
        let damaged = || Error::damaged(format!("{:?} is no node of inode {ino}", pointer.address));
        self.trim();
        match part {
            PART_INODE => {
                let inode = node::decode_inode(ino, &page).ok_or_else(damaged)?;
                if inode.size > self.flash.geometry.file_bytes_max() {
                    return Err(damaged());
                }
                self.inodes.insert(ino, inode);
            }
            PART_ATTRIBUTES => {
                let attributes = attributes::decode(ino, &page).ok_or_else(damaged)?;
                self.attributes.insert(ino, attributes);
            }
            _ => {
                let pointers = node::decode_leaf(ino, part, &page).ok_or_else(damaged)?;
                self.leaves.insert(key, pointers);
            }
        }
        Ok(())
    }

    /// An inode.
    ///
    /// # Errors
    /// As [`NodeMap::load`].
    pub(crate) fn inode(&mut self, ino: u64) -> Result<&Inode> {
        self.load((ino, PART_INODE))?;
        let missing = || Error::new(ErrorKind::NotFound, format!("there is no inode {ino}"));
        self.inodes.get(&ino).ok_or_else(missing)
    }

    /// An inode for a change; it is dirty from now on.
    ///
    /// # Errors
    /// As [`NodeMap::load`].
    pub(crate) fn inode_mut(&mut self, ino: u64) -> Result<&mut Inode> {
        self.load((ino, PART_INODE))?;
        self.dirty.insert((ino, PART_INODE));
        let missing = || Error::new(ErrorKind::NotFound, format!("there is no inode {ino}"));
        self.inodes.get_mut(&ino).ok_or_else(missing)
    }

    /// Lets the next batch write a node again, unchanged.
    ///
    /// # Errors
    /// As [`NodeMap::load`].
    pub(crate) fn make_dirty(&mut self, key: NodeKey) -> Result<()> {
        self.load(key)?;
        self.dirty.insert(key);
        Ok(())
    }

    /// Adds a new node, which counts as used from now on. The caller fills it afterwards.
    pub(crate) fn insert_inode(&mut self, ino: u64, inode: Inode) {
        self.places.insert((ino, PART_INODE), None);
        self.inodes.insert(ino, inode);
        self.dirty.insert((ino, PART_INODE));
    }

    /// Extended attributes of an inode; empty if it has no node for them.
    ///
    /// # Errors
    /// As [`NodeMap::load`].
    pub(crate) fn attributes(&mut self, ino: u64) -> Result<Attributes> {
        if !self.contains((ino, PART_ATTRIBUTES)) {
            return Ok(Attributes::new());
        }
        self.load((ino, PART_ATTRIBUTES))?;
        Ok(self.attributes.get(&ino).cloned().unwrap_or_default())
    }

    /// Sets the extended attributes of an inode.
    pub(crate) fn set_attributes(&mut self, ino: u64, attributes: Attributes) {
        self.places.entry((ino, PART_ATTRIBUTES)).or_insert(None);
        self.attributes.insert(ino, attributes);
        self.dirty.insert((ino, PART_ATTRIBUTES));
    }

    /// The node with the pointer to a page of a file, and the index of the pointer.
    pub(crate) fn holder(&self, index: u64) -> (u32, usize) {
        let (first, each) =
            (self.flash.geometry.inode_pointers(), self.flash.geometry.leaf_pointers());
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
    /// As [`NodeMap::load`].
    pub(crate) fn pointers(&mut self, ino: u64, part: u32) -> Result<Option<&Pointers>> {
        if part == PART_INODE {
            return Ok(Some(&self.inode(ino)?.pointers));
        }
        if !self.contains((ino, part)) {
            return Ok(None);
        }
        self.load((ino, part))?;
        Ok(self.leaves.get(&(ino, part)))
    }

    /// The pointers of a node for a change; creates a missing leaf.
    ///
    /// # Errors
    /// As [`NodeMap::load`].
    pub(crate) fn pointers_mut(&mut self, ino: u64, part: u32) -> Result<&mut Pointers> {
        if part == PART_INODE {
            return Ok(&mut self.inode_mut(ino)?.pointers);
        }
        let key = (ino, part);
        let none = self.flash.geometry.leaf_pointers();
        if let Entry::Vacant(entry) = self.places.entry(key) {
            entry.insert(None);
            self.leaves.insert(key, vec![None; none]);
        } else {
            self.load(key)?;
        }
        self.dirty.insert(key);
        let missing = || Error::new(ErrorKind::NotFound, format!("inode {ino} has no part {part}"));
        self.leaves.get_mut(&key).ok_or_else(missing)
    }

    /// The location of a page of a file in the log; `None` if it is a hole, or was not written yet.
    pub(super) fn pointer(&mut self, ino: u64, index: u64) -> Result<Option<Pointer>> {
        let (part, slot) = self.holder(index);
        Ok(self.pointers(ino, part)?.and_then(|pointers| pointers.get(slot).copied().flatten()))
    }

    /// The attributes of an inode, as for `stat`.
    pub(crate) fn stat(&mut self, ino: u64) -> Result<Stat> {
        let page_bytes = self.flash.geometry.page_bytes as u64;
        let it = self.inode(ino)?;
        Ok(Stat {
            ino,
            kind: it.kind,
            permissions: it.permissions,
            uid: it.uid,
            gid: it.gid,
            links: it.links,
            rdev: it.rdev,
            size: it.size,
            allocated_bytes: it.pages.saturating_mul(page_bytes),
            accessed: it.accessed,
            modified: it.modified,
            changed: it.changed,
            created: it.created,
        })
    }
}
