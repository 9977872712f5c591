//! Reads the log of an earlier opening, and erases a log to make room for a new one.

use std::collections::{BTreeMap, HashMap, HashSet};

use larder_device::{Device, Io, IoBuffer, PlacementHandle};
use larder_log::CacheId;

use super::block::{BLOCK_BYTES, LogBlock, Slot, Tombstone, forge};
use super::number::BlockNumber;
use super::{CLOCK_MAX, TombstonesPlace};
use crate::base::error::Error;

/// Bytes that are read or written at a time.
const STEP_BYTES: u64 = 1 << 20;
/// Key tombstones that did not reach flash before a crash have indices above the last clock on flash, and buckets may
/// have these as stamps. So the next opening starts its clock well above. Every caller waits for its tombstone, so
/// there are at most as many such tombstones as concurrent callers.
const CLOCK_LEAP: u64 = 1 << 24;

/// What an earlier opening leaves to the next one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Inheritance {
    pub(super) clock: u64,
    /// The latest second in which a block was written.
    second: u32,
    pub(super) next_number: BlockNumber,
    pub(super) oldest: BlockNumber,
    /// Latest index by hash, for keys in buckets.
    pub(super) keys: BTreeMap<u64, u64>,
    /// The same for keys in tables.
    pub(super) table_keys: BTreeMap<u64, u64>,
    /// Sequence number and offset, by region.
    records: HashMap<u32, Vec<(u64, u32)>>,
    /// First valid filling, by region.
    regions: HashMap<u32, u64>,
    /// First valid filling for the large objects of a hash.
    pub(super) lost: HashMap<u64, u64>,
}

impl Inheritance {
    /// The latest second of the cache's clock that the log contains.
    pub(crate) fn second(&self) -> u32 {
        self.second
    }

    /// Keys that are dead in tables with a stamp of at most the index, by hash.
    #[cfg(test)]
    pub(crate) fn table_keys(&self) -> &BTreeMap<u64, u64> {
        &self.table_keys
    }

    /// Replaces the keys by what a snapshot says, taken at this clock: it lists exactly which keys are still dead in
    /// buckets, and in tables; for tables the indices here are kept.
    pub(crate) fn settle_keys(&mut self, clock: u64, dead_in_tables: &[u64]) {
        self.keys.clear();
        let dead: HashSet<u64> = dead_in_tables.iter().copied().collect();
        self.table_keys.retain(|hash, _| dead.contains(hash));
        self.clock = self.clock.max(clock);
    }

    /// The first valid filling of a region; 0 if any may be valid.
    pub(crate) fn first_filling(&self, region: u32) -> u64 {
        self.regions.get(&region).copied().unwrap_or(0)
    }

    /// Offsets of the dead records of a filling, sorted.
    pub(crate) fn dead_in(&self, region: u32, sequence: u64) -> Vec<u32> {
        let records = self.records.get(&region).map_or(&[][..], Vec::as_slice);
        let mut dead: Vec<u32> =
            records.iter().filter(|(of, _)| *of == sequence).map(|(_, offset)| *offset).collect();
        dead.sort_unstable();
        dead.dedup();
        dead
    }

    /// The latest filling of each region that the log knows of, and the number of tombstones of its records. A
    /// tombstone of a record also implies that its filling began, so earlier fillings are over.
    pub(super) fn fillings(&self) -> impl Iterator<Item = (u32, u64, u32)> {
        let regions = self.regions.keys().filter(|region| !self.records.contains_key(region));
        regions.chain(self.records.keys()).map(|&region| {
            let records = self.records.get(&region).map_or(&[][..], Vec::as_slice);
            let latest = records.iter().map(|(sequence, _)| *sequence).max().unwrap_or(0);
            let latest = latest.max(self.first_filling(region));
            let dead = records.iter().filter(|(sequence, _)| *sequence == latest).count();
            (region, latest, u32::try_from(dead).unwrap_or(u32::MAX))
        })
    }

    fn apply(&mut self, tombstone: Tombstone) {
        match tombstone {
            Tombstone::Key { hash, index } => raise(self.keys.entry(hash).or_default(), index),
            Tombstone::TableKey { hash, index } => {
                raise(self.table_keys.entry(hash).or_default(), index);
            }
            Tombstone::Record { region, offset, sequence } => {
                self.records.entry(region).or_default().push((sequence, offset));
            }
            Tombstone::Region { region, sequence } => {
                raise(self.regions.entry(region).or_default(), sequence);
            }
            Tombstone::Lost { hash, sequence } => {
                raise(self.lost.entry(hash).or_default(), sequence);
            }
        }
    }
}

fn raise(to: &mut u64, least: u64) {
    *to = least.max(*to);
}

/// Reads the log that a cache began in epoch `ring`. `None` if a part of it is damaged or missing.
pub(crate) async fn replay(
    device: &dyn Device,
    place: TombstonesPlace,
    (cache, ring): (CacheId, u32),
) -> Result<Option<Inheritance>, Error> {
    let (mut found, mut begun) = (BTreeMap::new(), Vec::new());
    let mut whole = true;
    for_each_step(place, async |offset, bytes| {
        let read = Io::Read { offset, buffer: IoBuffer::zeroed(bytes) };
        let buffer = device.submit(read).await;
        let buffer = buffer.map_err(|f| Error::device("cannot read the log", f.error))?;
        let first_slot = (offset - place.offset) / BLOCK_BYTES as u64;
        for (slot, bytes) in (first_slot..).zip(buffer.as_slice().chunks_exact(BLOCK_BYTES)) {
            match Slot::look(bytes, cache) {
                Slot::Whole(block) if block.ring == ring => {
                    whole &= block.number.slot(place.blocks) == slot;
                    found.insert(block.number, block);
                }
                Slot::Begun(of, number) if of == ring => {
                    whole &= number.slot(place.blocks) == slot;
                    begun.push(number);
                }
                Slot::Whole(_) | Slot::Begun(..) | Slot::Blank => {} // of an earlier log, or of none
                Slot::Damaged => whole = false,
            }
        }
        Ok(())
    })
    .await?;
    // No caller was answered for the entries of a block whose first write has not ended. There is at most one such
    // block, after the others: a block is opened when the previous one is on flash.
    let next = found.last_key_value().map_or(BlockNumber::FIRST, |(number, _)| number.next());
    whole &= begun.iter().all(|number| *number == next);
    Ok(if whole { join(found) } else { None })
}

/// Combines all blocks. `None` if one is missing.
fn join(found: BTreeMap<BlockNumber, LogBlock>) -> Option<Inheritance> {
    let mut inheritance = Inheritance { clock: 1 + CLOCK_LEAP, ..Inheritance::default() };
    if let Some((&number, latest)) = found.last_key_value() {
        // A clock this high was not written by this cache: buckets could not be stamped with it.
        if latest.clock >= CLOCK_MAX {
            return None;
        }
        let blocks = number.since(latest.oldest)?.checked_add(1)?;
        if found.range(latest.oldest..).count() as u64 != blocks {
            return None;
        }
        inheritance.oldest = latest.oldest;
        inheritance.next_number = number.next();
        inheritance.clock = latest.clock.saturating_add(CLOCK_LEAP);
        inheritance.second = found.values().map(|block| block.second).max().unwrap_or(0);
    }
    // Blocks before the oldest one are used too: they are needed until their copies are durable.
    let entries = found.into_values().flat_map(|block| block.entries);
    let (mut keys, mut table_keys) = (Vec::new(), Vec::new());
    for entry in entries {
        match entry {
            Tombstone::Key { hash, index } => keys.push((hash, index)),
            Tombstone::TableKey { hash, index } => table_keys.push((hash, index)),
            other => inheritance.apply(other),
        }
    }
    (inheritance.keys, inheritance.table_keys) = (latest(keys), latest(table_keys));
    debug_assert!(
        inheritance.oldest <= inheritance.next_number,
        "what counts is behind what comes"
    );
    Some(inheritance)
}

/// The latest index of each hash.
fn latest(mut keys: Vec<(u64, u64)>) -> BTreeMap<u64, u64> {
    // Sorted, with the latest index of a hash last: building a tree from sorted input is many times faster than
    // inserting.
    keys.sort_unstable();
    keys.into_iter().collect()
}

/// Erases the whole log.
pub(crate) async fn erase(device: &dyn Device, place: TombstonesPlace) -> Result<(), Error> {
    for_each_step(place, async |offset, bytes| {
        let (buffer, handle) = (IoBuffer::zeroed(bytes), PlacementHandle::DEFAULT);
        let write = device.submit(Io::write(offset, buffer, handle)).await;
        write.map(drop).map_err(|f| Error::device("cannot erase the log", f.error))
    })
    .await
}

async fn for_each_step(
    place: TombstonesPlace,
    mut step: impl AsyncFnMut(u64, usize) -> Result<(), Error>,
) -> Result<(), Error> {
    let end = place.offset + place.blocks * BLOCK_BYTES as u64;
    debug_assert!(
        (end - place.offset).is_multiple_of(BLOCK_BYTES as u64),
        "whole blocks: {place:?}"
    );
    let mut offset = place.offset;
    while offset < end {
        let bytes = STEP_BYTES.min(end - offset);
        step(offset, usize::try_from(bytes).unwrap_or(0)).await?;
        offset += bytes;
    }
    Ok(())
}

/// Entry point for the fuzzer: any bytes as blocks of a log, as they are and with correct checksums.
pub(crate) fn fuzz_log(bytes: &[u8]) {
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
    for _ in 0..2 {
        let parse = |bytes| LogBlock::parse(bytes, CacheId::ZERO);
        let blocks = padded.chunks_exact(BLOCK_BYTES).filter_map(parse);
        if let Some(inheritance) = join(blocks.map(|block| (block.number, block)).collect()) {
            assert!(inheritance.oldest <= inheritance.next_number);
        }
        padded.chunks_exact_mut(BLOCK_BYTES).for_each(forge);
    }
}
