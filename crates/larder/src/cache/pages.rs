//! A scan in pages, without state between two of them.

use super::core::Core;
use super::iterate::{Batch, Scanned, SliceRest};
use crate::base::error::{Error, ErrorKind};
use crate::base::key::KeyHasher;
use crate::flash::Flash;

/// A cursor is a hash without this number of its lower bits. The free bits are for scans over several caches.
const CURSOR_SHIFT: u32 = 8;
/// Cursors are below this.
pub(crate) const CURSOR_END: u64 = 1 << (64 - CURSOR_SHIFT);
/// Number of index parts that are sampled to estimate totals.
const PARTS_COUNTED: usize = 64;

/// A page of [`Larder::scan_from`](crate::Larder::scan_from).
///
/// ```
/// # use larder::{Larder, block_on};
/// let page = block_on(Larder::in_memory(1 << 20)?.scan_from(0, 10))?;
/// assert!(page.items.is_empty() && page.next == 0, "there is nothing");
/// # Ok::<(), larder::Error>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct ScanPage {
    /// The items of the page, in no order; it may be empty before the end of the scan.
    pub items: Vec<Scanned>,
    /// Cursor of the next page; 0 at the end.
    pub next: u64,
}

impl ScanPage {
    /// The page from this cursor on.
    pub(super) async fn of(
        core: &Core,
        hasher: KeyHasher,
        (cursor, count): (u64, usize),
    ) -> Result<Self, Error> {
        if cursor >= CURSOR_END {
            let message = format!("cursor {cursor}: no page of a scan has given it");
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        let inside = core.enter().await?;
        let mut found = Batch::default();
        let width = slice_width(core, count);
        let mut start = cursor << CURSOR_SHIFT;
        if let Some(flash) = &core.flash {
            flash.index_all().await;
            // Slices cover whole parts of the engines: round an invented cursor down to the start of its part.
            start &= !(slice_width_min(core) - 1);
        }
        let next = loop {
            // Up to the next multiple of the width: in earlier pages slices may have been wider or narrower.
            let end = start | (width - 1);
            let mut left = SliceRest::over(core, start..=end);
            while left.step((core, hasher), &mut found).await {}
            start = end.wrapping_add(1);
            if start == 0 || found.items.len() >= count.max(1) {
                break start >> CURSOR_SHIFT;
            }
        };
        core.leave(inside);
        Ok(Self { items: found.items, next })
    }
}

/// Approximate number of items in a cache ([`Larder::estimated_items`](crate::Larder::estimated_items)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EstimatedItems {
    /// Items on flash, with or without a copy in DRAM.
    pub on_flash: u64,
    /// Items that are not known to be on flash.
    pub in_dram_alone: u64,
    /// Of all items, those with a lifetime, alive or expired.
    pub with_lifetime: u64,
}

impl EstimatedItems {
    /// Those of a cache.
    pub(super) fn of(core: &Core) -> Self {
        let dram = &core.dram;
        let sample = dram.sample(PARTS_COUNTED);
        match &core.flash {
            None => {
                let in_dram_alone = dram.len() as u64;
                let with_lifetime = sample.with_lifetime_of(in_dram_alone);
                Self { in_dram_alone, with_lifetime, on_flash: 0 }
            }
            Some(flash) => {
                let on_flash = flash.estimated_len();
                let with_lifetime =
                    sample.dirty_with_lifetime() + sample.with_lifetime_of(on_flash);
                Self { in_dram_alone: sample.dirty(), on_flash, with_lifetime }
            }
        }
    }

    /// The sum of both tiers.
    ///
    /// ```
    /// # use larder::{Larder, block_on};
    /// # let cache = Larder::in_memory(1 << 20)?;
    /// block_on(cache.set(b"rye", b"flour", None))?;
    /// assert_eq!(cache.estimated_items().total(), 1);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn total(&self) -> u64 {
        self.on_flash + self.in_dram_alone
    }
}

impl std::iter::Sum for EstimatedItems {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            on_flash: sum.on_flash + one.on_flash,
            in_dram_alone: sum.in_dram_alone + one.in_dram_alone,
            with_lifetime: sum.with_lifetime + one.with_lifetime,
        })
    }
}

/// Approximate number of items in a cache; each key counts once.
pub(super) fn estimated_len(core: &Core) -> u64 {
    match &core.flash {
        None => core.dram.len() as u64,
        // Clean items are on flash too.
        Some(flash) => flash.estimated_len() + core.dram.estimated_dirty(PARTS_COUNTED),
    }
}

/// The width of a slice with about `count` items, as a part of the hash space: a power of two.
fn slice_width(core: &Core, count: usize) -> u64 {
    let slices = estimated_len(core) / (count.max(1) as u64);
    let width = 1 << (63 - slices.max(1).ilog2().min(55));
    // A single slice would need a width of 2^64, which does not fit.
    let width: u64 = if slices < 2 { 1 << 63 } else { width };
    width.max(slice_width_min(core))
}

/// The minimum width, so that slices cover whole parts of every engine and fit a cursor.
fn slice_width_min(core: &Core) -> u64 {
    let parts = core.flash.as_deref().map_or(usize::MAX, Flash::scan_parts_max);
    let bits = parts.ilog2().min(64 - CURSOR_SHIFT);
    if bits == 0 { 1 << 63 } else { 1 << (64 - bits) }
}
