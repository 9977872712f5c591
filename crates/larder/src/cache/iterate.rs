//! Iterates over everything in the cache while it is in use.
//!
//! A scan visits hashes in order, slice by slice. A slice is a whole number of shards of the DRAM index and of the
//! index of large objects, and all buckets that its hashes belong to. For each slice the scan visits first DRAM, then
//! flash, so it finds there the objects that leave DRAM in between. Objects found in DRAM are not read again from
//! flash.
//!
//! An object on flash is current if DRAM does not hold its key. The scan checks DRAM after it has read the object,
//! and then asks the engine whether it still holds the object at this place. (In the other order the key could be
//! changed after the first check, and have left DRAM before the second.)

use std::collections::HashSet;
use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use super::core::Core;
use crate::base::item::ItemRef;
use crate::base::key::{KeyHash, KeyHasher};
use crate::base::tier::Tier;
use crate::dram::value::{PinnedValue, Value};
use crate::flash::{Flash, FlashCursor};

/// A batch ends at this number of items, or of bytes of keys and values.
const BATCH_ITEMS: usize = 256;
const BATCH_BYTES: usize = 1 << 20;

/// An item that [`Scan::next`] found. It pins the memory of its value, as every [`Value`] does.
///
/// ```
/// # use std::sync::Arc;
/// # use larder::{Config, Larder, RealClock, Tier, block_on};
/// # let cache = block_on(Larder::open(Config::default(), None, Arc::new(RealClock)))?;
/// block_on(cache.set(b"bread", b"rye", None))?;
/// let batch = block_on(cache.scan().next()).unwrap();
/// assert_eq!((batch[0].key(), &batch[0].value()[..]), (&b"bread"[..], &b"rye"[..]));
/// assert_eq!((batch[0].expires_at(), batch[0].tier()), (None, Tier::Dram));
/// # Ok::<(), larder::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Scanned {
    value: Value,
    tier: Tier,
    /// Length of a key prefix that the shards add and that users do not see.
    prefix_bytes: usize,
}

impl Scanned {
    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.value.key()[self.prefix_bytes..]
    }

    /// The key with the prefix, as the cache knows it.
    pub(crate) fn name(&self) -> &[u8] {
        self.value.key()
    }

    /// The same item, with a prefix of this length.
    pub(crate) fn behind(self, prefix_bytes: usize) -> Self {
        debug_assert!(prefix_bytes < self.name().len(), "a key has a byte at least");
        Self { prefix_bytes, ..self }
    }

    /// The value, with its flags. Its [`Value::version`] is valid for [`Larder::cas`](crate::Larder::cas) only if it
    /// was found in DRAM.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// When it expires, on the cache's [`Clock`](crate::Clock); `None` means never.
    pub fn expires_at(&self) -> Option<Duration> {
        self.value.meta().expires_at
    }

    /// The tier where it was found.
    pub fn tier(&self) -> Tier {
        self.tier
    }
}

/// A scan of a cache: see [`Larder::scan`](crate::Larder::scan).
///
/// ```
/// # use std::sync::Arc;
/// # use larder::{Config, Larder, RealClock, block_on};
/// # let cache = block_on(Larder::open(Config::default(), None, Arc::new(RealClock)))?;
/// let mut scan = cache.scan();
/// assert!(block_on(scan.next()).is_none(), "there is nothing in the cache");
/// # Ok::<(), larder::Error>(())
/// ```
pub struct Scan<'a> {
    core: &'a Core,
    hasher: KeyHasher,
    /// Slices that are not begun.
    slices: Range<usize>,
    /// Number of slices; a power of two.
    count: usize,
    /// The slice that is being scanned.
    left: Option<SliceRest>,
    found: Batch,
}

impl fmt::Debug for Scan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan").field("slices", &self.slices).finish_non_exhaustive()
    }
}

/// The batch so far. It survives a dropped call.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) items: Vec<Scanned>,
    bytes: usize,
}

impl Batch {
    fn push(&mut self, item: Scanned) {
        self.bytes += item.key().len() + item.value().len();
        self.items.push(item);
    }

    fn is_enough(&self) -> bool {
        self.items.len() >= BATCH_ITEMS || self.bytes >= BATCH_BYTES
    }
}

/// The rest of a slice.
pub(super) struct SliceRest {
    hashes: RangeInclusive<u64>,
    dram: Vec<KeyHash>,
    flash: Option<FlashCursor>,
    /// Keys that must not be returned again.
    seen: HashSet<(u64, u64)>,
}

impl<'a> Scan<'a> {
    /// A scan of everything.
    pub(super) fn of(core: &'a Core, hasher: KeyHasher) -> Self {
        let dram = core.dram.parts();
        let flash = core.flash.as_deref().map_or(dram, Flash::scan_parts_max);
        let count = dram.min(flash);
        debug_assert!(count.is_power_of_two(), "slices are whole parts of either tier");
        Self { core, hasher, slices: 0..count, count, left: None, found: Batch::default() }
    }

    /// The next items, at least one; `None` at the end, or if the cache was closed before the end (see
    /// [`Scan::is_whole`]). If the future is dropped, the next call continues at the same place.
    pub async fn next(&mut self) -> Option<Vec<Scanned>> {
        let inside = self.core.enter().await.ok()?;
        while !self.found.is_enough() {
            if self.left.is_none() {
                if let Some(flash) = &self.core.flash {
                    flash.index_all().await;
                }
                let Some(slice) = self.slices.next() else { break };
                self.left = Some(self.begin(slice));
            }
            let Some(left) = &mut self.left else { break };
            if !left.step((self.core, self.hasher), &mut self.found).await {
                self.left = None;
            }
        }
        self.core.leave(inside);
        let Batch { items, .. } = std::mem::take(&mut self.found);
        (!items.is_empty()).then_some(items)
    }

    /// Whether the scan has reached its end. A `None` of [`Scan::next`] before that means that the cache was closed.
    pub fn is_whole(&self) -> bool {
        self.slices.is_empty() && self.left.is_none() && self.found.items.is_empty()
    }

    fn begin(&self, slice: usize) -> SliceRest {
        let start = |slice: usize| ((slice as u128) << 64) >> self.count.trailing_zeros();
        let narrow = |hash: u128| u64::try_from(hash).expect("slices divide 2^64");
        SliceRest::over(self.core, narrow(start(slice))..=narrow(start(slice + 1) - 1))
    }
}

impl SliceRest {
    /// A whole slice. It covers whole parts of the flash engines, if there are any.
    pub(super) fn over(core: &Core, hashes: RangeInclusive<u64>) -> Self {
        let dram = &core.dram;
        let parts = dram.parts();
        let part_of = |hash: u64| {
            let part = KeyHash(hash).spread_over(parts as u64);
            usize::try_from(part).expect("a part of the index")
        };
        let listed = (part_of(*hashes.start())..=part_of(*hashes.end()))
            .flat_map(|part| dram.hashes_in(part, parts));
        let wanted = listed.map(|(hash, _)| hash).filter(|hash| hashes.contains(&hash.0));
        let mut resident: Vec<KeyHash> = wanted.collect();
        resident.sort_unstable_by_key(|hash| hash.0);
        resident.dedup();
        let flash = core.flash.as_deref();
        Self {
            dram: resident,
            flash: flash.map(|flash| flash.scan(&hashes)),
            seen: HashSet::new(),
            hashes,
        }
    }

    /// Makes a step. `false` if nothing is left.
    pub(super) async fn step(
        &mut self,
        (core, hasher): (&Core, KeyHasher),
        found: &mut Batch,
    ) -> bool {
        if let Some(hash) = self.dram.pop() {
            for resident in core.dram.residents(hash) {
                // Also if it has expired: flash has only an older version of the key.
                self.seen.insert(hasher.marked(hash, resident.value.key()));
                if let Some(item) = alive(core, resident.value, Tier::Dram) {
                    found.push(item);
                }
            }
            return true;
        }
        let Some(flash) = &core.flash else { return false };
        let Some(cursor) = &mut self.flash else { return false };
        let Some(tier) = flash.scans(cursor) else { return false };
        let (hashes, seen) = (&self.hashes, &self.seen);
        let judge = |item: &ItemRef<'_>| {
            // The first or last place of a slice on flash may also hold objects of other slices.
            let wanted = hashes.contains(&item.hash.0)
                && !seen.contains(&hasher.marked(item.hash, item.key));
            wanted.then(|| newest(core, item, tier))?
        };
        let Some(read) = flash.scan_on(cursor, &judge).await else { return false };
        self.keep(hasher, read, found);
        true
    }

    fn keep(
        &mut self,
        hasher: KeyHasher,
        read: impl IntoIterator<Item = Scanned>,
        found: &mut Batch,
    ) {
        for item in read {
            let hash = hasher.hash(item.key());
            if self.seen.insert(hasher.marked(hash, item.key())) {
                found.push(item);
            }
        }
    }
}

/// The newest version of an object that was read from flash, if it is alive.
fn newest(core: &Core, item: &ItemRef<'_>, tier: Tier) -> Option<Scanned> {
    let mut residents = core.dram.residents(item.hash).into_iter();
    match residents.find(|resident| resident.value.key() == item.key) {
        Some(resident) => alive(core, resident.value, Tier::Dram),
        None if item.is_expired(core.now_s()) => None,
        None => Some(Scanned { value: Value::alone(item), tier, prefix_bytes: 0 }),
    }
}

fn alive(core: &Core, value: PinnedValue, tier: Tier) -> Option<Scanned> {
    let expired = value.is_over(core.now_ms());
    (!expired).then(|| Scanned { value: value.keep(), tier, prefix_bytes: 0 })
}
