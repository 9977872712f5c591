//! Frees blocks of the log: the cleaner empties them, and a checkpoint gives them back.
//!
//! # The cleaner
//! It moves live pages out of blocks that are mostly dead, so that these can be freed.
//!
//! The choice of the next block weighs its cost against its benefit and age (cost-benefit, after Rosenblum and
//! Ousterhout, "The design and implementation of a log-structured file system", 1992): (1 − u) · age / (1 + u), where u
//! is the share of the block that must be written. For data this is more than the live pages, because the nodes that
//! point to them are written too. When blocks are scarce, the block with the largest benefit is chosen, whatever its
//! age.
//!
//! It terminates: the number of live pages does not grow, so the number of dead pages is constant until their block is
//! freed, and the reserve ensures that there are always some.
//!
//! # Checkpoints
//! A checkpoint goes to separate blocks. After it, blocks without live pages and older checkpoints can be freed.
//!
//! It is appended to the block of the previous checkpoint if it fits there entirely, or else goes to new blocks. In
//! both cases the previous one stays intact until the new one is complete.

use larder_blocks::BlockId;
use larder_device::IoFuture;

use super::{DirtyPage, NodeKey, Volume};
use crate::address::Address;
use crate::error::{Error, ErrorKind, Result};
use crate::formats::checkpoint::{BlockLine, Body, HEADER_BYTES, Which, encode_body, encode_page};
use crate::formats::run::{Entry, Run};
use crate::formats::tag::Use;
use crate::table::BlockUse;

/// Maximum pages of the log before a checkpoint is due: a recovery reads the nodes among them.
const CHECKPOINT_AFTER_PAGES: u64 = 65_536;

/// A page of a victim, with its entry in the run.
type Lying = (Address, Entry, Vec<u8>);

impl Volume {
    /// Frees blocks until there are enough for the next batch, and writes a checkpoint if the log has become long.
    pub(super) fn make_room(&mut self) -> Result<()> {
        let geometry = *self.geometry();
        let most = 4 * geometry.blocks + 64;
        for _ in 0..most {
            let nodes = self.nodes.count();
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
        if self.table.free_blocks(&geometry) >= geometry.critical_blocks(self.nodes.count()) {
            return Ok(());
        }
        let context = "the cleaner finds nothing that is dead; what is damaged keeps its blocks";
        Err(Error::new(ErrorKind::NoSpace, context))
    }

    fn checkpoint_if_due(&mut self) -> Result<()> {
        let geometry = self.geometry();
        let pages = geometry.blocks * u64::from(geometry.block_pages);
        let due = (pages / 8).clamp(256, CHECKPOINT_AFTER_PAGES);
        let due = due.max(8 * geometry.checkpoint_pages(self.nodes.count()));
        if self.logged_pages >= due { self.checkpoint() } else { Ok(()) }
    }

    /// The next block to clean. `None` if cleaning no block gains anything.
    fn victim(&self, scarce: bool) -> Option<u64> {
        let (nodes, data) = self.table.live_by_use();
        // For each page of data, the average number of nodes per page of data must be written too, but at most one.
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

    /// Moves the live pages of a block: marks them dirty, and writes a batch.
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
            // A pointer leads to a page that no run lists, or to one that cannot be read.
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
            // A page that is not a run remains from a power loss: nothing points to it.
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
        let pointer = match self.nodes.pointer(key.0, key.1) {
            Ok(pointer) => pointer,
            // The page was deleted, or its node is damaged.
            Err(error) if error.kind() == ErrorKind::Io => return Err(error),
            Err(_) => return Ok(()),
        };
        if pointer.is_none_or(|pointer| pointer.address != address) {
            return Ok(());
        }
        let (part, _) = self.nodes.holder(key.1);
        self.nodes.pointers_mut(key.0, part)?;
        let expected = pointer.map_or(checksum, |pointer| pointer.checksum);
        let damaged = (larder_checksum::crc32c(&bytes) != expected).then_some(expected);
        self.pages.insert(key, DirtyPage { bytes, moved: true, damaged });
        Ok(())
    }

    fn move_node(&mut self, key: NodeKey, address: Address) -> Result<()> {
        let pointer = self.nodes.place(key);
        if pointer.is_none_or(|pointer| pointer.address != address) {
            return Ok(());
        }
        match self.nodes.make_dirty(key) {
            Err(error) if error.kind() != ErrorKind::Io => Ok(()),
            done => done,
        }
    }

    /// Writes a checkpoint of a state that is in the log, and frees dead blocks.
    pub(super) fn checkpoint(&mut self) -> Result<()> {
        assert!(self.is_clean(), "a checkpoint says nothing of what is not written");
        let page_bytes = self.geometry().page_bytes;
        let bytes = encode_body(&self.body());
        let parts: Vec<&[u8]> = bytes.chunks(page_bytes - HEADER_BYTES).collect();
        let which = Which {
            uuid: self.uuid,
            sequence: self.sequence + 1,
            batch: self.next_batch - 1,
            pages: u32::try_from(parts.len()).map_err(|_| Error::damaged("too many nodes"))?,
        };
        let pages = (0..).zip(&parts);
        let pages: Vec<Vec<u8>> =
            pages.map(|(number, part)| encode_page(which, number, part, page_bytes)).collect();
        let written = self.write_pages(&pages)?;
        self.sequence = which.sequence;
        self.logged_pages = 0;
        self.counts.checkpoints += 1;
        self.counts.checkpoint_pages += u64::from(which.pages);
        self.free_dead(&written)
    }

    fn body(&self) -> Body {
        let geometry = self.geometry();
        let line = |(&block, it): (&u64, &crate::table::BlockUse)| BlockLine {
            block,
            used_pages: it.used_pages,
            live_pages: it.live_pages,
            what_for: it.what_for,
            batch: it.batch,
        };
        Body {
            page_bytes: u32::try_from(geometry.page_bytes).unwrap_or(u32::MAX),
            block_pages: geometry.block_pages,
            next_ino: self.next_ino,
            nodes: self.nodes.written().collect(),
            blocks: self.table.blocks.iter().map(line).collect(),
            orphans: self.open.orphans().collect(),
        }
    }

    /// Writes the pages of a checkpoint. Returns their blocks.
    fn write_pages(&mut self, pages: &[Vec<u8>]) -> Result<Vec<u64>> {
        let block_pages = usize::try_from(self.geometry().block_pages).unwrap_or(usize::MAX);
        if let Some((block, used)) = self.checkpoint_block(pages.len(), block_pages)
            && self.append_all(&[(block, used, pages)]).is_ok()
        {
            return Ok(vec![block]);
        }
        // A failed append closed its block; the next one may succeed.
        let mut last = None;
        for _ in 0..2 {
            let mut pieces = Vec::new();
            for piece in pages.chunks(block_pages) {
                let block = self.flash.alloc(Use::Checkpoint)?;
                self.table.checkpoints.push(block);
                pieces.push((block, 0, piece));
            }
            match self.append_all(&pieces) {
                Ok(()) => return Ok(pieces.iter().map(|(block, ..)| *block).collect()),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| Error::damaged("no checkpoint was written")))
    }

    /// The newest checkpoint block, if it has room for `pages` more pages.
    fn checkpoint_block(&self, pages: usize, block_pages: usize) -> Option<(u64, u32)> {
        let newest = *self.table.checkpoints.last()?;
        let listed = self.flash.list();
        let state = listed.iter().find(|state| state.block.number() == newest)?;
        let used = self.flash.written_pages(state);
        let room = block_pages.checked_sub(usize::try_from(used).ok()?)?;
        (!state.closed && pages <= room).then_some((newest, used))
    }

    fn append_all(&self, pieces: &[(u64, u32, &[Vec<u8>])]) -> Result<()> {
        let begin = |(block, page, pages): &(u64, u32, &[Vec<u8>])| {
            (*block, self.flash.append(*block, *page, &pages.concat()))
        };
        let under_way: Vec<(u64, IoFuture)> = pieces.iter().map(begin).collect();
        let mut done = Ok(());
        for (block, append) in under_way {
            if let Err(failure) = append.wait() {
                let context = format!("writing a checkpoint to block {block}");
                done = Err(Error::below(context, failure.error));
            }
        }
        done
    }

    /// Frees what the checkpoint in the blocks `newest` no longer needs: other checkpoint blocks, and blocks without
    /// live pages.
    fn free_dead(&mut self, newest: &[u64]) -> Result<()> {
        let older: Vec<u64> =
            self.table.checkpoints.iter().copied().filter(|it| !newest.contains(it)).collect();
        for block in older {
            self.flash.free(block)?;
            self.table.checkpoints.retain(|it| *it != block);
            self.counts.freed_blocks += 1;
        }
        for block in self.table.retired() {
            self.flash.free(block)?;
            self.table.blocks.remove(&block);
            self.counts.freed_blocks += 1;
        }
        Ok(())
    }
}
