//! Recovery of the journal when a store is opened.
//!
//! The half with the newest intact head counts: its snapshot, and its log up to the first page that is not intact. Such
//! a page was in flight when power was lost. It was damaged later if intact pages follow it. A half is outdated if it
//! is marked as superseded and the newer half is gone. In both cases the acknowledged state is not known any more, and
//! the store is refused.

use larder_device::{Device, Error, ErrorKind, Io, IoBuffer};

use super::journal::Journal;
use super::page::{self, Filling, Head, PAGE_BYTES, PageKind};
use super::places::Places;
use super::table::Table;

/// Pages that are read together.
const PAGES_TOGETHER: u32 = 64;

/// What was found.
#[derive(Debug)]
pub(super) struct RecoveredBlocks {
    pub(super) places: Places,
    pub(super) journal: Journal,
    pub(super) table: Table,
    pub(super) next_block: u64,
}

/// Reads the journal. Writes nothing to it.
pub(super) async fn recover(device: &dyn Device) -> Result<RecoveredBlocks, Error> {
    let refuse = |what: &str| Err(refusal(device, what));
    // A process that died may have left writes in the drive's volatile cache. Flush, so that what is read now is
    // durable.
    device.submit(Io::Flush).await.map_err(|failure| failure.error)?;
    let mut heads: Vec<(u32, Filling, Head)> = Vec::new();
    let mut marked = false;
    for half in 0..2 {
        if Places::head(half) + PAGE_BYTES as u64 > device.info().capacity_bytes {
            return refuse("it is too small for a store of blocks");
        }
        let there = read(device, Places::head(half), 1).await?;
        if let Some(version) = page::later_version(&there) {
            return refuse(&format!(
                "it is in version {version} of the formats, which is later; use that version"
            ));
        }
        marked |= page::is_marked(&there);
        heads.extend(page::parse_head(&there).map(|(filling, head)| (half, filling, head)));
    }
    let Some(&(half, filling, head)) = heads.iter().max_by_key(|(_, it, _)| it.generation) else {
        return refuse(if marked {
            "both halves are damaged; format the device if nothing on it is needed"
        } else {
            "there is none, or both halves are gone; format the device if nothing on it is needed"
        });
    };
    let shape = |head: &Head| (head.block_bytes, head.body_bytes, head.regions);
    if heads.iter().any(|(_, other, its)| other.uuid != filling.uuid || shape(its) != shape(&head))
    {
        return refuse(
            "its halves are of two stores; format the device if nothing on it is needed",
        );
    }
    let Some(places) = Places::of(&head, device.info()) else {
        return refuse(&format!(
            "it is of {} blocks of {} bytes, which do not fit; give the whole device",
            head.regions, head.block_bytes
        ));
    };
    read_half(device, places, (half, filling, head)).await
}

async fn read_half(
    device: &dyn Device,
    places: Places,
    (half, filling, head): (u32, Filling, Head),
) -> Result<RecoveredBlocks, Error> {
    let refuse = |what: String| Err(refusal(device, &what));
    let (mut table, mut next_block) = (Table::default(), head.next_block);
    let mut end = None;
    let mut number = 1;
    while number < places.half_pages() {
        let together = PAGES_TOGETHER.min(places.half_pages() - number);
        let bytes = read(device, places.page(half, number), together).await?;
        for (number, bytes) in (number..).zip(bytes.chunks(PAGE_BYTES)) {
            let kind = match number {
                _ if number <= head.snapshot_pages => PageKind::Snapshot,
                _ if number == places.half_pages() - 1 => PageKind::Superseded,
                _ => PageKind::Log,
            };
            let records = match page::parse(kind, filling, number, bytes) {
                Some(_) if kind == PageKind::Superseded => {
                    return refuse("a newer half is known to be there and is damaged".to_owned());
                }
                Some(_) if end.is_some() => {
                    return refuse(format!("page {number} is there, and one before it is damaged"));
                }
                None if kind == PageKind::Snapshot => {
                    return refuse(format!("page {number}, of a snapshot, is damaged"));
                }
                None => {
                    end = end.or(Some(number));
                    continue;
                }
                Some(records) => records,
            };
            for record in records {
                if let page::Record::Allocated { block, .. } = record
                    && kind == PageKind::Log
                {
                    next_block = next_block.max(block.saturating_add(1));
                }
                if let Err(what) = table.apply(record, places.block_bytes) {
                    return refuse(format!("page {number}: {what}"));
                }
            }
        }
        number += together;
    }
    if let Err(what) = table.settle(places.regions) {
        return refuse(what);
    }
    if table.blocks.last_key_value().is_some_and(|(&block, _)| block >= next_block) {
        return refuse("it has a block whose number was not given yet".to_owned());
    }
    let next_page = end.unwrap_or(places.half_pages() - 1);
    let journal = Journal { filling, half, next_page, snapshot_pages: head.snapshot_pages };
    Ok(RecoveredBlocks { places, journal, table, next_block })
}

async fn read(device: &dyn Device, offset: u64, pages: u32) -> Result<Vec<u8>, Error> {
    let buffer = IoBuffer::zeroed(pages as usize * PAGE_BYTES);
    let read = device.submit(Io::Read { offset, buffer }).await;
    read.map(|buffer| buffer.as_slice().to_vec()).map_err(|failure| failure.error)
}

fn refusal(device: &dyn Device, what: &str) -> Error {
    let name = &device.info().name;
    Error::new(
        ErrorKind::Setup,
        format!("journal of the blocks on {name}: {what}; nothing was written"),
    )
}
