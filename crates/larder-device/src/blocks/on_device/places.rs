//! How a store divides its device.
//!
//! ```text
//!   0        64 KiB    128 KiB         + body_bytes    + body_bytes  + block_bytes
//!   ├─ head ──┼─ head ──┼─ body ────────┼─ body ────────┼─ region 0 ───┼─ region 1 ─ … ─┤
//!   │ of the one half   │ of the one    │ of the other  │
//!   │         │ of the other half
//!                       ├ snapshot … ┼ log … ┼ superseded ┤
//! ```

use std::ops::Range;

use super::page::{Head, PAGE_BYTES, RECORDS_MAX};
use crate::device::DeviceInfo;
use crate::error::{Error, ErrorKind};

const PAGE: u64 = PAGE_BYTES as u64;
/// What a head has for itself: a drive that damages what lies beside a torn page leaves the other one.
const HEAD_BYTES: u64 = 64 << 10;
/// Both of them.
const HEADS_BYTES: u64 = 2 * HEAD_BYTES;
/// A log is as many times its snapshot long, at least, so that compactions write little beside it.
const LOG_OF_SNAPSHOT: u64 = 4;
const LOG_PAGES_MIN: u64 = 256;

/// How a store is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlocksOptions {
    /// Bytes of a block: some pages of 4096 bytes. What a drive erases at once, or a multiple.
    pub block_bytes: u64,
    /// Pages of 4096 bytes in the log of each half of the journal; `None`: 256, or four times those of a snapshot. At
    /// least 1.
    pub journal_log_pages: Option<u32>,
}

/// Where everything is.
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
        // As many as the device has room for without a journal: its snapshot has room for all of them.
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

    /// Those that a head names, if such a store fits the device.
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

    /// Pages of a half: its head has number 0.
    pub(super) fn half_pages(&self) -> u32 {
        u32::try_from(self.body_bytes / PAGE).expect("it was checked") + 1
    }

    /// The pages of a half that its log may fill, behind a snapshot of so many.
    pub(super) fn log(&self, snapshot_pages: u32) -> Range<u32> {
        1 + snapshot_pages..self.half_pages() - 1
    }

    /// Where the head of a half is on the device.
    pub(super) fn head(half: u32) -> u64 {
        debug_assert!(half < 2, "there is no half {half}");
        u64::from(half) * HEAD_BYTES
    }

    /// Where page `number` of a half is on the device.
    pub(super) fn page(&self, half: u32, number: u32) -> u64 {
        debug_assert!(half < 2 && number < self.half_pages(), "page {number} of half {half}");
        match number.checked_sub(1) {
            None => Self::head(half),
            Some(at) => HEADS_BYTES + u64::from(half) * self.body_bytes + u64::from(at) * PAGE,
        }
    }

    /// Where a region is on the device.
    pub(super) fn region(&self, region: u32) -> u64 {
        debug_assert!(u64::from(region) < self.regions, "region {region} of {}", self.regions);
        HEADS_BYTES + 2 * self.body_bytes + u64::from(region) * self.block_bytes
    }
}
