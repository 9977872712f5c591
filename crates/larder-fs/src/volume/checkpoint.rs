//! A checkpoint goes to separate blocks. After it, blocks without live pages and older checkpoints can be freed.
//!
//! It is appended to the block of the previous checkpoint if it fits there entirely, or else goes to new blocks. In
//! both cases the previous one stays intact until the new one is complete.

use larder_device::IoFuture;

use super::Volume;
use crate::error::{Error, Result};
use crate::formats::checkpoint::{BlockLine, Body, HEADER_BYTES, Which, encode_body, encode_page};
use crate::formats::tag::Use;

impl Volume {
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
        let nodes = self.nodes.iter().filter_map(|(key, pointer)| Some((*key, (*pointer)?)));
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
            nodes: nodes.collect(),
            blocks: self.table.blocks.iter().map(line).collect(),
            orphans: self.orphans.iter().copied().collect(),
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
