//! Checks every node, and every page that a node points to.

use std::collections::{BTreeMap, HashMap};

use super::report::{Fsck, Report};
use crate::address::{Address, Pointer};
use crate::attributes::{Kind, ROOT};
use crate::error::{ErrorKind, Result};
use crate::flash::Flash;
use crate::formats::attributes;
use crate::formats::node::{
    Inode, PART_ATTRIBUTES, PART_INODE, PART_LEAVES, decode_inode, decode_leaf,
};
use crate::volume::NodeKey;
use crate::volume::recover::Recovered;

/// The content of all nodes.
#[derive(Default)]
pub(super) struct Nodes {
    pub(super) inodes: BTreeMap<u64, Inode>,
    /// Pages of directories, by inode and index.
    pub(super) names: BTreeMap<(u64, u64), Pointer>,
    /// Every page that has a pointer to it: its inode, its index (nodes: `u64::MAX`), its checksum.
    pub(super) pages: HashMap<Address, (u64, u64, u32)>,
    pub(super) data_pages: u64,
    counted: HashMap<u64, u64>,
}

impl Nodes {
    pub(super) fn read(
        flash: &Flash,
        recovered: &Recovered,
        what: Fsck,
        report: &mut Report,
    ) -> Result<Self> {
        let mut nodes = Self::default();
        for (&key, &pointer) in &recovered.nodes {
            nodes.claim(recovered, key.0, u64::MAX, pointer, report);
            let page = match flash.read_checked(pointer) {
                Err(error) if error.kind() == ErrorKind::Damaged => {
                    report.found(format!("inode {} part {}: {error}", key.0, key.1));
                    continue;
                }
                page => page?,
            };
            nodes.node(flash, recovered, (key, &page), report);
        }
        nodes.count(report);
        if what.data {
            nodes.read_data(flash, report)?;
        }
        Ok(nodes)
    }

    /// Checks that a page belongs to only one place.
    fn claim(
        &mut self,
        recovered: &Recovered,
        ino: u64,
        index: u64,
        pointer: Pointer,
        report: &mut Report,
    ) {
        let address = pointer.address;
        let block = recovered.table.blocks.get(&address.block().number());
        if block.is_none_or(|block| address.page() >= block.used_pages) {
            report.found(format!("inode {ino} points to {address:?}, where nothing was written"));
        } else if let Some((other, ..)) = self.pages.insert(address, (ino, index, pointer.checksum))
        {
            report.found(format!("inodes {ino} and {other} both have {address:?}"));
        }
    }

    fn node(
        &mut self,
        flash: &Flash,
        recovered: &Recovered,
        ((ino, part), page): (NodeKey, &[u8]),
        report: &mut Report,
    ) {
        let no_node = format!("part {part} of inode {ino} is no such node");
        let (first, pointers) = match part {
            PART_INODE => {
                let Some(inode) = decode_inode(ino, page) else { return report.found(no_node) };
                if inode.size > flash.geometry.file_bytes_max() || ino >= recovered.next_ino {
                    report.found(format!("inode {ino} cannot be: its length or its number"));
                }
                let pointers = inode.pointers.clone();
                self.inodes.insert(ino, inode);
                (0, pointers)
            }
            _ if !self.inodes.contains_key(&ino) => {
                return report
                    .found(format!("part {part} belongs to no inode: {ino} is not there"));
            }
            PART_ATTRIBUTES => {
                if attributes::decode(ino, page).is_none() {
                    report.found(no_node);
                }
                return;
            }
            _ => {
                let Some(pointers) = decode_leaf(ino, part, page) else {
                    return report.found(no_node);
                };
                let leaf = u64::from(part - PART_LEAVES) * flash.geometry.leaf_pointers() as u64;
                (flash.geometry.inode_pointers() as u64 + leaf, pointers)
            }
        };
        let Some(inode) = self.inodes.get(&ino) else { return };
        let (end, kind) = (inode.size.div_ceil(flash.geometry.page_bytes as u64), inode.kind);
        for (index, pointer) in (first..).zip(pointers) {
            let Some(pointer) = pointer else { continue };
            self.claim(recovered, ino, index, pointer, report);
            self.data_pages += 1;
            *self.counted.entry(ino).or_default() += 1;
            if kind == Kind::Directory {
                self.names.insert((ino, index), pointer);
                if index >= end {
                    report.found(format!("directory {ino} has page {index} behind its end"));
                }
            }
        }
    }

    fn count(&mut self, report: &mut Report) {
        for (ino, inode) in &self.inodes {
            let there = self.counted.get(ino).copied().unwrap_or(0);
            if there != inode.pages {
                let counted = inode.pages;
                report.found(format!("inode {ino} has {there} pages, and {counted} are counted"));
            }
        }
        if !self.inodes.contains_key(&ROOT) {
            report.found("there is no root");
        }
    }

    fn read_data(&self, flash: &Flash, report: &mut Report) -> Result<()> {
        for (&address, &(ino, index, checksum)) in &self.pages {
            if index == u64::MAX {
                continue;
            }
            match flash.read_checked(Pointer { address, checksum }) {
                Err(error) if error.kind() == ErrorKind::Damaged => {
                    report.found(format!("inode {ino} page {index}: {error}"));
                }
                page => drop(page?),
            }
        }
        Ok(())
    }
}
