//! Writing batches to blocks, and cleaning.
//!
//! Each placement handle has a block that is being filled, its *frontier*. With several handles, copies have a frontier
//! too.
//!
//! One block in reserve is used only for cleaning. The live pages of the block that is cleaned go there if the frontier
//! of copies has no room for them; then the cleaned block is freed and becomes the reserve. The shape has enough blocks
//! that the one with the fewest live pages leaves room for a batch, so cleaning always makes progress (`shape.rs`
//! counts the blocks). Until then the reserve holds only copies: if cleaning fails, or a crash interrupts it, the
//! copies are abandoned, and the block is the reserve again.
//!
//! A page that is written alone, and then again before anything else comes to its frontier, is appended without another
//! header, as a *version* of the page (`batch.rs`). Recovery takes versions for as old as the batch in front of them,
//! so a batch that has the page anywhere ends them.

use std::collections::BTreeSet;

use larder_device::{Error, ErrorKind, IoBuffer, IoFailure, IoFuture};

use super::area::Area;
use super::batch::{self, BatchHeader, ENTRIES_MAX, Entry};
use super::counts::add;
use super::map::{Live, Victim};
use super::queue::PendingChange;
use super::shape::{BATCH_PAGES, PAGE, PAGE_BYTES, Shape};
use super::tag::Purpose;

/// Least pages that a batch needs: its header and one more.
const ROOM_MIN: u32 = 2;

/// A block that is being filled. If it has no room, its frame may by now stand for another block; nothing is appended
/// to it then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Open {
    frame: u32,
    /// The page at which the next batch begins.
    next_page: u32,
    /// The page of which versions may be appended here.
    versioned: Option<u32>,
    /// Versions since the last batch.
    versions: u32,
}

impl Open {
    /// Whether a batch can be appended, or a version.
    fn has_room(&self, area: &Area) -> bool {
        let left = area.shape.block_pages - self.next_page;
        left >= ROOM_MIN || left > 0 && self.versioned.is_some()
    }
}

/// The writer of batches; a device has one.
#[derive(Debug)]
pub(super) struct Writer {
    /// One per handle; copies go to the last one.
    frontiers: Vec<Option<Open>>,
    /// Sequence number of the next batch.
    sequence: u64,
    /// The change of which the last batch had room only for a part.
    partial: Option<PendingChange>,
}

/// The contents of a batch, before its pages are copied.
#[derive(Debug, Default)]
struct Plan {
    ops: Vec<PendingChange>,
    items: Vec<Item>,
    /// The last of `ops` continues in the next batch.
    is_partial: bool,
}

#[derive(Debug, Clone, Copy)]
enum Item {
    /// A page, whose content is at `at` in this operation.
    Data {
        page: u32,
        op: usize,
        at: usize,
    },
    Zeros {
        page: u32,
        count: u32,
    },
}

impl Writer {
    /// A writer whose next batch has this sequence number and goes to a new block: a batch that a crash interrupted
    /// stays the end of its block.
    pub(super) fn new(shape: &Shape, sequence: u64) -> Self {
        Self { frontiers: vec![None; shape.frontiers()], sequence, partial: None }
    }

    /// Whether no change is half written.
    pub(super) fn is_at_rest(&self) -> bool {
        self.partial.is_none()
    }

    /// Writes the first batch of a device, which makes the device exist.
    pub(super) async fn begin(&mut self, area: &Area) -> Result<(), Error> {
        self.make_room(area, 0).await?;
        self.append(area, 0, &[], IoBuffer::zeroed(PAGE_BYTES)).await
    }

    /// Writes a version, or a batch of waiting changes with the handle of the oldest one, and completes their requests.
    pub(super) async fn write_next(&mut self, area: &Area) {
        let partial = self.partial.as_ref().map(|pending| pending.handle);
        let Some(handle) = partial.or_else(|| area.lock().queue.first_handle()) else { return };
        if let Some(pending) = self.take_version(area, handle) {
            return self.write_version(area, pending).await;
        }
        let room = match self.make_room(area, handle.into()).await {
            Ok(room) => room,
            Err(error) => {
                let waiting = area.lock().queue.take_all(handle);
                for pending in self.partial.take().into_iter().chain(waiting) {
                    fail(area, pending, &error);
                }
                return;
            }
        };
        let plan = self.plan(area, handle, room);
        let written = match plan.items[..] {
            [] => Ok(()),
            _ => self.write(area, handle.into(), &plan).await,
        };
        let Plan { mut ops, is_partial, items } = plan;
        if written.is_ok() {
            let data = items.iter().filter(|item| matches!(item, Item::Data { .. })).count();
            add(&area.counters.pages, (data * PAGE_BYTES) as u64);
            if is_partial {
                self.partial = ops.pop();
            }
        }
        for pending in ops {
            match &written {
                Ok(()) => {
                    let PendingChange { content, completer, .. } = pending;
                    completer.complete(Ok(content.unwrap_or_else(IoBuffer::empty)));
                }
                Err(error) => fail(area, pending, error),
            }
        }
    }

    /// Plans the next batch, of at most `room` pages.
    fn plan(&mut self, area: &Area, handle: u16, room: u32) -> Plan {
        let data_max = (room - 1).min(BATCH_PAGES) as usize;
        let mut plan = Plan::default();
        let mut written = BTreeSet::new();
        let state = &mut *area.lock();
        let mut at = 0;
        let mut next = || self.partial.take().or_else(|| state.queue.take(handle, &mut at));
        while let Some(mut pending) = next() {
            let op = plan.ops.len();
            while pending.taken < pending.count {
                let page = pending.first + pending.taken;
                if plan.items.len() == ENTRIES_MAX || written.len() == data_max {
                    break;
                }
                if pending.content.is_some() {
                    let at = pending.taken as usize * PAGE_BYTES;
                    // A second write of the same page goes into the next batch.
                    if !written.insert(page) {
                        break;
                    }
                    plan.items.push(Item::Data { page, op, at });
                } else if written.contains(&page) {
                    break;
                } else if state.map.has_content(page) {
                    plan.add_zeros(page);
                }
                pending.taken += 1;
            }
            plan.is_partial = pending.taken < pending.count;
            plan.ops.push(pending);
            if plan.is_partial {
                break;
            }
        }
        plan
    }

    /// Takes the next change if it can be appended as a version: its page alone, to where the versions of that are.
    fn take_version(&self, area: &Area, handle: u16) -> Option<PendingChange> {
        let open = self.frontiers[usize::from(handle)].filter(|open| open.has_room(area))?;
        // Without a block in reserve, the newest block holds copies only, and must stay the newest.
        if self.partial.is_some() || self.free(area) == 0 {
            return None;
        }
        area.lock().queue.take_first_if(|pending| {
            let mut begins = [0; batch::MAGIC_BYTES];
            let Some(content) = &pending.content else { return false };
            content.copy_out(0, &mut begins);
            pending.count == 1
                && open.versioned == Some(pending.first)
                && !batch::begins_as_header(&begins)
        })
    }

    /// Appends a version, and completes its request.
    async fn write_version(&mut self, area: &Area, mut pending: PendingChange) {
        let frontier = usize::from(pending.handle);
        let open = self.frontiers[frontier].take().expect("it takes a version");
        let block = area.lock().map.block(open.frame);
        let content = pending.content.take().expect("a version has content");
        match area.store.append(block, u64::from(open.next_page) * PAGE, content).await {
            Ok(content) => {
                area.lock().map.set(pending.first, open.frame, open.next_page);
                add(&area.counters.pages, PAGE);
                let (next_page, versions) = (open.next_page + 1, open.versions + 1);
                self.frontiers[frontier] = Some(Open { next_page, versions, ..open });
                pending.completer.complete(Ok(content));
            }
            // The frontier stays `None`, as for a batch.
            Err(failure) => {
                pending.content = Some(failure.buffer);
                fail(area, pending, &failure.error);
            }
        }
    }

    async fn write(&mut self, area: &Area, frontier: usize, plan: &Plan) -> Result<(), Error> {
        let data = plan.items.iter().filter(|item| matches!(item, Item::Data { .. })).count();
        let mut buffer = IoBuffer::zeroed((1 + data) * PAGE_BYTES);
        let mut end = PAGE_BYTES;
        let mut entries = Vec::with_capacity(plan.items.len());
        for item in &plan.items {
            entries.push(match *item {
                Item::Zeros { page, count } => Entry::Zeros { page, count },
                Item::Data { page, op, at } => {
                    let into = &mut buffer.as_mut_slice()[end..end + PAGE_BYTES];
                    let content = plan.ops[op].content.as_ref().expect("it has some");
                    content.copy_out(at, into);
                    end += PAGE_BYTES;
                    let checksum = larder_checksum::crc32c(into);
                    match plan.items.len() {
                        1 => Entry::FirstVersion { page, checksum },
                        _ => Entry::Data { page, checksum },
                    }
                }
            });
        }
        self.append(area, frontier, &entries, buffer).await
    }

    /// Appends a batch, whose header is still missing, to a frontier, and updates the map.
    async fn append(
        &mut self,
        area: &Area,
        frontier: usize,
        entries: &[Entry],
        mut buffer: IoBuffer,
    ) -> Result<(), Error> {
        let open = self.frontiers[frontier].take().expect("room was made");
        let Open { frame, next_page, .. } = open;
        let block = area.lock().map.block(frame);
        let header = BatchHeader {
            uuid: area.uuid,
            sequence: self.sequence,
            block,
            at: next_page,
            versions_before: open.versions,
            options: area.shape.options,
        };
        // Also if the append fails: the batch may be stored all the same. Its number must not be used again, and
        // versions that count as older than the batch must not follow.
        self.sequence += 1;
        self.end_versions(entries);
        buffer.copy_in(0, &batch::encode(&header, entries));
        let pages = u32::try_from(buffer.len() / PAGE_BYTES).expect("a batch is short");
        let appended = area.store.append(block, u64::from(next_page) * PAGE, buffer).await;
        // On failure the frontier stays `None`: its block takes no more appends.
        appended.map_err(|failure| failure.error)?;
        let versioned = batch::versioned(entries);
        let open = Open { frame, next_page: next_page + pages, versioned, versions: 0 };
        self.frontiers[frontier] = Some(open);
        add(&area.counters.headers, PAGE);
        let map = &mut area.lock().map;
        let mut at = next_page + 1;
        for entry in entries {
            match *entry {
                Entry::Data { page, .. } | Entry::FirstVersion { page, .. } => {
                    map.set(page, frame, at);
                    at += 1;
                }
                Entry::Zeros { page, count } => {
                    (page..page + count).for_each(|page| map.set_zeros(page, frame));
                }
            }
        }
        Ok(())
    }

    /// Ends the versions of each page that a batch has: it is later than all of them.
    fn end_versions(&mut self, entries: &[Entry]) {
        for open in self.frontiers.iter_mut().flatten() {
            let Some(versioned) = open.versioned else { continue };
            let has_it = entries.iter().any(|entry| entry.pages().contains(&versioned));
            if has_it {
                open.versioned = None;
            }
        }
    }

    /// Makes sure that a frontier has room for a batch, and that there is a block in reserve. Returns the room in
    /// pages: at least a header and one more.
    async fn make_room(&mut self, area: &Area, frontier: usize) -> Result<u32, Error> {
        // A batch ends versions, so a block that has room for nothing else can be cleaned.
        if let Some(open) = &mut self.frontiers[frontier] {
            open.versioned = None;
        }
        loop {
            let free = self.free(area);
            let room = self.room(area, frontier);
            if free > 0 && room >= ROOM_MIN {
                return Ok(room);
            }
            if free > 1 {
                self.open_block(area, frontier).await?;
                continue;
            }
            let victim = area.lock().map.victim(|frame| self.is_filling(area, frame));
            let Some(victim) = victim else {
                return Err(no_space(area, "nothing can be cleaned"));
            };
            if victim.cost > 0 && (free == 0 || victim.cost + 1 >= area.shape.block_pages) {
                return Err(no_space(area, "cleaning would gain nothing"));
            }
            self.clean(area, victim).await?;
        }
    }

    /// Number of blocks that may still be allocated.
    fn free(&self, area: &Area) -> u32 {
        area.shape.page_blocks.saturating_sub(area.lock().map.blocks())
    }

    fn room(&self, area: &Area, frontier: usize) -> u32 {
        self.frontiers[frontier].map_or(0, |open| area.shape.block_pages - open.next_page)
    }

    /// Whether a block is a frontier with room.
    fn is_filling(&self, area: &Area, frame: u32) -> bool {
        let with_room = self.frontiers.iter().flatten().filter(|open| open.has_room(area));
        with_room.map(|open| open.frame).any(|filling| filling == frame)
    }

    async fn open_block(&mut self, area: &Area, frontier: usize) -> Result<(), Error> {
        let handle = u16::try_from(frontier).expect("handles are few");
        let stream = area.store.info().stream_of(handle);
        let block = area.store.alloc(stream, Purpose::Pages.tag()).await?;
        let frame = area.lock().map.add(block);
        self.frontiers[frontier] = Some(Open { frame, next_page: 0, versioned: None, versions: 0 });
        Ok(())
    }

    /// Moves the live pages of a block to the frontier of copies, and frees the block.
    async fn clean(&mut self, area: &Area, victim: Victim) -> Result<(), Error> {
        if victim.cost > 0 {
            let live = area.lock().map.live(victim.frame);
            if let Err(error) = self.move_live(area, victim, &live).await {
                if let Some(copies) = self.frontiers.last_mut() {
                    *copies = None;
                }
                // If the reserve was taken, it has no live pages now and becomes the next victim.
                area.lock().map.put_back(victim.frame, &live);
                return Err(error);
            }
        }
        free(area, victim.frame).await?;
        add(&area.counters.cleaned_blocks, 1);
        Ok(())
    }

    /// Copies the live pages. Takes the block in reserve if needed; it has room for all live pages of one block.
    async fn move_live(&mut self, area: &Area, victim: Victim, live: &Live) -> Result<(), Error> {
        let copies = self.frontiers.len() - 1;
        let mut zeros = runs_of_zeros(&live.zeros).into_iter().peekable();
        let mut data = &live.data[..];
        while !data.is_empty() || zeros.peek().is_some() {
            if self.room(area, copies) < ROOM_MIN {
                self.open_block(area, copies).await?;
            }
            let room = (self.room(area, copies) - 1).min(BATCH_PAGES) as usize;
            let (pages, later) = data.split_at(data.len().min(room));
            data = later;
            let rest = ENTRIES_MAX - pages.len();
            let cleared: Vec<Entry> = zeros.by_ref().take(rest).collect();
            let buffer = match read_pages(area, victim, pages).await {
                Ok(buffer) => buffer,
                Err(error) => {
                    area.lock().map.give_up(victim.frame);
                    return Err(error);
                }
            };
            let contents = buffer.as_slice().chunks(PAGE_BYTES).skip(1);
            let moved = pages.iter().zip(contents).map(|(&(_, page), content)| Entry::Data {
                page,
                checksum: larder_checksum::crc32c(content),
            });
            let entries: Vec<Entry> = moved.chain(cleared).collect();
            self.append(area, copies, &entries, buffer).await?;
            add(&area.counters.moved, (pages.len() * PAGE_BYTES) as u64);
        }
        Ok(())
    }
}

impl Plan {
    fn add_zeros(&mut self, page: u32) {
        match self.items.last_mut() {
            Some(Item::Zeros { page: first, count }) if *first + *count == page => *count += 1,
            _ => self.items.push(Item::Zeros { page, count: 1 }),
        }
    }
}

/// Frees a block without live pages.
async fn free(area: &Area, frame: u32) -> Result<(), Error> {
    let block = area.lock().map.block(frame);
    area.store.free(block).await.map_err(|failure| failure.error)?;
    area.lock().map.remove(frame);
    Ok(())
}

/// Reads pages of a block into a buffer, after room for a header.
async fn read_pages(area: &Area, victim: Victim, pages: &[(u32, u32)]) -> Result<IoBuffer, Error> {
    let mut buffer = IoBuffer::zeroed((1 + pages.len()) * PAGE_BYTES);
    let runs: Vec<IoFuture> = pages
        .chunk_by(|(one, _), (next, _)| one + 1 == *next)
        .map(|run| {
            let offset = u64::from(run[0].0) * PAGE;
            let read = IoBuffer::zeroed(run.len() * PAGE_BYTES);
            area.store.read(victim.block, offset, read)
        })
        .collect();
    let mut at = PAGE_BYTES;
    for read in runs {
        let read = read.await.map_err(|failure| failure.error)?;
        buffer.copy_in(at, read.as_slice());
        at += read.len();
    }
    Ok(buffer)
}

fn runs_of_zeros(pages: &[u32]) -> Vec<Entry> {
    let runs = pages.chunk_by(|one, next| one + 1 == *next);
    let entry = |run: &[u32]| {
        let count = u32::try_from(run.len()).expect("they are pages of a device");
        Entry::Zeros { page: run[0], count }
    };
    runs.map(entry).collect()
}

#[cold]
fn no_space(area: &Area, what: &str) -> Error {
    let blocks = area.shape.page_blocks;
    let context = format!("all {blocks} blocks for pages are in use, and {what}");
    Error::new(ErrorKind::NoSpace, context)
}

/// Fails a change. It is unknown how much of it is stored.
fn fail(area: &Area, pending: PendingChange, cause: &Error) {
    let PendingChange { first, count, content, completer, .. } = pending;
    add(&area.counters.failed_requests, 1);
    let offset = area.shape.page_offset(first);
    let context =
        format!("{count} pages at {offset} of device on {}: {cause}", area.store.info().name);
    let error = Error::new(cause.kind(), context);
    completer.complete(Err(IoFailure { error, buffer: content.unwrap_or_else(IoBuffer::empty) }));
}
