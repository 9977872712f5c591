//! The log of a store on zones: the block numbers that were given, and the blocks that were closed before they were
//! full.
//!
//! It has two zones. One begins with a snapshot, and a page follows for each event, up to a limit. Then the other zone
//! is emptied and begins with a snapshot of the next generation, and the first is emptied. A page is written after the
//! one before it is durable. After a failed write nothing more is written to that zone; the log continues in the other.

use std::sync::Arc;

use larder_device::label::Uuid;
use larder_device::{
    Durability, Error, ErrorKind, Io, IoBuffer, PlacementHandle, Zone, ZonedDevice,
};

use super::page::{self, ClosedEarly, ENTRIES_MAX, LogPage, PAGE_BYTES, Page};
use crate::info::StoreInfo;

/// Pages after which a log starts anew, to limit the reads of an open.
const PAGES_MAX: u32 = 1024;
/// Pages that a log must have room for after its snapshot.
const PAGES_MIN: u32 = 4;
/// Block numbers that are reserved at a time.
const NUMBERS: u64 = 1 << 16;

/// The log, while the store is open.
#[derive(Debug)]
pub(super) struct Log {
    uuid: Uuid,
    zones: [Zone; 2],
    /// Index of the zone that is being written.
    half: usize,
    generation: u64,
    snapshot_pages: u32,
    /// The page that is written next. `None`: the log continues in the other zone.
    next_page: Option<u32>,
    /// Blocks from this number on must not be allocated yet.
    next_block: u64,
}

/// Pages of a snapshot of `entries` entries.
fn snapshot_pages(entries: usize) -> u32 {
    u32::try_from(entries.div_ceil(ENTRIES_MAX).max(1)).unwrap_or(u32::MAX)
}

/// Whether a log for `blocks` blocks fits in such a zone.
pub(super) fn fits(zone: &Zone, blocks: usize) -> bool {
    snapshot_pages(blocks).saturating_add(PAGES_MIN) <= pages_of(zone)
}

fn pages_of(zone: &Zone) -> u32 {
    let pages = zone.capacity_bytes / PAGE_BYTES as u64;
    u32::try_from(pages).unwrap_or(u32::MAX).min(PAGES_MAX)
}

impl Log {
    /// The log of a new store, in the first zone; both zones are empty.
    pub(super) async fn begin(
        device: &Arc<dyn ZonedDevice>,
        zones: [Zone; 2],
        uuid: Uuid,
    ) -> Result<Self, Error> {
        let mut log = Self::found(zones, uuid, (1, 0), 1);
        log.begin_anew(device, &[], 1).await?;
        Ok(log)
    }

    /// The log that was found in zone `half`, with its reserved block numbers. It continues in the other zone.
    pub(super) fn found(
        zones: [Zone; 2],
        uuid: Uuid,
        (half, generation): (usize, u64),
        next_block: u64,
    ) -> Self {
        Self { uuid, zones, half, generation, snapshot_pages: 0, next_page: None, next_block }
    }

    /// Whether a block of this number may be allocated.
    pub(super) fn has_reserved(&self, block: u64) -> bool {
        block < self.next_block
    }

    /// Reserves numbers from `block` on. `all` are the blocks that were closed early.
    pub(super) async fn reserve(
        &mut self,
        device: &Arc<dyn ZonedDevice>,
        block: u64,
        all: &[ClosedEarly],
    ) -> Result<(), Error> {
        let next_block = block.saturating_add(NUMBERS);
        self.note(device, None, all, next_block).await
    }

    /// Records that a block was closed early. `all` are the blocks that were, including this one.
    pub(super) async fn close(
        &mut self,
        device: &Arc<dyn ZonedDevice>,
        closed: ClosedEarly,
        all: &[ClosedEarly],
    ) -> Result<(), Error> {
        self.note(device, Some(closed), all, self.next_block).await
    }

    async fn note(
        &mut self,
        device: &Arc<dyn ZonedDevice>,
        closed: Option<ClosedEarly>,
        all: &[ClosedEarly],
        next_block: u64,
    ) -> Result<(), Error> {
        let Some(number) =
            self.next_page.take().filter(|&page| page < pages_of(&self.zones[self.half]))
        else {
            return self.begin_anew(device, all, next_block).await;
        };
        let closed_early: Vec<ClosedEarly> = closed.into_iter().collect();
        self.write(device, number, next_block, closed_early).await?;
        self.next_page = Some(number + 1);
        self.next_block = next_block;
        Ok(())
    }

    /// Continues in the other zone.
    async fn begin_anew(
        &mut self,
        device: &Arc<dyn ZonedDevice>,
        all: &[ClosedEarly],
        next_block: u64,
    ) -> Result<(), Error> {
        let old = self.half;
        let (half, generation) = (1 - old, self.generation + 1);
        self.next_page = None;
        device.reset(&self.zones[half])?;
        let snapshot_pages = snapshot_pages(all.len());
        let mut next = Self { half, generation, snapshot_pages, ..*self };
        let mut entries = all.chunks(ENTRIES_MAX);
        for number in 0..next.snapshot_pages {
            let entries = entries.next().unwrap_or_default().to_vec();
            next.write(device, number, next_block, entries).await?;
        }
        next.next_page = Some(next.snapshot_pages);
        next.next_block = next_block;
        *self = next;
        // The higher generation counts; emptying the old zone only frees an active zone.
        let _ = device.reset(&self.zones[old]);
        Ok(())
    }

    async fn write(
        &self,
        device: &Arc<dyn ZonedDevice>,
        number: u32,
        next_block: u64,
        closed_early: Vec<ClosedEarly>,
    ) -> Result<(), Error> {
        let page = Page::Log(LogPage {
            generation: self.generation,
            number,
            snapshot_pages: self.snapshot_pages,
            next_block,
            closed_early,
        });
        let offset = self.zones[self.half].start + u64::from(number) * PAGE_BYTES as u64;
        let buffer = page::encode(self.uuid, &page);
        write_page(device, offset, buffer).await
    }
}

/// Writes a page durably.
pub(super) async fn write_page(
    device: &Arc<dyn ZonedDevice>,
    offset: u64,
    buffer: IoBuffer,
) -> Result<(), Error> {
    let (handle, durability) = (PlacementHandle::DEFAULT, Durability::Power);
    let write = Io::Write { offset, buffer, handle, durability };
    device.submit(write).await.map(drop).map_err(|failure| failure.error)
}

/// The content of a zone of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundLog {
    pub(super) uuid: Uuid,
    pub(super) generation: u64,
    pub(super) next_block: u64,
    pub(super) closed_early: Vec<ClosedEarly>,
}

/// Reads a zone of the log up to its first damaged page. `None` if there is no log, or its snapshot is incomplete.
pub(super) async fn read(
    device: &Arc<dyn ZonedDevice>,
    zone: &Zone,
    info: &StoreInfo,
) -> Result<Option<FoundLog>, Error> {
    let written = zone.written_bytes() / PAGE_BYTES as u64;
    let pages = u32::try_from(written).unwrap_or(u32::MAX).min(pages_of(zone));
    if pages == 0 {
        return Ok(None);
    }
    let buffer = IoBuffer::zeroed(pages as usize * PAGE_BYTES);
    let read = device.submit(Io::Read { offset: zone.start, buffer }).await;
    let buffer = read.map_err(|failure| failure.error)?;
    if let Some(version) = buffer.as_slice().chunks(PAGE_BYTES).find_map(page::later_version) {
        return Err(refusal(
            info,
            &format!("it is in version {version} of its format, which is later; use that version"),
        ));
    }
    Ok(gather(buffer.as_slice()))
}

/// The error of a store that is not opened.
pub(super) fn refusal(info: &StoreInfo, what: &str) -> Error {
    Error::new(ErrorKind::Setup, format!("{}: {what}; nothing was written", info.name))
}

fn gather(bytes: &[u8]) -> Option<FoundLog> {
    let mut found: Option<FoundLog> = None;
    let mut whole = 0;
    let mut snapshot = 1;
    for (number, bytes) in (0..).zip(bytes.chunks(PAGE_BYTES)) {
        let Some((uuid, Page::Log(log))) = page::decode(bytes) else { break };
        let first = found.get_or_insert_with(|| FoundLog {
            uuid,
            generation: log.generation,
            next_block: 0,
            closed_early: Vec::new(),
        });
        if (uuid, log.generation, log.number) != (first.uuid, first.generation, number) {
            break;
        }
        first.next_block = first.next_block.max(log.next_block);
        first.closed_early.extend(log.closed_early);
        (whole, snapshot) = (number + 1, log.snapshot_pages);
    }
    found.filter(|_| whole >= snapshot)
}
