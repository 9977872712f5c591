//! The layout of a store on its device.
//!
//! ```text
//!   0        64 KiB    128 KiB         + body_bytes    + body_bytes  + block_bytes
//!   ├─ head ──┼─ head ──┼─ body ────────┼─ body ────────┼─ region 0 ───┼─ region 1 ─ … ─┤
//!   │ of the one half   │ of the one    │ of the other  │
//!   │         │ of the other half
//!                       ├ snapshot … ┼ log … ┼ superseded ┤
//! ```

use std::ops::Range;

use larder_device::{DeviceInfo, Error, ErrorKind};

use super::page::{Head, PAGE_BYTES, RECORDS_MAX};

const PAGE: u64 = PAGE_BYTES as u64;
/// Space for one head: if a drive damages the surroundings of a torn page, the other head survives.
const HEAD_BYTES: u64 = 64 << 10;
/// Space for both heads.
const HEADS_BYTES: u64 = 2 * HEAD_BYTES;
/// A log has at least this number of times the pages of its snapshot, so that compactions write little in comparison.
const LOG_OF_SNAPSHOT: u64 = 4;
const LOG_PAGES_MIN: u64 = 256;

/// Options for making a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlocksOptions {
    /// Block size in bytes, a multiple of 4096: what a drive erases at once, or a multiple of it.
    pub block_bytes: u64,
    /// Pages of 4096 bytes in the log of each half of the journal, at least 1; `None`: 256, or four times the pages of
    /// a snapshot if that is more.
    pub journal_log_pages: Option<u32>,
}

/// The layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) block_bytes: u64,
    pub(super) body_bytes: u64,
    pub(super) regions: u64,
}

impl Places {
    pub(super) fn plan(options: &BlocksOptions, info: &DeviceInfo) -> Result<Self, Error> {
        let fail = |complaint: String| {
            let context = format!("blocks on {}: {complaint}", info.name);
            Err(Error::new(ErrorKind::Setup, context))
        };
        let BlocksOptions { block_bytes, journal_log_pages } = *options;
        if info.block_bytes > 4096 {
            return fail(format!(
                "the device has blocks of {} bytes: pages of the journal have 4096; format it with those",
                info.block_bytes
            ));
        }
        if block_bytes == 0 || !block_bytes.is_multiple_of(PAGE) {
            return fail(format!(
                "block_bytes of {block_bytes}: must be some pages of {PAGE} bytes"
            ));
        }
        if journal_log_pages == Some(0) {
            return fail("journal_log_pages of 0: must be at least 1".to_owned());
        }
        // A snapshot has room for the number of blocks that would fit without a journal, so for all blocks.
        let snapshot = (info.capacity_bytes / block_bytes).div_ceil(RECORDS_MAX as u64).max(1);
        let log =
            journal_log_pages.map_or((LOG_OF_SNAPSHOT * snapshot).max(LOG_PAGES_MIN), u64::from);
        let body_bytes = (snapshot + log + 1) * PAGE;
        let regions =
            info.capacity_bytes.saturating_sub(HEADS_BYTES + 2 * body_bytes) / block_bytes;
        let places = Self { block_bytes, body_bytes, regions };
        if regions == 0
            || u32::try_from(regions).is_err()
            || u32::try_from(body_bytes / PAGE).is_err()
        {
            return fail(format!(
                "{} bytes are {regions} blocks of {block_bytes} beside a journal of {}; use another size of blocks",
                info.capacity_bytes,
                HEADS_BYTES + 2 * body_bytes
            ));
        }
        Ok(places)
    }

    /// The layout that a head describes, if such a store fits the device.
    pub(super) fn of(head: &Head, info: &DeviceInfo) -> Option<Self> {
        let Head { block_bytes, body_bytes, regions, snapshot_pages, .. } = *head;
        let journal = body_bytes.checked_mul(2)?.checked_add(HEADS_BYTES)?;
        let end = regions.checked_mul(block_bytes)?.checked_add(journal)?;
        let sound = block_bytes > 0
            && block_bytes.is_multiple_of(PAGE)
            && body_bytes.is_multiple_of(PAGE)
            && u32::try_from(body_bytes / PAGE).is_ok()
            && u32::try_from(regions).is_ok()
            && body_bytes / PAGE > 1 + u64::from(snapshot_pages)
            && end <= info.capacity_bytes;
        sound.then_some(Self { block_bytes, body_bytes, regions })
    }

    /// Pages of a half; page 0 is its head.
    pub(super) fn half_pages(&self) -> u32 {
        u32::try_from(self.body_bytes / PAGE).expect("it was checked") + 1
    }

    /// The pages of a half that its log may fill, after a snapshot of `snapshot_pages`.
    pub(super) fn log(&self, snapshot_pages: u32) -> Range<u32> {
        1 + snapshot_pages..self.half_pages() - 1
    }

    /// Offset of the head of a half on the device.
    pub(super) fn head(half: u32) -> u64 {
        debug_assert!(half < 2, "there is no half {half}");
        u64::from(half) * HEAD_BYTES
    }

    /// Offset of page `number` of a half on the device.
    pub(super) fn page(&self, half: u32, number: u32) -> u64 {
        debug_assert!(half < 2 && number < self.half_pages(), "page {number} of half {half}");
        match number.checked_sub(1) {
            None => Self::head(half),
            Some(at) => HEADS_BYTES + u64::from(half) * self.body_bytes + u64::from(at) * PAGE,
        }
    }

    /// Offset of a region on the device.
    pub(super) fn region(&self, region: u32) -> u64 {
        debug_assert!(u64::from(region) < self.regions, "region {region} of {}", self.regions);
        HEADS_BYTES + 2 * self.body_bytes + u64::from(region) * self.block_bytes
    }
}
