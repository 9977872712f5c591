//! The division of a device into pages and slots.
//!
//! ```text
//!  0             front_bytes                                  capacity_bytes - tail_bytes    capacity_bytes
//!  ├── pages … ──┼── slot 0 ──┼── slot 1 ──┼ … ┼── slot n-1 ──┼── pages … ───────────────────┤
//! ```

use larder_device::{Error, ErrorKind};

use crate::info::StoreInfo;

/// Size of a page in bytes.
pub(super) const PAGE_BYTES: usize = 4096;
pub(super) const PAGE: u64 = PAGE_BYTES as u64;
/// Most pages that a batch carries, without its header.
pub(super) const BATCH_PAGES: u32 = 128;
/// Least pages of a block: with fewer, most of a block would be headers.
const BLOCK_PAGES_MIN: u64 = 8;
/// Blocks in addition to those that mapped pages fill: one that is being filled, one that cleaning fills, and one that
/// may fail. With several handles each fills a block of its own, and so does cleaning.
const EXTRA_BLOCKS: u64 = 3;
const HANDLES_MAX: u16 = 64;
/// Most pages of all blocks together: the map has 31 bits for a place.
const MAPPED_PAGES_MAX: u64 = 1 << 31;

/// How a device on blocks is divided.
///
/// A slot is the content of one block, so slots are as long as the blocks of the store. A slot must be written from
/// start to end, as a cache writes the regions of its large-object engine. A region is one slot or several, but not
/// less than one, because a slot can only be discarded as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceOnBlocksOptions {
    /// Size of the device in bytes: front, tail, and a multiple of the block size in between.
    pub capacity_bytes: u64,
    /// Bytes at the beginning that can be written in any order, in pages of 4096 bytes.
    pub front_bytes: u64,
    /// Bytes at the end that can be written in any order.
    pub tail_bytes: u64,
    /// Extra blocks for the pages of front and tail, in percent of the blocks that they fill. More of them make
    /// cleaning copy less. 25 is usual.
    pub spare_percent: u32,
    /// Number of slots that form a unit for their writer, at least 1: a write at the start of the first discards all of
    /// them.
    pub slots_together: u32,
    /// Placement handles of front and tail, 1 to 64. Pages written with different handles go to different blocks, as
    /// FDP's reclaim unit handles do it with reclaim units (NVMe TP4146), and cleaning copies to blocks of its own. So
    /// pages that die together lie together, and less is copied. Each handle takes one more block.
    pub handles: u16,
}

/// The checked options, in the units of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) options: DeviceOnBlocksOptions,
    pub(super) block_bytes: u64,
    /// Pages per block.
    pub(super) block_pages: u32,
    pub(super) slots: u32,
    /// Pages of front and tail together, numbered in this order.
    pub(super) pages: u32,
    /// Blocks for these pages.
    pub(super) page_blocks: u32,
}

/// A part of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    /// Offset within the request in bytes.
    pub(super) skip: usize,
    pub(super) bytes: usize,
    pub(super) place: Place,
}

/// What an address stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Page(u32),
    Slot { slot: u32, at: u64 },
}

impl DeviceOnBlocksOptions {
    /// Number of blocks of such a store that a device with these options takes, including its slots.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if no store with such blocks is suitable.
    pub fn blocks_needed(&self, store: &StoreInfo) -> Result<u64, Error> {
        let shape = Shape::plan(self, store)?;
        Ok(u64::from(shape.slots) + u64::from(shape.page_blocks))
    }
}

impl Shape {
    /// The shape for [`DeviceOnBlocksOptions`], without checking how many blocks the store has.
    pub(super) fn plan(options: &DeviceOnBlocksOptions, store: &StoreInfo) -> Result<Self, Error> {
        let fail = |complaint: String| {
            let context = format!("device on {}: {complaint}", store.name);
            Err(Error::new(ErrorKind::Setup, context))
        };
        let DeviceOnBlocksOptions {
            capacity_bytes,
            front_bytes,
            tail_bytes,
            spare_percent,
            slots_together,
            handles,
        } = *options;
        let (block_bytes, page_bytes) = (store.block_bytes, u64::from(store.page_bytes));
        if page_bytes == 0 || !PAGE.is_multiple_of(page_bytes) {
            return fail(format!(
                "the store has pages of {page_bytes} bytes, and the device would have {PAGE}; \
                 take a store whose pages divide that"
            ));
        }
        if !block_bytes.is_multiple_of(PAGE) || block_bytes / PAGE < BLOCK_PAGES_MIN {
            return fail(format!(
                "the store has blocks of {block_bytes} bytes: must be at least {BLOCK_PAGES_MIN} pages of {PAGE}"
            ));
        }
        let mapped_bytes = front_bytes.saturating_add(tail_bytes);
        let slots_bytes = capacity_bytes.saturating_sub(mapped_bytes);
        for (name, bytes) in [("front_bytes", front_bytes), ("tail_bytes", tail_bytes)] {
            if !bytes.is_multiple_of(PAGE) {
                let whole = bytes.next_multiple_of(PAGE);
                return fail(format!("{name} of {bytes}: must be pages of {PAGE}; give {whole}"));
            }
        }
        let together = block_bytes.saturating_mul(slots_together.into());
        if handles == 0 || handles > HANDLES_MAX {
            return fail(format!("handles of {handles}: must be 1 to {HANDLES_MAX}"));
        }
        if slots_together == 0 {
            return fail("slots_together of 0: must be at least 1".to_owned());
        }
        if mapped_bytes > capacity_bytes || !slots_bytes.is_multiple_of(together) {
            let fitting = mapped_bytes.saturating_add(slots_bytes / together * together);
            return fail(format!(
                "capacity_bytes of {capacity_bytes} leaves {slots_bytes} between front and tail: must be \
                 {slots_together} blocks of {block_bytes}, or a multiple; give {fitting}"
            ));
        }
        let (pages, block_pages) = (mapped_bytes / PAGE, block_bytes / PAGE);
        // Each batch takes a page for its header, and each block may leave two pages unused.
        let filled = (u128::from(pages) * u128::from(BATCH_PAGES + 1))
            .div_ceil(u128::from(BATCH_PAGES))
            .div_ceil(u128::from(block_pages - 3));
        let spared = (filled * (100 + u128::from(spare_percent))).div_ceil(100);
        let page_blocks = u64::try_from(spared).unwrap_or(u64::MAX).saturating_add(EXTRA_BLOCKS);
        let page_blocks = page_blocks.saturating_add(frontiers(handles) - 1);
        if page_blocks.saturating_mul(block_pages) > MAPPED_PAGES_MAX {
            return fail(format!(
                "{mapped_bytes} bytes of front and tail are more than can be mapped; make them smaller"
            ));
        }
        let (Ok(slots), Ok(page_blocks), Ok(pages), Ok(block_pages)) = (
            u32::try_from(slots_bytes / block_bytes),
            u32::try_from(page_blocks),
            u32::try_from(pages),
            u32::try_from(block_pages),
        ) else {
            return fail(format!("{capacity_bytes} bytes are too many blocks; use larger ones"));
        };
        Ok(Self { options: *options, block_bytes, block_pages, slots, pages, page_blocks })
    }

    /// Blocks of pages that are being filled at once: one per handle and, with several handles, one for cleaning, the
    /// last.
    pub(super) fn frontiers(&self) -> usize {
        usize::try_from(frontiers(self.options.handles)).expect("they are few")
    }

    /// Like [`Shape::plan`], but fails if the store has too few blocks.
    pub(super) fn fitting(
        options: &DeviceOnBlocksOptions,
        store: &StoreInfo,
    ) -> Result<Self, Error> {
        let shape = Self::plan(options, store)?;
        let needed = u64::from(shape.slots) + u64::from(shape.page_blocks);
        if needed > store.blocks {
            let context = format!(
                "device on {}: {} slots and {} blocks for pages, and the store has {}; give a capacity that is {} \
                 bytes smaller, or less front and tail",
                store.name,
                shape.slots,
                shape.page_blocks,
                store.blocks,
                (needed - store.blocks).saturating_mul(store.block_bytes)
            );
            return Err(Error::new(ErrorKind::Setup, context));
        }
        Ok(shape)
    }

    /// The parts of a checked range: runs of pages, and ranges within one slot.
    pub(super) fn parts(&self, offset: u64, bytes: u64) -> Vec<Part> {
        let DeviceOnBlocksOptions { capacity_bytes, front_bytes, tail_bytes, .. } = self.options;
        let tail_at = capacity_bytes - tail_bytes;
        let (mut at, end) = (offset, offset + bytes);
        let mut parts = Vec::with_capacity(1);
        while at < end {
            let (place, until) = if at < front_bytes {
                (Place::Page(narrow(at / PAGE)), front_bytes)
            } else if at >= tail_at {
                let page = (front_bytes + at - tail_at) / PAGE;
                (Place::Page(narrow(page)), capacity_bytes)
            } else {
                let slot = (at - front_bytes) / self.block_bytes;
                let start = front_bytes + slot * self.block_bytes;
                (Place::Slot { slot: narrow(slot), at: at - start }, start + self.block_bytes)
            };
            let until = until.min(end);
            let length = |bytes: u64| usize::try_from(bytes).expect("a request is in memory");
            parts.push(Part { skip: length(at - offset), bytes: length(until - at), place });
            at = until;
        }
        parts
    }

    /// Offset of a slot on the device.
    pub(super) fn slot_offset(&self, slot: u32) -> u64 {
        self.options.front_bytes + u64::from(slot) * self.block_bytes
    }

    /// Offset of a page on the device.
    pub(super) fn page_offset(&self, page: u32) -> u64 {
        let at = u64::from(page) * PAGE;
        let DeviceOnBlocksOptions { capacity_bytes, front_bytes, tail_bytes, .. } = self.options;
        if at < front_bytes { at } else { at - front_bytes + capacity_bytes - tail_bytes }
    }
}

/// Blocks of pages that are being filled at once.
fn frontiers(handles: u16) -> u64 {
    if handles == 1 { 1 } else { u64::from(handles) + 1 }
}

fn narrow(number: u64) -> u32 {
    u32::try_from(number).expect("the shape was checked")
}
