//! A batch: writes all changes to the log at once.
//!
//! Data and nodes go to separate blocks, in runs: a page that lists what follows, and then those pages. Each run
//! contains the number of runs of the batch, so the batch is valid when all have been written. All are submitted
//! together, so a batch costs only one wait. An append that fails closes its block; then the whole batch is written
//! again elsewhere, as its next attempt.

use larder_blocks::BlockId;
use larder_device::IoFuture;

use super::{NodeKey, Volume};
use crate::address::{Address, Pointer};
use crate::error::{Error, ErrorKind, Result};
use crate::flash::Flash;
use crate::formats::run::{Entry, Run};
use crate::formats::tag::Use;
use crate::table::Table;

/// Number of attempts for a batch before the file system accepts no more changes.
const ATTEMPTS: u16 = 4;

/// An entry of a run.
#[derive(Debug, Clone, Copy)]
enum Item {
    Data { ino: u64, index: u64 },
    Node(NodeKey),
    Gone { ino: u64, from_part: u32 },
}

/// A run with its location.
struct PlannedRun {
    block: u64,
    page: u32,
    items: Vec<(Item, Option<Address>)>,
    /// Not a run: zeros in the last page of a block, where a run does not fit.
    is_padding: bool,
}

impl PlannedRun {
    fn pages(&self) -> u32 {
        let pages = self.items.iter().filter(|(_, address)| address.is_some()).count();
        1 + u32::try_from(pages).unwrap_or(u32::MAX)
    }
}

/// Assigns locations to items, run after run.
struct Plan<'a> {
    flash: &'a Flash,
    table: &'a mut Table,
    batch: u64,
    runs: Vec<PlannedRun>,
    /// The current run of each use, which accepts more items.
    current: Vec<(Use, usize)>,
}

impl Plan<'_> {
    fn place(&mut self, what_for: Use, item: Item) -> Result<Option<Address>> {
        let has_page = !matches!(item, Item::Gone { .. });
        let run = self.run_for(what_for)?;
        let Some(planned) = self.runs.get_mut(run) else { return Ok(None) };
        let mut address = None;
        if has_page {
            let page = planned.page + planned.pages();
            address = Address::new(BlockId::new(planned.block), page);
            let Some(of_block) = self.table.blocks.get_mut(&planned.block) else { return Ok(None) };
            of_block.used_pages = page + 1;
            of_block.batch = self.batch;
        }
        planned.items.push((item, address));
        Ok(address)
    }

    /// The run for the next item of a use.
    fn run_for(&mut self, what_for: Use) -> Result<usize> {
        let block_pages = self.flash.geometry.block_pages;
        let current = self.current.iter().find(|(of, _)| *of == what_for).map(|(_, run)| *run);
        if let Some(run) = current
            && let Some(planned) = self.runs.get(run)
            && planned.items.len() < self.flash.geometry.run_entries()
            && planned.page + planned.pages() < block_pages
        {
            return Ok(run);
        }
        let (block, page) = self.room_for_run(what_for)?;
        self.runs.push(PlannedRun { block, page, items: Vec::new(), is_padding: false });
        let run = self.runs.len() - 1;
        self.current.retain(|(of, _)| *of != what_for);
        self.current.push((what_for, run));
        Ok(run)
    }

    /// Finds at least two free pages, and takes the first.
    fn room_for_run(&mut self, what_for: Use) -> Result<(u64, u32)> {
        let block_pages = self.flash.geometry.block_pages;
        if let Some(block) = self.table.open_block(what_for)
            && let Some(of_block) = self.table.blocks.get_mut(&block)
        {
            let page = of_block.used_pages;
            of_block.used_pages = block_pages.min(page + 1);
            if page + 1 < block_pages {
                return Ok((block, page));
            }
            if page < block_pages {
                // Fill the block up: a store that limits open blocks counts this one until it is full.
                let items = Vec::new();
                self.runs.push(PlannedRun { block, page, items, is_padding: true });
            }
            self.table.close(block);
        }
        let block = self.flash.alloc(what_for)?;
        self.table.insert(block, what_for, self.batch);
        if let Some(of_block) = self.table.blocks.get_mut(&block) {
            of_block.used_pages = 1;
        }
        Ok((block, 0))
    }
}

impl Volume {
    /// Writes a batch of all dirty pages and nodes, if there are any.
    pub(super) fn commit(&mut self) -> Result<()> {
        if self.is_clean() {
            return Ok(());
        }
        let keys: Vec<(u64, u64)> = self.pages.keys().copied().collect();
        let mut old = Vec::with_capacity(keys.len());
        for (ino, index) in keys {
            old.push(self.nodes.pointer(ino, index)?);
        }
        let mut attempt = 0;
        let runs = loop {
            let runs = self.plan()?;
            match self.write_runs(&runs, attempt) {
                Ok(()) => break runs,
                Err(error) if error.kind() == ErrorKind::Io && attempt + 1 < ATTEMPTS => {}
                Err(error) => return Err(error),
            }
            attempt += 1;
        };
        self.landed(&old, &runs);
        Ok(())
    }

    /// Assigns locations to everything, and updates the pointers.
    fn plan(&mut self) -> Result<Vec<PlannedRun>> {
        let data: Vec<(u64, u64, bool)> =
            self.pages.iter().map(|((ino, index), page)| (*ino, *index, page.moved)).collect();
        let nodes: Vec<NodeKey> = self.nodes.dirty().collect();
        let gone: Vec<(u64, u32)> = self.gone.iter().map(|(ino, part)| (*ino, *part)).collect();
        let (flash, batch) = (&self.flash, self.next_batch);
        let (runs, current) = (Vec::new(), Vec::new());
        let mut plan = Plan { flash, table: &mut self.table, batch, runs, current };
        let mut places = Vec::with_capacity(data.len());
        for (ino, index, moved) in data {
            let what_for = if moved { Use::Cold } else { Use::Hot };
            places.push(((ino, index), plan.place(what_for, Item::Data { ino, index })?));
        }
        for key in nodes {
            plan.place(Use::Nodes, Item::Node(key))?;
        }
        for (ino, from_part) in gone {
            plan.place(Use::Nodes, Item::Gone { ino, from_part })?;
        }
        let runs = plan.runs;
        for ((ino, index), address) in places {
            let checksum = self.pages.get(&(ino, index)).map_or(0, |page| {
                page.damaged.unwrap_or_else(|| larder_checksum::crc32c(&page.bytes))
            });
            let (part, slot) = self.nodes.holder(index);
            let pointer = address.map(|address| Pointer { address, checksum });
            if let Some(slot) = self.nodes.pointers_mut(ino, part)?.get_mut(slot) {
                *slot = pointer;
            }
        }
        Ok(runs)
    }

    /// Submits all runs, with one append per block, and waits for all.
    fn write_runs(&mut self, runs: &[PlannedRun], attempt: u16) -> Result<()> {
        let count = runs.iter().filter(|run| !run.is_padding).count();
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let mut appends: Vec<(u64, u32, Vec<u8>)> = Vec::new();
        let mut number = 0;
        for planned in runs {
            let at = appends.iter().position(|(block, ..)| *block == planned.block);
            let at = at.unwrap_or_else(|| {
                appends.push((planned.block, planned.page, Vec::new()));
                appends.len() - 1
            });
            let bytes = &mut appends[at].2;
            if planned.is_padding {
                bytes.resize(bytes.len() + self.flash.geometry.page_bytes, 0);
                continue;
            }
            self.encode_run(planned, (attempt, number, count), bytes)?;
            number += 1;
        }
        let under_way: Vec<(u64, IoFuture)> = appends
            .iter()
            .map(|(block, page, bytes)| (*block, self.flash.append(*block, *page, bytes)))
            .collect();
        let mut failed = None;
        for (block, append) in under_way {
            if let Err(failure) = append.wait() {
                self.table.close(block);
                failed = Some(Error::below(format!("appending to block {block}"), failure.error));
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn encode_run(
        &self,
        planned: &PlannedRun,
        (attempt, number, runs): (u16, u32, u32),
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        let page_bytes = self.flash.geometry.page_bytes;
        let begin = bytes.len();
        bytes.resize(begin + page_bytes, 0);
        let mut entries = Vec::with_capacity(planned.items.len());
        for (item, _) in &planned.items {
            entries.push(match *item {
                Item::Data { ino, index } => {
                    let missing = || Error::damaged("a page left its batch");
                    let page = self.pages.get(&(ino, index)).ok_or_else(missing)?;
                    bytes.extend_from_slice(&page.bytes);
                    let checksum =
                        page.damaged.unwrap_or_else(|| larder_checksum::crc32c(&page.bytes));
                    Entry::Data { inode: ino, index, checksum }
                }
                Item::Node((inode, part)) => {
                    let missing = || Error::damaged("a node left its batch");
                    let page = self.nodes.encode((inode, part)).ok_or_else(missing)?;
                    bytes.extend_from_slice(&page);
                    Entry::Node { inode, part, checksum: larder_checksum::crc32c(&page) }
                }
                Item::Gone { ino, from_part } => Entry::Gone { inode: ino, from_part },
            });
        }
        let run = Run { batch: self.next_batch, attempt, number, runs, entries };
        let address = Address::new(BlockId::new(planned.block), planned.page);
        let address = address.ok_or_else(|| Error::damaged("a block's number has no address"))?;
        run.encode(self.uuid, address, &mut bytes[begin..begin + page_bytes]);
        Ok(())
    }

    /// Updates the counts after a batch was written: what it replaced is dead, what it wrote is live.
    fn landed(&mut self, old: &[Option<Pointer>], runs: &[PlannedRun]) {
        for pointer in old.iter().flatten() {
            self.table.died(pointer.address);
        }
        for (item, address) in runs.iter().flat_map(|run| &run.items) {
            let Some(address) = *address else { continue };
            self.table.became_live(address);
            if let Item::Node(key) = *item {
                let page = self.nodes.encode(key).unwrap_or_default();
                let pointer = Pointer { address, checksum: larder_checksum::crc32c(&page) };
                if let Some(before) = self.nodes.was_written(key, pointer) {
                    self.table.died(before.address);
                }
            }
        }
        let pages: u64 = runs.iter().map(|run| u64::from(run.pages())).sum();
        self.logged_pages += pages;
        self.counts.logged_pages += pages;
        self.counts.batches += 1;
        self.counts.moved_pages += self.pages.values().filter(|page| page.moved).count() as u64;
        self.pages.clear();
        self.gone.clear();
        self.nodes.all_written();
        self.next_batch += 1;
    }
}
