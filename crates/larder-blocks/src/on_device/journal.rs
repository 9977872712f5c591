//! The journal: the position of its next page, and how it starts anew in the other half.
//!
//! A page is written once, and holds the records that came while the previous page was in flight. When the log of a
//! half is full, the whole state goes to the other half as a snapshot, its head last; so the head says that the
//! snapshot is complete. Then the old half is marked as superseded: if the newer one is ever damaged, the old one is
//! not mistaken for the current state.
//!
//! 1. At most one page is in flight. A page that failed is written again at the same place, so no page follows a gap.
//! 2. The half that is overwritten loses its head first, so a head never precedes another filling's snapshot.

use larder_device::{Device, Durability, Error, Io, IoBuffer, PlacementHandle};

use super::page::{self, Filling, Head, PAGE_BYTES, PageKind, Record};
use super::places::Places;

/// Pages of a snapshot that are written together.
const SNAPSHOT_PAGES_TOGETHER: usize = 64;

/// The position of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Journal {
    pub(super) filling: Filling,
    pub(super) half: u32,
    /// The page of the half that is written next.
    pub(super) next_page: u32,
    pub(super) snapshot_pages: u32,
}

impl Journal {
    /// Whether the log has room for one more page.
    pub(super) fn has_room(&self, places: &Places) -> bool {
        places.log(self.snapshot_pages).contains(&self.next_page)
    }

    /// Writes one page of records, and moves to the next.
    pub(super) async fn log(
        &mut self,
        device: &dyn Device,
        places: &Places,
        records: &[Record],
    ) -> Result<(), Error> {
        assert!(self.has_room(places), "page {} is not of the log", self.next_page);
        let bytes = page::encode(PageKind::Log, self.filling, self.next_page, records);
        write(device, places.page(self.half, self.next_page), &bytes).await?;
        self.next_page += 1;
        Ok(())
    }

    /// Starts anew in the other half with a snapshot of the whole state. Returns the new position of the journal.
    pub(super) async fn compacted(
        &self,
        device: &dyn Device,
        places: &Places,
        (snapshot, next_block): (&[Vec<Record>], u64),
    ) -> Result<Self, Error> {
        let filling = Filling { generation: self.filling.generation + 1, ..self.filling };
        let begun = begin(device, places, 1 - self.half, filling, (snapshot, next_block)).await?;
        // Without this mark, damage of the new head would make the old half count. A failure to write it does no other
        // harm.
        let mark = page::encode(PageKind::Superseded, self.filling, places.half_pages() - 1, &[]);
        let _ = write(device, places.page(self.half, places.half_pages() - 1), &mark).await;
        Ok(begun)
    }
}

/// Fills a half with a snapshot.
pub(super) async fn begin(
    device: &dyn Device,
    places: &Places,
    half: u32,
    filling: Filling,
    (snapshot, next_block): (&[Vec<Record>], u64),
) -> Result<Journal, Error> {
    clear(device, places, half).await?;
    let pages: Vec<Vec<u8>> = (1..)
        .zip(snapshot)
        .map(|(number, records)| page::encode(PageKind::Snapshot, filling, number, records))
        .collect();
    let mut number = 1;
    for together in pages.chunks(SNAPSHOT_PAGES_TOGETHER) {
        write(device, places.page(half, number), &together.concat()).await?;
        number += u32::try_from(together.len()).expect("they are few");
    }
    let snapshot_pages = number - 1;
    assert!(!places.log(snapshot_pages).is_empty(), "a half has room for what there can be");
    let head = Head {
        block_bytes: places.block_bytes,
        body_bytes: places.body_bytes,
        regions: places.regions,
        next_block,
        snapshot_pages,
    };
    write(device, places.page(half, 0), &page::encode_head(filling, head)).await?;
    Ok(Journal { filling, half, next_page: number, snapshot_pages })
}

/// Erases the head of a half.
pub(super) async fn clear(device: &dyn Device, places: &Places, half: u32) -> Result<(), Error> {
    write(device, places.page(half, 0), &[0; PAGE_BYTES]).await
}

/// Writes bytes, which survive a loss of power once this has returned.
async fn write(device: &dyn Device, offset: u64, bytes: &[u8]) -> Result<(), Error> {
    let mut buffer = IoBuffer::zeroed(bytes.len());
    buffer.copy_in(0, bytes);
    let (handle, durability) = (PlacementHandle::DEFAULT, Durability::Power);
    let write = device.submit(Io::Write { offset, buffer, handle, durability });
    write.await.map(drop).map_err(|failure| failure.error)
}
