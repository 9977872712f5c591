//! The cleaner: moves live pages out of blocks that are mostly dead, so that these can be freed.
//!
//! The choice of the next block weighs its cost against its benefit and age (cost-benefit, after Rosenblum and
//! Ousterhout, "The design and implementation of a log-structured file system", 1992): (1 − u) · age / (1 + u), where u
//! is the share of the block that must be written. For data this is more than the live pages, because the nodes that
//! point to them are written too. When blocks are scarce, the block with the largest benefit is chosen, whatever its
//! age.
//!
//! It terminates: the number of live pages does not grow, so the number of dead pages is constant until their block is
//! freed, and the reserve ensures that there are always some.

use larder_blocks::BlockId;

use super::{DirtyPage, NodeKey, Volume};
use crate::address::Address;
use crate::error::{Error, ErrorKind, Result};
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
        let pointer = match self.pointer(key.0, key.1) {
            Ok(pointer) => pointer,
            // The page was deleted, or its node is damaged.
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
