//! All sets of the engine, each behind a lock of its own, and the part of them that the region log asks for.
//!
//! A set may be locked while the log is locked, and not the other way round.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_log::{Entries, FooterEntry, RegionId, RegionIdentity};

use super::directory::Directory;
use super::page::PAGE_BYTES;
use super::set::{PagePlace, PageSet, SetBytes};
use crate::base::key::KeyHash;

/// Sets that an estimate of the number of objects counts.
const SETS_COUNTED: usize = 64;

/// Where the pages of a region lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Geometry {
    pages_per_region: u32,
}

impl Geometry {
    pub(super) fn of_region(region_bytes: u32) -> Self {
        Self { pages_per_region: region_bytes / page_bytes() }
    }

    pub(super) fn place(self, region: RegionId, offset: u32) -> PagePlace {
        debug_assert!(offset.is_multiple_of(page_bytes()), "pages begin with a block: {offset}");
        PagePlace(region.number() * self.pages_per_region + offset / page_bytes())
    }

    pub(super) fn region(self, PagePlace(page): PagePlace) -> RegionId {
        RegionId::new(page / self.pages_per_region)
    }

    pub(super) fn offset(self, PagePlace(page): PagePlace) -> u32 {
        page % self.pages_per_region * page_bytes()
    }
}

fn page_bytes() -> u32 {
    u32::try_from(PAGE_BYTES).expect("4096")
}

/// All sets.
#[derive(Debug)]
pub(super) struct PageSets {
    sets: Box<[Mutex<PageSet>]>,
    geometry: Geometry,
    /// Memory of all sets besides the sets themselves.
    index_bytes: AtomicU64,
    open_bytes: AtomicU64,
    /// Objects that left with their pages, since they were counted last.
    gone: AtomicU64,
}

impl PageSets {
    pub(super) fn new(sets: u32, geometry: Geometry) -> Self {
        Self {
            sets: (0..sets).map(|_| Mutex::default()).collect(),
            geometry,
            index_bytes: AtomicU64::new(0),
            open_bytes: AtomicU64::new(0),
            gone: AtomicU64::new(0),
        }
    }

    /// The number of sets.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.sets.len()).expect("they were counted so")
    }

    /// The number of the set for keys of this hash.
    pub(super) fn number_of(&self, hash: KeyHash) -> u32 {
        u32::try_from(hash.spread_over(self.sets.len() as u64)).expect("below the number of sets")
    }

    /// Locks a set to look at it.
    pub(super) fn look<T>(&self, set: u32, look: impl FnOnce(&PageSet) -> T) -> T {
        look(&self.lock(set))
    }

    /// Locks a set to change it.
    pub(super) fn change<T>(&self, set: u32, change: impl FnOnce(&mut PageSet) -> T) -> T {
        let mut locked = self.lock(set);
        let before = locked.memory_bytes();
        let changed = change(&mut locked);
        let SetBytes { index, open } = locked.memory_bytes();
        if index != before.index {
            adjust(&self.index_bytes, before.index, index);
        }
        if open != before.open {
            adjust(&self.open_bytes, before.open, open);
        }
        changed
    }

    fn lock(&self, set: u32) -> MutexGuard<'_, PageSet> {
        self.sets[set as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        (0..self.count()).for_each(|set| self.change(set, |set| *set = PageSet::default()));
    }

    /// Memory for what is known of flash, and of pages in memory.
    pub(super) fn memory_bytes(&self) -> SetBytes {
        let sets = size_of_val(&*self.sets) as u64;
        SetBytes {
            index: sets + self.index_bytes.load(Ordering::Relaxed),
            open: self.open_bytes.load(Ordering::Relaxed),
        }
    }

    /// Number of objects, estimated from some of the sets.
    pub(super) fn estimated_len(&self) -> u64 {
        let step = (self.sets.len() / SETS_COUNTED).max(1);
        let counted = (0..self.count()).step_by(step).map(|set| self.look(set, PageSet::len));
        let (sets, objects) = counted.fold((0, 0), |(sets, sum), len| (sets + 1, sum + len));
        objects * self.sets.len() as u64 / std::cmp::max(sets, 1)
    }

    /// Objects that left with their pages since the last call.
    pub(super) fn take_gone(&self) -> u64 {
        self.gone.swap(0, Ordering::Relaxed)
    }

    fn remove(&self, set: u32, place: PagePlace) -> bool {
        let gone = self.change(set, |set| set.remove_page(place));
        self.gone.fetch_add(gone.unwrap_or(0), Ordering::Relaxed);
        gone.is_some()
    }
}

fn adjust(sum: &AtomicU64, before: u64, after: u64) {
    // In two's complement the difference may be negative.
    sum.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
}

/// What the region log keeps under its lock for this engine.
#[derive(Debug)]
pub(super) struct PageEntries {
    sets: Arc<PageSets>,
    /// Of the region that is being filled.
    pub(super) directory: Directory,
    /// The filling whose directory was appended: it takes no more pages.
    pub(super) ended: Option<RegionIdentity>,
    /// Fillings before this number are the oldest: their hit objects ride along with new pages.
    pub(super) leave_soon: u64,
}

impl PageEntries {
    pub(super) fn of(sets: &Arc<PageSets>) -> Self {
        let sets = Arc::clone(sets);
        Self { sets, directory: Directory::default(), ended: None, leave_soon: 0 }
    }
}

impl Entries for PageEntries {
    /// Nothing is appended again when its region is reclaimed.
    fn points_to(&self, _stream: usize, _hash: u64, _region: RegionId, _offset: u32) -> bool {
        false
    }

    /// The engine adds its pages itself, with their fingerprints.
    fn set(&mut self, _stream: usize, _filling: RegionIdentity, _entry: &FooterEntry) {}

    fn remove_if_at(
        &mut self,
        _stream: Option<usize>,
        hash: u64,
        region: RegionId,
        offset: u32,
    ) -> bool {
        // The directory's hash is no set.
        let set = u32::try_from(hash).ok().filter(|&set| set < self.sets.count());
        let is_page = offset.is_multiple_of(page_bytes());
        set.filter(|_| is_page)
            .is_some_and(|set| self.sets.remove(set, self.sets.geometry.place(region, offset)))
    }

    fn remove_region(&mut self, region: RegionId) -> u64 {
        let geometry = self.sets.geometry;
        let is_gone = |place| geometry.region(place) == region;
        let gone = (0..self.sets.count())
            .map(|set| self.sets.change(set, |set| set.remove_pages(is_gone)))
            .sum();
        self.sets.gone.fetch_add(gone, Ordering::Relaxed);
        gone
    }

    /// Pages never expire, so no region is given up whole without its footer.
    fn parts(&self) -> usize {
        0
    }

    fn sweep(&mut self, _part: usize, _is_gone: &dyn Fn(RegionId) -> bool) -> u64 {
        0
    }
}
