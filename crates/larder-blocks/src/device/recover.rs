//! Recovery when a device is opened: slots by the tags of their blocks, pages by the headers of batches.
//!
//! If a loss of power interrupted a batch, the store has the beginning of it or nothing. It is the last batch of its
//! block, because nothing is appended to a block that was found. If two batches have a page, the later one counts. The
//! versions behind a batch count with that batch: no batch in between has their page (`writer.rs`).

use std::ops::Range;
use std::sync::Arc;

use larder_device::label::Uuid;
use larder_device::{Error, ErrorKind, IoBuffer};

use super::batch::{self, BatchHeader, Entry};
use super::map::PageMap;
use super::shape::{BATCH_PAGES, DeviceOnBlocksOptions, PAGE, PAGE_BYTES, Shape};
use super::tag::Purpose;
use crate::info::BlockId;
use crate::ledger::BlockState;
use crate::store::BlockStore;

/// Most pages that are read at a time to find the end of the versions of a page.
const VERSIONS_READ: u32 = 64;

/// What was found.
pub(super) struct RecoveredDevice {
    pub(super) uuid: Uuid,
    pub(super) map: PageMap,
    /// Sequence number of the next batch.
    pub(super) sequence: u64,
    /// The block of each slot.
    pub(super) slots: Vec<Option<BlockId>>,
}

/// A complete batch.
struct Batch {
    header: BatchHeader,
    entries: Vec<Entry>,
    /// Versions of its page that follow it.
    versions: u32,
}

/// The blocks of a store, by purpose.
struct SortedBlocks {
    pages: Vec<BlockState>,
    slots: Vec<Option<BlockState>>,
    /// If two blocks have the same slot, the one that does not count.
    superseded: Vec<BlockId>,
}

/// Reads the store. Frees blocks that are not needed. Writes nothing if it refuses.
pub(super) async fn recover(
    store: &Arc<dyn BlockStore>,
    shape: &Shape,
) -> Result<RecoveredDevice, Error> {
    let refuse = |what: &str| refusal(&**store, what);
    let sorted = sort(store, shape)?;
    let mut found: Vec<(BlockState, Vec<Batch>)> = Vec::new();
    for state in sorted.pages {
        let batches = batches_of(&**store, state).await?;
        found.push((state, batches));
    }
    let mut batches = found.iter().flat_map(|(_, batches)| batches);
    let Some(first) = batches.next() else {
        return Err(refuse("there is none; format it"));
    };
    let uuid = first.header.uuid;
    if batches.any(|batch| batch.header.uuid != uuid) {
        return Err(refuse("it has pages of two devices; format it if nothing on it is needed"));
    }
    check_options(&**store, &first.header.options, &shape.options)?;
    let newest = |batches: &[Batch]| batches.iter().map(|batch| batch.header.sequence).max();
    // In the order of their newest batches. If all blocks are taken, the last one is where cleaning was copying to.
    found.sort_by_key(|(_, batches)| newest(batches));
    let sequence = found.last().and_then(|(_, batches)| newest(batches)).map_or(0, |it| it + 1);
    let mut needless: Vec<BlockId> = sorted.superseded;
    found.retain(|(state, batches)| {
        if batches.is_empty() {
            needless.push(state.block);
        }
        !batches.is_empty()
    });
    match (found.len() as u64).cmp(&u64::from(shape.page_blocks)) {
        std::cmp::Ordering::Less => {}
        // Cleaning was interrupted: everything that it copied also exists at its old place.
        std::cmp::Ordering::Equal => needless.extend(found.pop().map(|(state, _)| state.block)),
        std::cmp::Ordering::Greater => return Err(refuse("it has more blocks than it may have")),
    }
    let mut map = replay(&found, shape).map_err(|what| refuse(&what))?;
    // Keep the newest block, even if it has no live page: without any batch there would be no device.
    let kept = found.last().map(|(state, _)| state.block);
    for frame in map.dead() {
        let block = map.block(frame);
        if Some(block) != kept {
            map.remove(frame);
            needless.push(block);
        }
    }
    for block in needless {
        store.free(block).await.map_err(|failure| failure.error)?;
    }
    let slots = sorted.slots.iter().map(|it| it.map(|state| state.block)).collect();
    Ok(RecoveredDevice { uuid, map, sequence, slots })
}

/// The options in the first batch that is found.
pub(super) async fn options_of(
    store: &Arc<dyn BlockStore>,
) -> Result<Option<DeviceOnBlocksOptions>, Error> {
    let is_found = |state: &BlockState| {
        Purpose::of(state.tag) == Some(Purpose::Pages) && state.written_bytes >= PAGE
    };
    for state in store.list().into_iter().filter(is_found) {
        let page = read(&**store, (state.block, 0), 1).await?;
        let own = |header: &BatchHeader| header.block == state.block && header.at == 0;
        if let Some((header, _)) = batch::parse(&page).filter(|(header, _)| own(header)) {
            return Ok(Some(header.options));
        }
    }
    Ok(None)
}

fn sort(store: &Arc<dyn BlockStore>, shape: &Shape) -> Result<SortedBlocks, Error> {
    let refuse = |what: &str| Err(refusal(&**store, what));
    let mut sorted = SortedBlocks {
        pages: Vec::new(),
        slots: vec![None; shape.slots as usize],
        superseded: Vec::new(),
    };
    for state in store.list() {
        match Purpose::of(state.tag) {
            Some(Purpose::Pages) => sorted.pages.push(state),
            Some(Purpose::Slot(slot)) => {
                let Some(known) = sorted.slots.get_mut(slot as usize) else {
                    return refuse(&format!(
                        "it has a slot {slot}, and there are {}; open it with the options that it was made with",
                        shape.slots
                    ));
                };
                // Blocks are listed in the order of their numbers. The older block counts as long as the other one is
                // shorter: a move to the other was in progress.
                let gives_way = match known {
                    Some(older) if older.written_bytes > state.written_bytes => Some(state),
                    _ => known.replace(state),
                };
                sorted.superseded.extend(gives_way.map(|state| state.block));
            }
            Some(Purpose::Formatting) => {
                return refuse("its formatting was cut short; format it again");
            }
            None => {
                return refuse(&format!(
                    "block {} with tag {:#x} belongs to another program; give it a store of its own, or format it",
                    state.block, state.tag
                ));
            }
        }
    }
    Ok(sorted)
}

/// The complete batches of a block, in order.
async fn batches_of(store: &dyn BlockStore, state: BlockState) -> Result<Vec<Batch>, Error> {
    let written = u32::try_from(state.written_bytes / PAGE).expect("the shape was checked");
    let mut batches: Vec<Batch> = Vec::new();
    let mut at = 0;
    let damage = |at: u32| {
        let what = format!("page {at} of block {} is damaged; format it", state.block);
        Err(refusal(store, &what))
    };
    while at < written {
        let page = read(store, (state.block, at), 1).await?;
        if let Some(version) = batch::later_version(&page) {
            return Err(refusal(
                store,
                &format!(
                    "it is in version {version} of the formats, which is later; use that version"
                ),
            ));
        }
        let own = |(header, _): &(BatchHeader, _)| header.block == state.block && header.at == at;
        let Some((header, entries)) = batch::parse(&page).filter(own) else {
            // An incomplete header is followed by at most the pages that the batch would have carried.
            if written - at > 1 + BATCH_PAGES {
                return damage(at);
            }
            break;
        };
        // If a header before this one is damaged, it passes for a version, and so do the pages behind it.
        let before = batches.last().map_or(0, |batch| batch.versions);
        if header.versions_before != before {
            return damage(at - before);
        }
        let end = at + 1 + batch::pages_of(&entries);
        // Check all pages only of the last batch: it may not have been acknowledged.
        let is_whole = end < written || {
            let pages = end - at - 1;
            end == written
                && batch::carries(&entries, &read(store, (state.block, at + 1), pages).await?)
        };
        if !is_whole {
            break;
        }
        let versions = match batch::versioned(&entries) {
            Some(_) => versions_from(store, state.block, end..written).await?,
            None => 0,
        };
        batches.push(Batch { header, entries, versions });
        at = end + versions;
    }
    Ok(batches)
}

/// Number of pages at the start of this range of a block that are versions.
async fn versions_from(
    store: &dyn BlockStore,
    block: BlockId,
    pages: Range<u32>,
) -> Result<u32, Error> {
    let mut end = pages.start;
    while end < pages.end {
        // Twice as many each time: most batches are followed by a header, others by many versions.
        let count = (end - pages.start + 1).min(VERSIONS_READ).min(pages.end - end);
        let there = read(store, (block, end), count).await?;
        let versions = there.chunks(PAGE_BYTES).take_while(|page| !batch::begins_as_header(page));
        let versions = u32::try_from(versions.count()).expect("they are pages of a block");
        end += versions;
        if versions < count {
            break;
        }
    }
    Ok(end - pages.start)
}

/// The map that all batches together give.
fn replay(found: &[(BlockState, Vec<Batch>)], shape: &Shape) -> Result<PageMap, String> {
    let mut map = PageMap::new(shape);
    let mut ordered: Vec<(u64, u32, &Batch)> = Vec::new();
    for (state, batches) in found {
        let frame = map.add(state.block);
        ordered.extend(batches.iter().map(|batch| (batch.header.sequence, frame, batch)));
    }
    ordered.sort_by_key(|(sequence, ..)| *sequence);
    if ordered.windows(2).any(|two| two[0].0 == two[1].0) {
        return Err("two of its batches are one; format it if nothing on it is needed".to_owned());
    }
    for (_, frame, Batch { header, entries, versions }) in ordered {
        let mut at = header.at;
        for entry in entries {
            let Range { start: page, end } = entry.pages();
            if end > shape.pages {
                return Err(format!("it has pages from {page} on, and there are {}", shape.pages));
            }
            match entry {
                Entry::Data { .. } => {
                    at += 1;
                    map.set(page, frame, at);
                }
                Entry::FirstVersion { .. } => map.set(page, frame, at + 1 + versions),
                Entry::Zeros { .. } => (page..end).for_each(|page| map.set_zeros(page, frame)),
            }
        }
    }
    Ok(map)
}

fn check_options(
    store: &dyn BlockStore,
    found: &DeviceOnBlocksOptions,
    wanted: &DeviceOnBlocksOptions,
) -> Result<(), Error> {
    if found == wanted {
        return Ok(());
    }
    let DeviceOnBlocksOptions {
        capacity_bytes,
        front_bytes,
        tail_bytes,
        spare_percent,
        slots_together,
        handles,
    } = found;
    Err(refusal(
        store,
        &format!(
            "it was made with capacity_bytes {capacity_bytes}, front_bytes {front_bytes}, tail_bytes {tail_bytes}, \
             spare_percent {spare_percent}, slots_together {slots_together}, handles {handles}; open it with these, \
             or format it"
        ),
    ))
}

async fn read(
    store: &dyn BlockStore,
    (block, at): (BlockId, u32),
    pages: u32,
) -> Result<Vec<u8>, Error> {
    if pages == 0 {
        return Ok(Vec::new());
    }
    let buffer = IoBuffer::zeroed(pages as usize * PAGE_BYTES);
    let read = store.read(block, u64::from(at) * PAGE, buffer).await;
    read.map(|buffer| buffer.as_slice().to_vec()).map_err(|failure| failure.error)
}

fn refusal(store: &dyn BlockStore, what: &str) -> Error {
    let context = format!("device on {}: {what}; nothing was written", store.info().name);
    Error::new(ErrorKind::Setup, context)
}
