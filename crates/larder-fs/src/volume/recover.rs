//! Rebuilds the state from the blocks: the newest complete checkpoint, and the batches after it.
//!
//! 1. Checkpoints are in separate blocks. The complete one with the highest sequence is used. Blocks that it lists
//!    without live pages may be gone: it was written so that they could be freed.
//! 2. In each block, runs follow from the end that the checkpoint recorded. A batch is valid if all runs of one of its
//!    attempts are present, and all batches before it are valid. Only the last batch may be incomplete, because a batch
//!    begins after the previous one has been written.
//! 3. Live pages are recounted for the nodes that these batches wrote: pages of the version in the checkpoint have
//!    died, pages of the newest version are live.
//!
//! Nothing is written. Anything that cannot result from a power loss is damage, and an error.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use larder_blocks::{BlockId, BlockState};
use larder_device::label::Uuid;

use super::NodeKey;
use crate::address::{Address, Pointer};
use crate::attributes::ROOT;
use crate::error::{Error, ErrorKind, Result};
use crate::flash::Flash;
use crate::formats::checkpoint::{Body, Which, decode_body, decode_page, other_version};
use crate::formats::node::{self, PART_ATTRIBUTES, PART_INODE, Pointers};
use crate::formats::run::{Entry, Run};
use crate::formats::tag::Use;
use crate::table::{BlockUse, Table};

/// Batches, checkpoints and inodes are counted one by one, and never reach this number.
const NUMBER_MAX: u64 = 1 << 62;

/// The state of a file system on a store.
pub(crate) struct Recovered {
    pub(crate) uuid: Uuid,
    pub(crate) sequence: u64,
    pub(crate) next_batch: u64,
    pub(crate) next_ino: u64,
    pub(crate) nodes: BTreeMap<NodeKey, Pointer>,
    pub(crate) table: Table,
    pub(crate) orphans: BTreeSet<u64>,
    /// The blocks differ from the checkpoint: a new one must be written before anything else.
    pub(crate) is_behind: bool,
    /// Batches after the checkpoint.
    pub(crate) batches: u64,
}

/// A run, and its address.
struct Lying {
    address: Address,
    run: Run,
}

/// Reads the state of the file system on a store.
///
/// # Errors
/// [`ErrorKind::Setup`] if there is none, or one of another version; [`ErrorKind::Damaged`].
pub(crate) fn recover(flash: &Flash) -> Result<Recovered> {
    let states: BTreeMap<u64, BlockState> =
        flash.list().into_iter().map(|state| (state.block.number(), state)).collect();
    if let Some(foreign) = states.values().find(|state| Use::of_tag(state.tag).is_none()) {
        let context = format!("block {} is not of a file system of Larder", foreign.block);
        return Err(Error::new(ErrorKind::Setup, context));
    }
    let (which, body) = newest_checkpoint(flash, &states)?;
    let mut recovered = from_checkpoint(flash, &states, which, body)?;
    let starts = starts(flash, &states, &mut recovered)?;
    roll_forward(flash, starts, &mut recovered)?;
    if recovered.table.mismatches > 0 {
        return Err(Error::damaged("the counts of live pages do not fit what is there"));
    }
    open_blocks(flash, &states, &mut recovered.table);
    Ok(recovered)
}

/// The newest checkpoint with all of its pages.
fn newest_checkpoint(flash: &Flash, states: &BTreeMap<u64, BlockState>) -> Result<(Which, Body)> {
    let mut found: HashMap<Which, BTreeMap<u32, Vec<u8>>> = HashMap::new();
    let mut other = None;
    for state in states.values().filter(|state| Use::of_tag(state.tag) == Some(Use::Checkpoint)) {
        let pages = flash.written_pages(state);
        let Some(first) = Address::new(state.block, 0).filter(|_| pages > 0) else { continue };
        let bytes = flash.read(first, pages)?;
        for page in bytes.chunks_exact(flash.geometry.page_bytes) {
            match decode_page(page) {
                Some((which, number, part)) => {
                    found.entry(which).or_default().insert(number, part.to_vec());
                }
                None => other = other.or(other_version(page)),
            }
        }
    }
    let whole =
        found.into_iter().filter(|(which, parts)| parts.len() as u64 == u64::from(which.pages));
    let newest = whole.max_by_key(|(which, _)| which.sequence);
    let Some((which, parts)) = newest else {
        let context = match other {
            Some(version) => format!("a file system of version {version} of the formats"),
            None if states.is_empty() => "there is no file system".to_owned(),
            None => "there is no whole checkpoint of a file system".to_owned(),
        };
        return Err(Error::new(ErrorKind::Setup, context));
    };
    let bytes: Vec<u8> = parts.into_values().flatten().collect();
    let body = decode_body(&bytes);
    let body = body.ok_or_else(|| Error::damaged("the checkpoint has no meaning"))?;
    let fits = u64::from(body.page_bytes) == flash.geometry.page_bytes as u64
        && body.block_pages == flash.geometry.block_pages;
    if !fits {
        let context = format!(
            "a file system with pages of {} bytes and blocks of {} of them, which the store has not",
            body.page_bytes, body.block_pages
        );
        return Err(Error::new(ErrorKind::Setup, context));
    }
    Ok((which, body))
}

/// The state of the checkpoint, after checking that it is possible.
fn from_checkpoint(
    flash: &Flash,
    states: &BTreeMap<u64, BlockState>,
    which: Which,
    body: Body,
) -> Result<Recovered> {
    let mut table = Table::default();
    let of_checkpoints = states.values().filter(|it| Use::of_tag(it.tag) == Some(Use::Checkpoint));
    table.checkpoints = of_checkpoints.map(|state| state.block.number()).collect();
    let mut is_behind = false;
    for line in body.blocks {
        let Some(state) = states.get(&line.block) else {
            if line.live_pages > 0 {
                return Err(Error::damaged(format!("block {} is gone", line.block)));
            }
            is_behind = true;
            continue;
        };
        // Pages that a failed append abandoned were never written.
        let written = flash.written_pages(state);
        let fits = Use::of_tag(state.tag) == Some(line.what_for)
            && line.live_pages <= line.used_pages
            && line.live_pages <= written;
        if !fits {
            return Err(Error::damaged(format!("block {} is not what it was", line.block)));
        }
        let it = BlockUse {
            what_for: line.what_for,
            used_pages: line.used_pages,
            live_pages: line.live_pages,
            batch: line.batch,
            damaged: false,
        };
        table.blocks.insert(line.block, it);
    }
    let mut nodes = BTreeMap::new();
    let mut nodes_of: HashMap<u64, u32> = HashMap::new();
    for (key, pointer) in body.nodes {
        let is_there = is_in(&table, pointer.address);
        if !is_there || nodes.insert(key, pointer).is_some() {
            return Err(Error::damaged(format!("inode {} part {} is lost", key.0, key.1)));
        }
        *nodes_of.entry(pointer.address.block().number()).or_default() += 1;
    }
    // A block whose count is too low would be freed too soon.
    let live = |block| table.blocks.get(block).map_or(0, |it| it.live_pages);
    if let Some((block, _)) = nodes_of.iter().find(|(block, nodes)| live(block) < **nodes) {
        return Err(Error::damaged(format!("block {block} has more nodes than live pages")));
    }
    let next_ino = nodes.keys().next_back().map_or(ROOT, |(ino, _): &NodeKey| *ino).max(ROOT);
    let next_ino = body.next_ino.max(next_ino.saturating_add(1));
    if which.sequence.max(which.batch).max(next_ino) > NUMBER_MAX {
        return Err(Error::damaged("the checkpoint has numbers above the maximum"));
    }
    Ok(Recovered {
        uuid: which.uuid,
        sequence: which.sequence,
        next_batch: which.batch.saturating_add(1),
        next_ino,
        nodes,
        table,
        orphans: body.orphans.into_iter().collect(),
        is_behind,
        batches: 0,
    })
}

fn is_in(table: &Table, address: Address) -> bool {
    let block = table.blocks.get(&address.block().number());
    block.is_some_and(|it| address.page() < it.used_pages)
}

/// For each block, the page from which on it has data that is newer than the checkpoint. Afterwards the table has all
/// blocks in their current state.
fn starts(
    flash: &Flash,
    states: &BTreeMap<u64, BlockState>,
    recovered: &mut Recovered,
) -> Result<Vec<(BlockId, u32, u32)>> {
    let mut starts = Vec::new();
    for state in states.values() {
        let what_for = Use::of_tag(state.tag).unwrap_or(Use::Checkpoint);
        if what_for == Use::Checkpoint {
            continue;
        }
        let written = flash.written_pages(state);
        let known = recovered.table.blocks.get(&state.block.number()).copied();
        let from = known.map_or(0, |it| it.used_pages);
        recovered.is_behind |= known.is_none() || from < written;
        if Address::new(state.block, written).is_none() {
            return Err(Error::damaged(format!("block {} has a number too high", state.block)));
        }
        let it = BlockUse {
            what_for,
            used_pages: from.max(written),
            live_pages: known.map_or(0, |it| it.live_pages),
            batch: known.map_or(recovered.next_batch, |it| it.batch),
            damaged: false,
        };
        recovered.table.blocks.insert(state.block.number(), it);
        if from < written {
            starts.push((state.block, from, written));
        }
    }
    Ok(starts)
}

/// The runs of a block from a page on, and the highest batch among runs that follow a page which is not a run.
fn runs_from(flash: &Flash, uuid: Uuid, start: (BlockId, u32, u32)) -> Result<(Vec<Lying>, u64)> {
    let (block, from, written) = start;
    let (mut runs, mut stray) = (Vec::new(), 0);
    let mut page = from;
    let mut is_behind_garbage = false;
    while page < written {
        let Some(address) = Address::new(block, page) else { break };
        let bytes = flash.read(address, 1)?;
        match Run::decode(uuid, address, &bytes) {
            Some(run) if is_behind_garbage => {
                stray = stray.max(run.batch);
                page += 1;
            }
            Some(run) => {
                page = page.saturating_add(1).saturating_add(run.pages());
                runs.push(Lying { address, run });
            }
            None => {
                is_behind_garbage = true;
                page += 1;
            }
        }
    }
    Ok((runs, stray))
}

fn roll_forward(
    flash: &Flash,
    starts: Vec<(BlockId, u32, u32)>,
    recovered: &mut Recovered,
) -> Result<()> {
    let mut batches: BTreeMap<u64, BTreeMap<u16, Vec<Lying>>> = BTreeMap::new();
    let mut stray = 0;
    for start in starts {
        let (runs, beyond) = runs_from(flash, recovered.uuid, start)?;
        stray = stray.max(beyond);
        for lying in runs.into_iter().filter(|it| it.run.batch >= recovered.next_batch) {
            let attempts = batches.entry(lying.run.batch).or_default();
            attempts.entry(lying.run.attempt).or_default().push(lying);
        }
    }
    let newest = batches.keys().next_back().copied();
    let mut before: BTreeMap<NodeKey, Option<Pointer>> = BTreeMap::new();
    let mut last = recovered.next_batch - 1;
    for (number, attempts) in batches {
        let is_newest = Some(number) == newest;
        let mut whole = None;
        for (_, mut runs) in attempts.into_iter().rev() {
            if whole.is_none() && is_whole(&mut runs) && (!is_newest || has_landed(flash, &runs)?) {
                whole = Some(runs);
            }
        }
        match whole {
            Some(runs) if number == last.saturating_add(1) => {
                apply(&runs, recovered, &mut before)?;
                last = number;
                recovered.batches += 1;
            }
            None if is_newest => {}
            _ => return Err(Error::damaged(format!("batch {} of the log is lost", last + 1))),
        }
    }
    if stray > last.saturating_add(1) {
        return Err(Error::damaged(format!("the log is damaged in front of batch {stray}")));
    }
    // A batch that was interrupted must not have the same number as a later one.
    let highest = newest.unwrap_or(last).max(stray).max(last);
    if highest > NUMBER_MAX {
        return Err(Error::damaged("the log has batch numbers above the maximum"));
    }
    recovered.next_batch = highest + 1;
    recount(flash, before, recovered)
}

/// Whether all runs of an attempt are present. Sorts them.
fn is_whole(runs: &mut [Lying]) -> bool {
    runs.sort_by_key(|it| it.run.number);
    let count = runs.len() as u64;
    (0..)
        .zip(runs.iter())
        .all(|(number, it)| it.run.number == number && u64::from(it.run.runs) == count)
}

/// Whether all pages of an attempt match its runs.
fn has_landed(flash: &Flash, runs: &[Lying]) -> Result<bool> {
    let listed = flash.list();
    for it in runs {
        let pages = it.run.pages();
        let state = listed.iter().find(|state| state.block == it.address.block());
        let written = state.map_or(0, |state| flash.written_pages(state));
        let end = u64::from(it.address.page()) + 1 + u64::from(pages);
        if end > u64::from(written) {
            return Ok(false);
        }
        let Some(first) = Address::from_raw(it.address.raw() + 1).filter(|_| pages > 0) else {
            continue;
        };
        let bytes = flash.read(first, pages)?;
        let checksums = it.run.entries.iter().filter_map(Entry::checksum);
        let mut pages = bytes.chunks_exact(flash.geometry.page_bytes).zip(checksums);
        if !pages.all(|(page, checksum)| larder_checksum::crc32c(page) == checksum) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Applies a batch: first the removals, then the new pages.
fn apply(
    runs: &[Lying],
    recovered: &mut Recovered,
    before: &mut BTreeMap<NodeKey, Option<Pointer>>,
) -> Result<()> {
    for entry in runs.iter().flat_map(|it| &it.run.entries) {
        let Entry::Gone { inode, from_part } = *entry else { continue };
        let range = (inode, from_part)..=(inode, u32::MAX);
        let keys: Vec<NodeKey> = recovered.nodes.range(range).map(|(key, _)| *key).collect();
        for key in keys {
            let pointer = recovered.nodes.remove(&key);
            before.entry(key).or_insert(pointer);
        }
    }
    for it in runs {
        let mut at = it.address.raw();
        for entry in it.run.entries.iter().filter(|entry| entry.checksum().is_some()) {
            at += 1;
            let Entry::Node { inode, part, checksum } = *entry else { continue };
            let address = Address::from_raw(at).filter(|at| at.block() == it.address.block());
            let address = address.filter(|address| is_in(&recovered.table, *address));
            let lost = || Error::damaged(format!("inode {inode} part {part} is lost"));
            let pointer = Pointer { address: address.ok_or_else(lost)?, checksum };
            let old = recovered.nodes.insert((inode, part), pointer);
            before.entry((inode, part)).or_insert(old);
            if inode > NUMBER_MAX {
                return Err(lost());
            }
            recovered.next_ino = recovered.next_ino.max(inode + 1);
        }
    }
    Ok(())
}

/// Updates the counts for all changed nodes, and finds inodes that have lost their last name.
fn recount(
    flash: &Flash,
    before: BTreeMap<NodeKey, Option<Pointer>>,
    recovered: &mut Recovered,
) -> Result<()> {
    for (key, old) in before {
        let new = recovered.nodes.get(&key).copied();
        if old == new {
            continue;
        }
        if let Some(old) = old {
            let (pointers, _) = pointers_of(flash, key, old)?;
            recovered.table.died(old.address);
            pointers.iter().flatten().for_each(|it| recovered.table.died(it.address));
        }
        if let Some(new) = new {
            let (pointers, links) = pointers_of(flash, key, new)?;
            recovered.table.became_live(new.address);
            pointers.iter().flatten().for_each(|it| recovered.table.became_live(it.address));
            match links {
                Some(0) => drop(recovered.orphans.insert(key.0)),
                Some(_) => drop(recovered.orphans.remove(&key.0)),
                None => {}
            }
        } else if key.1 == PART_INODE {
            recovered.orphans.remove(&key.0);
        }
    }
    Ok(())
}

/// The pointers of a node, and for an inode its link count.
pub(crate) fn pointers_of(
    flash: &Flash,
    (ino, part): NodeKey,
    pointer: Pointer,
) -> Result<(Pointers, Option<u32>)> {
    let page = flash.read_checked(pointer)?;
    let read = match part {
        PART_INODE => node::decode_inode(ino, &page).map(|it| (it.pointers, Some(it.links))),
        PART_ATTRIBUTES => Some((Pointers::new(), None)),
        _ => node::decode_leaf(ino, part, &page).map(|pointers| (pointers, None)),
    };
    read.ok_or_else(|| Error::damaged(format!("{:?} is no node of inode {ino}", pointer.address)))
}

/// Reopens blocks that are not full, one for each stream.
fn open_blocks(flash: &Flash, states: &BTreeMap<u64, BlockState>, table: &mut Table) {
    let geometry = flash.geometry;
    let mut best: BTreeMap<Use, (u32, u64)> = BTreeMap::new();
    for (block, it) in &table.blocks {
        let state = states.get(block);
        let takes_more = state.is_some_and(|state| {
            !state.closed
                && flash.written_pages(state) == it.used_pages
                && state.written_bytes == u64::from(it.used_pages) * geometry.page_bytes as u64
        });
        if takes_more && it.used_pages < geometry.block_pages {
            let known = best.entry(it.what_for).or_insert((it.used_pages, *block));
            *known = (*known).min((it.used_pages, *block));
        }
    }
    for (what_for, (_, block)) in best {
        table.set_open(what_for, Some(block));
    }
}
