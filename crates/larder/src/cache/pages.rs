//! A walk over everything in pages, which remembers nothing between two of them.

use super::Larder;
use super::iterate::{Batch, Left, Scanned};
use crate::error::{Error, ErrorKind};
use crate::flash::Flash;

/// A cursor names a hash without so many of its lower bits. What it leaves free is for whoever walks over several
/// caches.
const CURSOR_SHIFT: u32 = 8;
/// Cursors are below this.
pub(crate) const CURSOR_END: u64 = 1 << (64 - CURSOR_SHIFT);
/// Parts of the index that are looked at to guess how much there is in all of them.
const PARTS_COUNTED: usize = 64;

/// What [`Larder::scan_from`] has found.
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
    /// What the page has, in no order; there may be nothing though the walk is not at its end.
    pub items: Vec<Scanned>,
    /// Where the next page begins; 0 at the end.
    pub next: u64,
}

/// How many items a cache has, about ([`Larder::estimated_items`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EstimatedItems {
    /// Items that flash holds, whether DRAM has a copy or not.
    pub on_flash: u64,
    /// Items that are not known to be on flash.
    pub in_dram_alone: u64,
    /// Of all of them, those that have a lifetime, alive or expired.
    pub with_lifetime: u64,
}

impl EstimatedItems {
    /// All of them.
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
    /// A page of a walk over everything that the cache holds: from `cursor` on, which is 0 for the first page and
    /// [`ScanPage::next`] for the others. A page has about `count` items or more, in DRAM alone seldom many more; with
    /// flash at least those of a part of the index of large objects, which are read whole, so that pages may be long
    /// there. What begins a walk need not end it: nothing is held between two pages, and cursors stay good however the
    /// cache grows and shrinks.
    ///
    /// Whatever is in the cache from the first page to the last is in one of them, changed or not, and unless it is
    /// changed in no other. Otherwise it is as [`Larder::scan`] says.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for a cursor that no page has given; [`ErrorKind::Closed`] after a close.
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
            // Slices are whole parts of the engines: of what somebody has made up, the part that it lies in.
            start &= !(self.slice_width_min() - 1);
        }
        let next = loop {
            // To the next multiple of the width: at other times slices were wider or narrower.
            let end = start | (width - 1);
            let mut left = Left::over(self, start..=end);
            while left.step(self, &mut found).await {}
            start = end.wrapping_add(1);
            if start == 0 || found.items.len() >= count.max(1) {
                break start >> CURSOR_SHIFT;
            }
        };
        self.leave(inside);
        Ok(ScanPage { items: found.items, next })
    }

    /// How many items there are, about: each key once, whichever tiers it is in. Exact for a cache in DRAM only of up
    /// to some hundred thousand items, but that what has expired counts until somebody finds out. Guessed otherwise,
    /// from parts of the indexes: with many items to some percent, with few on flash to a few.
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
            // What is clean is on flash too.
            Some(flash) => flash.estimated_len() + self.core.dram.estimated_dirty(PARTS_COUNTED),
        }
    }

    /// The same, by where items are and whether they have a lifetime. The index of flash does not know lifetimes: the
    /// same share is taken there as in DRAM, so that none has one after a restart until some have been read.
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

    /// How much of the space of hashes a slice takes that has about so many items: a power of two.
    fn slice_width(&self, count: usize) -> u64 {
        let slices = self.estimated_len() / (count.max(1) as u64);
        let width = 1 << (63 - slices.max(1).ilog2().min(55));
        // One slice is twice as wide as can be said.
        let width: u64 = if slices < 2 { 1 << 63 } else { width };
        width.max(self.slice_width_min())
    }

    /// At least this, so that slices are whole parts of every engine, and can be named by a cursor.
    fn slice_width_min(&self) -> u64 {
        let parts = self.core.flash.as_deref().map_or(usize::MAX, Flash::scan_parts_max);
        let bits = parts.ilog2().min(64 - CURSOR_SHIFT);
        if bits == 0 { 1 << 63 } else { 1 << (64 - bits) }
    }
}
