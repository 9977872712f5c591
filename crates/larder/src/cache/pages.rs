//! A scan in pages, without state between two of them.

use super::Larder;
use super::iterate::{Batch, Scanned, SliceRest};
use crate::base::error::{Error, ErrorKind};
use crate::flash::Flash;

/// A cursor is a hash without this number of its lower bits. The free bits are for scans over several caches.
const CURSOR_SHIFT: u32 = 8;
/// Cursors are below this.
pub(crate) const CURSOR_END: u64 = 1 << (64 - CURSOR_SHIFT);
/// Number of index parts that are sampled to estimate totals.
const PARTS_COUNTED: usize = 64;

/// A page of [`Larder::scan_from`].
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

/// Approximate number of items in a cache ([`Larder::estimated_items`]).
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

impl Larder {
    /// Returns a page of a scan of everything in the cache, from `cursor` on: 0 for the first page,
    /// [`ScanPage::next`] for the others. A page has about `count` items or more. In DRAM alone it seldom has many
    /// more. With flash it has at least the items of a part of the index of large objects, which are read whole, so
    /// pages may be long there. A scan need not be finished: no state is kept between two pages, and cursors stay
    /// valid as the cache grows and shrinks.
    ///
    /// Every item that is in the cache from the first page to the last is in one of them, changed or not; an
    /// unchanged item is in no other. Apart from that the guarantees are those of [`Larder::scan`].
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an invalid cursor; [`ErrorKind::Closed`] after a close.
    ///
    /// ```
    /// # use larder::{Larder, block_on};
    /// # let cache = Larder::in_memory(1 << 20)?;
    /// for name in ["rye", "oat", "spelt"] {
    ///     block_on(cache.set(name.as_bytes(), b"flour", None))?;
    /// }
    /// let (mut keys, mut cursor) = (Vec::new(), 0);
    /// loop {
    ///     let page = block_on(cache.scan_from(cursor, 2))?;
    ///     keys.extend(page.items.iter().map(|item| item.key().to_vec()));
    ///     cursor = page.next;
    ///     if cursor == 0 {
    ///         break;
    ///     }
    /// }
    /// keys.sort();
    /// assert_eq!(keys, [&b"oat"[..], b"rye", b"spelt"]);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn scan_from(&self, cursor: u64, count: usize) -> Result<ScanPage, Error> {
        if cursor >= CURSOR_END {
            let message = format!("cursor {cursor}: no page of a scan has given it");
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        let inside = self.enter().await?;
        let mut found = Batch::default();
        let width = self.slice_width(count);
        let mut start = cursor << CURSOR_SHIFT;
        if let Some(flash) = &self.core.flash {
            flash.index_all().await;
            // Slices cover whole parts of the engines: round an invented cursor down to the start of its part.
            start &= !(self.slice_width_min() - 1);
        }
        let next = loop {
            // Up to the next multiple of the width: in earlier pages slices may have been wider or narrower.
            let end = start | (width - 1);
            let mut left = SliceRest::over(self, start..=end);
            while left.step(self, &mut found).await {}
            start = end.wrapping_add(1);
            if start == 0 || found.items.len() >= count.max(1) {
                break start >> CURSOR_SHIFT;
            }
        };
        self.leave(inside);
        Ok(ScanPage { items: found.items, next })
    }

    /// Approximate number of items; each key counts once, whichever tiers it is in. Exact for a cache in DRAM only of
    /// up to some hundred thousand items, except that expired items count until they are found. Otherwise an estimate
    /// from parts of the indexes: within some percent for many items, within a few items for few on flash.
    ///
    /// ```
    /// # use larder::{Larder, block_on};
    /// # let cache = Larder::in_memory(1 << 20)?;
    /// block_on(cache.set(b"rye", b"flour", None))?;
    /// assert_eq!(cache.estimated_len(), 1);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn estimated_len(&self) -> u64 {
        match &self.core.flash {
            None => self.core.dram.len() as u64,
            // Clean items are on flash too.
            Some(flash) => flash.estimated_len() + self.core.dram.estimated_dirty(PARTS_COUNTED),
        }
    }

    /// The same estimate, by tier and with the number of items with a lifetime. The index of flash does not store
    /// lifetimes: items on flash are assumed to have the same share as those in DRAM. So after a restart none counts
    /// as having a lifetime until some have been read.
    ///
    /// ```
    /// # use larder::{Larder, block_on};
    /// # use std::time::Duration;
    /// # let cache = Larder::in_memory(1 << 20)?;
    /// block_on(cache.set(b"rye", b"flour", None))?;
    /// block_on(cache.set(b"sourdough", b"fed", Some(Duration::from_secs(60))))?;
    /// let items = cache.estimated_items();
    /// assert_eq!((items.total(), items.in_dram_alone, items.with_lifetime), (2, 2, 1));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn estimated_items(&self) -> EstimatedItems {
        let dram = &self.core.dram;
        let sample = dram.sample(PARTS_COUNTED);
        match &self.core.flash {
            None => {
                let in_dram_alone = dram.len() as u64;
                let with_lifetime = sample.with_lifetime_of(in_dram_alone);
                EstimatedItems { in_dram_alone, with_lifetime, on_flash: 0 }
            }
            Some(flash) => {
                let on_flash = flash.estimated_len();
                let with_lifetime =
                    sample.dirty_with_lifetime() + sample.with_lifetime_of(on_flash);
                EstimatedItems { in_dram_alone: sample.dirty(), on_flash, with_lifetime }
            }
        }
    }

    /// The width of a slice with about `count` items, as a part of the hash space: a power of two.
    fn slice_width(&self, count: usize) -> u64 {
        let slices = self.estimated_len() / (count.max(1) as u64);
        let width = 1 << (63 - slices.max(1).ilog2().min(55));
        // A single slice would need a width of 2^64, which does not fit.
        let width: u64 = if slices < 2 { 1 << 63 } else { width };
        width.max(self.slice_width_min())
    }

    /// The minimum width, so that slices cover whole parts of every engine and fit a cursor.
    fn slice_width_min(&self) -> u64 {
        let parts = self.core.flash.as_deref().map_or(usize::MAX, Flash::scan_parts_max);
        let bits = parts.ilog2().min(64 - CURSOR_SHIFT);
        if bits == 0 { 1 << 63 } else { 1 << (64 - bits) }
    }
}
