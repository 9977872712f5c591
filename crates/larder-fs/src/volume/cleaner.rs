//! The cleaner: live pages leave blocks that are mostly dead, so that these can be freed.
//!
//! Which block is next weighs what it costs against what it brings and how old it is (cost and benefit, after Rosenblum
//! and Ousterhout, "The design and implementation of a log-structured file system", 1992): (1 − u) · age / (1 + u),
//! where u is what must be written, as a part of the block. Of data it is more than what is live, for nodes that point
//! there are written too. When blocks are scarce, the block that brings most is next, however young.
//!
//! It ends: pages that are live do not become more, so what is dead stays as much until its block is freed, and the
//! reserve sees to it that some of that is always there.

use larder_device::BlockId;

use super::{DirtyPage, NodeKey, Volume};
use crate::address::Address;
use crate::error::{Error, ErrorKind, Result};
use crate::formats::run::{Entry, Run};
use crate::formats::tag::Use;
use crate::table::BlockUse;

/// Pages of the log after which a checkpoint is due, at most: a recovery reads the nodes among them.
const CHECKPOINT_AFTER_PAGES: u64 = 65_536;

/// A page of a victim, and what its run says of it.
type Lying = (Address, Entry, Vec<u8>);

impl Volume {
    /// Frees blocks until there are enough for the next batch, and writes a checkpoint if the log has become long.
    pub(super) fn make_room(&mut self) -> Result<()> {
        let geometry = *self.geometry();
        let most = 4 * geometry.blocks + 64;
        for _ in 0..most {
            let nodes = self.nodes.len() as u64;
            let (enough, critical) =
                (geometry.free_blocks_min(nodes), geometry.critical_blocks(nodes));
            let free = self.table.free_blocks(&geometry);
            let retired = self.table.retired().len() as u64;
            if free >= enough {
                return self.checkpoint_if_due();
            }
            if retired > 0 && (free < critical + 2 || free + retired > enough) {
                self.checkpoint()?;
                continue;
            }
            match self.victim(free < critical + 4) {
                Some(block) => self.clean(block)?,
                None if retired > 0 => self.checkpoint()?,
                None => break,
            }
        }
        if self.table.free_blocks(&geometry) >= geometry.critical_blocks(self.nodes.len() as u64) {
            return Ok(());
        }
        let context = "the cleaner finds nothing that is dead; what is damaged keeps its blocks";
        Err(Error::new(ErrorKind::NoSpace, context))
    }

    fn checkpoint_if_due(&mut self) -> Result<()> {
        let geometry = self.geometry();
        let pages = geometry.blocks * u64::from(geometry.block_pages);
        let due = (pages / 8).clamp(256, CHECKPOINT_AFTER_PAGES);
        let due = due.max(8 * geometry.checkpoint_pages(self.nodes.len() as u64));
        if self.logged_pages >= due { self.checkpoint() } else { Ok(()) }
    }

    /// The block that is cleaned next. `None` if none brings anything.
    fn victim(&self, scarce: bool) -> Option<u64> {
        let (nodes, data) = self.table.live_by_use();
        // As many nodes must be written for a page of data as there are for each, but one at most.
        let extra = if data == 0 { 1.0 } else { (nodes as f64 / data as f64).min(1.0) };
        let now = self.next_batch;
        let score = |it: &BlockUse| {
            let factor = if it.what_for == Use::Nodes { 1.0 } else { 1.0 + extra };
            let share = f64::from(it.live_pages) * factor / f64::from(self.geometry().block_pages);
            let age = if scarce { 1.0 } else { (now.saturating_sub(it.batch) + 1) as f64 };
            if share < 1.0 { (1.0 - share) * age / (1.0 + share) } else { 1.0 - share }
        };
        let candidates =
            self.table.blocks.iter().filter(|(block, it)| {
                it.live_pages > 0 && !it.damaged && !self.table.is_open(**block)
            });
        let best = candidates.max_by(|(_, one), (_, other)| score(one).total_cmp(&score(other)));
        best.map(|(block, _)| *block)
    }

    /// Moves what is live in a block: makes it dirty, and writes a batch.
    fn clean(&mut self, block: u64) -> Result<()> {
        for (address, entry, bytes) in self.lying(block)? {
            match entry {
                Entry::Data { inode, index, checksum } => {
                    self.move_data((inode, index), address, checksum, bytes)?;
                }
                Entry::Node { inode, part, .. } => self.move_node((inode, part), address)?,
                Entry::Gone { .. } => {}
            }
        }
        self.commit()?;
        self.counts.cleaned_blocks += 1;
        if let Some(it) = self.table.blocks.get_mut(&block)
            && it.live_pages > 0
        {
            // Somebody points to what no run lists, or what cannot be read.
            it.damaged = true;
        }
        Ok(())
    }

    /// All pages of a block that its runs list.
    fn lying(&self, block: u64) -> Result<Vec<Lying>> {
        let listed = self.flash.list();
        let state = listed.iter().find(|state| state.block.number() == block);
        let Some(state) = state else {
            return Err(Error::damaged(format!("block {block} is not in the store")));
        };
        let (page_bytes, written) = (self.geometry().page_bytes, self.flash.written_pages(state));
        let Some(first) = Address::new(BlockId::new(block), 0).filter(|_| written > 0) else {
            return Ok(Vec::new());
        };
        let bytes = self.flash.read(first, written)?;
        let mut pages = (0..).zip(bytes.chunks_exact(page_bytes));
        let mut lying = Vec::new();
        while let Some((page, bytes)) = pages.next() {
            let Some(address) = Address::new(BlockId::new(block), page) else { break };
            // What is no run is what a loss of power has left: nothing points there.
            let Some(run) = Run::decode(self.uuid, address, bytes) else { continue };
            for entry in run.entries.into_iter().filter(|entry| entry.checksum().is_some()) {
                let Some((page, bytes)) = pages.next() else { break };
                let Some(address) = Address::new(BlockId::new(block), page) else { break };
                lying.push((address, entry, bytes.to_vec()));
            }
        }
        Ok(lying)
    }

    fn move_data(
        &mut self,
        key: (u64, u64),
        address: Address,
        checksum: u32,
        bytes: Vec<u8>,
    ) -> Result<()> {
        if self.pages.contains_key(&key) {
            return Ok(());
        }
        let pointer = match self.pointer(key.0, key.1) {
            Ok(pointer) => pointer,
            // It was deleted, or its node is damaged.
            Err(error) if error.kind() == ErrorKind::Io => return Err(error),
            Err(_) => return Ok(()),
        };
        if pointer.is_none_or(|pointer| pointer.address != address) {
            return Ok(());
        }
        let (part, _) = self.holder(key.1);
        self.pointers_mut(key.0, part)?;
        let expected = pointer.map_or(checksum, |pointer| pointer.checksum);
        let damaged = (larder_checksum::crc32c(&bytes) != expected).then_some(expected);
        self.pages.insert(key, DirtyPage { bytes, moved: true, damaged });
        Ok(())
    }

    fn move_node(&mut self, key: NodeKey, address: Address) -> Result<()> {
        let pointer = self.nodes.get(&key).copied().flatten();
        if pointer.is_none_or(|pointer| pointer.address != address) {
            return Ok(());
        }
        match self.make_dirty(key) {
            Err(error) if error.kind() != ErrorKind::Io => Ok(()),
            done => done,
        }
    }
}
