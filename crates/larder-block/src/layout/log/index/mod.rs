//! Maps the cached sectors of each core to their locations: extents in leaves of 64, the leaves in an ordered map.
//!
//! An extent takes 12 bytes of a leaf. Under random inserts leaves are two thirds full, because a full one shares with
//! its successor; after sequential inserts they are full. Two leaves that fit into one are merged. With the map of
//! leaves and the allocator, an extent costs some 20 bytes.
//!
//! Data that a class has evicted stays as an extent marked as evicted until its segment is filled again. It is never
//! read, but a write past it must know that a start would find it.
//!
//! *Always:* extents of a core do not overlap; none crosses a line boundary; the base of a leaf is at or before its
//! first extent, and the base of the next leaf is after its last.

mod extent;
mod leaf;

use std::collections::BTreeMap;

use super::super::dirty_sectors::DirtySectors;
use super::super::{ClassId, CoreId, Span};
pub(crate) use extent::{EXTENT_SECTORS_MAX, Extent, HITS_MAX, LOCATION_END};
use leaf::{CAPACITY, Leaf};

/// A full leaf shares with its successor if that has at most this number of extents; else it is split in half.
const ROOMY: usize = CAPACITY * 11 / 16;
/// Leaves are merged if the result has at most this number of extents.
const MERGED_MAX: usize = CAPACITY * 7 / 8;

#[derive(Debug)]
pub(crate) struct Index {
    /// Leaves by base, for each core.
    cores: Vec<BTreeMap<u64, Box<Leaf>>>,
    line_sectors: u32,
    valid_sectors: u64,
    dirty_sectors: DirtySectors,
    /// Valid sectors of each IO class.
    class_sectors: [u64; ClassId::COUNT],
}

/// What the index has of some sectors of one extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MappedExtent {
    pub(crate) span: Span,
    /// Clipped to these sectors.
    pub(crate) extent: Extent,
}

impl MappedExtent {
    /// Whether it is a part of the data of `span` that is at `location`.
    pub(crate) fn is_part_of(&self, span: Span, location: u64) -> bool {
        self.extent.location == location + (self.span.offset() - span.offset())
    }
}

impl Index {
    /// # Panics
    /// If lines are longer than an extent may be.
    pub(crate) fn new(line_sectors: u32) -> Self {
        assert!((1..=EXTENT_SECTORS_MAX).contains(&line_sectors), "lines of 64 KiB at most");
        Self {
            cores: Vec::new(),
            line_sectors,
            valid_sectors: 0,
            dirty_sectors: DirtySectors::default(),
            class_sectors: [0; ClassId::COUNT],
        }
    }

    pub(crate) fn valid_sectors(&self) -> u64 {
        self.valid_sectors
    }

    pub(in crate::layout) fn dirty_sectors(&self) -> &DirtySectors {
        &self.dirty_sectors
    }

    /// Valid sectors of a class.
    pub(crate) fn class_sectors(&self, class: ClassId) -> u64 {
        self.class_sectors[class.index()]
    }

    /// Appends what is cached of `span`, in order; leaves out absent and evicted sectors.
    pub(crate) fn find(&self, span: Span, found: &mut Vec<MappedExtent>) {
        self.find_those(span, |extent| !extent.is_evicted, found);
    }

    /// The same including evicted sectors: all sectors that have records on the device.
    pub(crate) fn find_recorded(&self, span: Span, found: &mut Vec<MappedExtent>) {
        self.find_those(span, |_| true, found);
    }

    /// What is cached of `span`, in order.
    pub(crate) fn found(&self, span: Span) -> Vec<MappedExtent> {
        let mut found = Vec::new();
        self.find(span, &mut found);
        found
    }

    /// What is cached of `span`, and what is evicted but would be found by a start.
    pub(crate) fn recorded(&self, span: Span) -> Vec<MappedExtent> {
        let mut found = Vec::new();
        self.find_recorded(span, &mut found);
        found
    }

    /// The parts of `found` that are still at the same location.
    pub(crate) fn still_there(&self, found: &MappedExtent) -> Vec<MappedExtent> {
        let mut now = self.found(found.span);
        now.retain(|one| one.is_part_of(found.span, found.extent.location));
        now
    }

    /// The parts of `found` that are still at the same location, evicted or not.
    pub(crate) fn still_recorded(&self, found: &MappedExtent) -> Vec<MappedExtent> {
        let mut now = self.recorded(found.span);
        now.retain(|one| one.is_part_of(found.span, found.extent.location));
        now
    }

    /// This data is about to go to its core.
    pub(crate) fn mark_busy(&mut self, found: &[MappedExtent]) {
        for one in found {
            self.change(one.span, |extent| extent.is_busy = true);
        }
    }

    /// This data does not go to its core after all.
    pub(crate) fn no_longer_busy(&mut self, found: &[MappedExtent]) {
        for one in found {
            for now in self.still_there(one) {
                self.change(now.span, |extent| extent.is_busy = false);
            }
        }
    }

    fn find_those(
        &self,
        span: Span,
        wanted: impl Fn(&Extent) -> bool,
        found: &mut Vec<MappedExtent>,
    ) {
        let Some(leaves) = self.cores.get(span.core.index()) else { return };
        let low = self.line_start(span.first);
        let mut find = |base: u64, leaf: &Leaf| {
            for number in leaf.position(low.saturating_sub(base))..leaf.len() {
                let first = base + u64::from(leaf.offset(number));
                if first >= span.end() {
                    return;
                }
                let extent = Extent::unpack(leaf.packed(number));
                found.extend(clip(span, first, extent).filter(|one| wanted(&one.extent)));
            }
        };
        match leaves.range(..span.end()).next_back() {
            None => {}
            // Usually one leaf holds everything.
            Some((base, leaf)) if *base <= low => find(*base, leaf),
            Some(_) => {
                let from = leaves.range(..=low).next_back().map_or(low, |(base, _)| *base);
                leaves.range(from..span.end()).for_each(|(base, leaf)| find(*base, leaf));
            }
        }
    }

    /// The first sectors at or after `sector` that are in an extent accepted by `wanted`; only of one extent.
    pub(crate) fn first_after(
        &self,
        core: CoreId,
        sector: u64,
        wanted: impl Fn(&Extent) -> bool,
    ) -> Option<MappedExtent> {
        let leaves = self.cores.get(core.index())?;
        let low = self.line_start(sector);
        let from = leaves.range(..=low).next_back().map_or(low, |(base, _)| *base);
        leaves.range(from..).find_map(|(base, leaf)| {
            (leaf.position(low.saturating_sub(*base))..leaf.len()).find_map(|number| {
                let first = base + u64::from(leaf.offset(number));
                let extent = Extent::unpack(leaf.packed(number));
                let end = first + u64::from(extent.sectors);
                let sectors =
                    u32::try_from(end.checked_sub(sector.max(first))?).expect("an extent");
                let behind = Span { core, first: sector.max(first), sectors };
                if sectors > 0 && wanted(&extent) { clip(behind, first, extent) } else { None }
            })
        })
    }

    /// Like [`find`](Self::find), and counts an access to each extent.
    pub(crate) fn touch(&mut self, span: Span, found: &mut Vec<MappedExtent>) {
        let before = found.len();
        let in_one_leaf = self.visit_leaf(span, |one, whole| {
            if whole.is_evicted {
                return None;
            }
            found.push(one);
            Some(Extent { hits: (whole.hits + 1).min(HITS_MAX), ..whole })
        });
        if !in_one_leaf {
            self.find(span, found);
            for one in &found[before..] {
                let hits = (one.extent.hits + 1).min(HITS_MAX);
                self.change_whole(one.span, |extent| extent.hits = hits);
            }
        }
    }

    /// Calls `change` with the extents of `span`. An extent is cut to `span` if it changes. `change` must not change
    /// the class.
    pub(crate) fn change(&mut self, span: Span, change: impl Fn(&mut Extent)) {
        let (mut dirtied, mut cleaned) = (0, 0);
        let mut parts: Vec<MappedExtent> = Vec::new();
        let in_one_leaf = self.visit_leaf(span, |one, whole| {
            if whole.is_evicted {
                return None;
            }
            if one.extent != whole {
                parts.push(one);
                return None;
            }
            let mut changed = whole;
            change(&mut changed);
            dirtied += dirty_of(changed);
            cleaned += dirty_of(whole);
            Some(changed)
        });
        self.dirty_sectors.add(span.core, dirtied);
        self.dirty_sectors.remove(span.core, cleaned);
        if !in_one_leaf {
            self.find(span, &mut parts);
        }
        for MappedExtent { span, extent } in parts {
            let mut changed = extent;
            change(&mut changed);
            if changed != extent {
                debug_assert_eq!(changed.sectors, extent.sectors);
                self.replace(span, Some(changed), &mut Vec::new());
            }
        }
    }

    /// Evicts a whole extent. The index remembers that its record is on the device.
    pub(crate) fn evict(&mut self, found: MappedExtent) {
        debug_assert!(!found.extent.is_dirty && !found.extent.is_evicted);
        self.uncount(found.span.core, found.extent);
        self.change_whole(found.span, |extent| {
            debug_assert_eq!(*extent, found.extent);
            extent.is_evicted = true;
        });
    }

    /// Moves the whole extents that overlap `span` to a class. Returns whether one had another class.
    pub(crate) fn reclassify(&mut self, span: Span, class: ClassId) -> bool {
        let mut found = Vec::new();
        self.find(span, &mut found);
        found.retain(|one| one.extent.class != class);
        for one in &found {
            let (base, number) = self.holder(span.core, one.span.first).expect("it was found");
            let leaf = self.cores[span.core.index()].get_mut(&base).expect("it was found");
            let extent = Extent { class, ..Extent::unpack(leaf.packed(number)) };
            leaf.set(number, extent.pack());
            self.class_sectors[one.extent.class.index()] -= u64::from(extent.sectors);
            self.class_sectors[class.index()] += u64::from(extent.sectors);
        }
        !found.is_empty()
    }

    /// If one leaf holds all of `span`, as it usually does, shows `visit` each part of `span` with its whole extent. A
    /// result of `visit` replaces the extent, and must have the same length. `false`: nothing was shown.
    fn visit_leaf(
        &mut self,
        span: Span,
        mut visit: impl FnMut(MappedExtent, Extent) -> Option<Extent>,
    ) -> bool {
        let low = self.line_start(span.first);
        let Some(leaves) = self.cores.get_mut(span.core.index()) else { return true };
        let Some((base, leaf)) = leaves.range_mut(..span.end()).next_back() else { return true };
        if *base > low {
            return false;
        }
        for number in leaf.position(low - base)..leaf.len() {
            let first = base + u64::from(leaf.offset(number));
            if first >= span.end() {
                break;
            }
            let whole = Extent::unpack(leaf.packed(number));
            if let Some(changed) = clip(span, first, whole).and_then(|one| visit(one, whole)) {
                debug_assert_eq!(changed.sectors, whole.sectors);
                leaf.set(number, changed.pack());
            }
        }
        true
    }

    /// Replaces everything in `span`, which is within one line, by `extent`; `None` removes it. Appends the previous
    /// content to `displaced`.
    pub(crate) fn replace(
        &mut self,
        span: Span,
        extent: Option<Extent>,
        displaced: &mut Vec<MappedExtent>,
    ) {
        debug_assert_eq!(self.line_start(span.first), self.line_start(span.end() - 1));
        debug_assert!(extent.is_none_or(|extent| extent.sectors == span.sectors));
        if extent.is_some_and(|extent| self.replace_in_leaf(span, extent, displaced)) {
            return;
        }
        let before = displaced.len();
        self.find_recorded(span, displaced);
        for one in &displaced[before..] {
            self.cut(*one);
        }
        if let Some(extent) = extent {
            self.insert(span.core, span.first, extent);
        }
    }

    /// Heap bytes, as requested from the allocator.
    pub(crate) fn memory_bytes(&self) -> usize {
        let leaves: usize = self.cores.iter().map(BTreeMap::len).sum();
        // A node of the map holds 5 to 11 entries of 16 bytes.
        leaves * (size_of::<Leaf>() + 2 * 16) + self.cores.capacity() * 24
    }

    fn line_start(&self, sector: u64) -> u64 {
        sector - sector % u64::from(self.line_sectors)
    }

    fn count(&mut self, core: CoreId, extent: Extent) {
        if extent.is_evicted {
            return;
        }
        self.valid_sectors += u64::from(extent.sectors);
        self.class_sectors[extent.class.index()] += u64::from(extent.sectors);
        self.dirty_sectors.add(core, dirty_of(extent));
    }

    fn uncount(&mut self, core: CoreId, extent: Extent) {
        if extent.is_evicted {
            return;
        }
        self.valid_sectors -= u64::from(extent.sectors);
        self.class_sectors[extent.class.index()] -= u64::from(extent.sectors);
        self.dirty_sectors.remove(core, dirty_of(extent));
    }

    /// The extent that holds `sector`: the base of its leaf, and its number there.
    fn holder(&self, core: CoreId, sector: u64) -> Option<(u64, usize)> {
        let leaves = self.cores.get(core.index())?;
        // The extent may begin before the base of the next leaf.
        leaves.range(..=sector).rev().find_map(|(base, leaf)| {
            let number = leaf.position((sector - base) + 1).checked_sub(1)?;
            Some((*base, number))
        })
    }

    /// Does the work of [`replace`](Self::replace) with one look-up in the map, if one leaf holds the whole line, and
    /// `span` is absent or exactly one extent. `false`: nothing was done.
    fn replace_in_leaf(
        &mut self,
        span: Span,
        extent: Extent,
        displaced: &mut Vec<MappedExtent>,
    ) -> bool {
        let low = self.line_start(span.first);
        let Some(leaves) = self.cores.get_mut(span.core.index()) else { return false };
        let Some((&base, leaf)) = leaves.range_mut(..span.end()).next_back() else { return false };
        let Ok(offset) = u32::try_from(span.first.wrapping_sub(base)) else { return false };
        if base > low {
            return false;
        }
        let mut number = leaf.position(low - base);
        // An extent that begins before it in the line may reach into it.
        while number < leaf.len() && base + u64::from(leaf.offset(number)) < span.end() {
            let first = base + u64::from(leaf.offset(number));
            let old = Extent::unpack(leaf.packed(number));
            if first == span.first && old.sectors == span.sectors {
                leaf.set(number, extent.pack());
                displaced.push(MappedExtent { span, extent: old });
                self.uncount(span.core, old);
                self.count(span.core, extent);
                return true;
            }
            if first + u64::from(old.sectors) > span.first {
                return false;
            }
            number += 1;
        }
        if leaf.is_full() {
            return false;
        }
        leaf.insert(number, offset, extent.pack());
        self.count(span.core, extent);
        true
    }

    /// Changes the whole extent of which a part was found. Its length, class and dirty state must not change.
    fn change_whole(&mut self, part: Span, change: impl Fn(&mut Extent)) {
        let (base, number) = self.holder(part.core, part.first).expect("it was found");
        let leaf = self.cores[part.core.index()].get_mut(&base).expect("it was found");
        let mut extent = Extent::unpack(leaf.packed(number));
        change(&mut extent);
        leaf.set(number, extent.pack());
    }

    /// Removes a part from its extent, and keeps what is on both sides of it.
    fn cut(&mut self, found: MappedExtent) {
        let core = found.span.core;
        let (base, number) = self.holder(core, found.span.first).expect("it was found");
        let leaves = &mut self.cores[core.index()];
        let leaf = leaves.get_mut(&base).expect("it was found");
        let first = base + u64::from(leaf.offset(number));
        let whole = Extent::unpack(leaf.packed(number));
        leaf.remove(number);
        self.uncount(core, whole);
        self.merge(core, base);
        let from = u32::try_from(found.span.first - first).expect("within an extent");
        let to = from + found.span.sectors;
        if from > 0 {
            self.insert(core, first, whole.part(0, from));
        }
        if to < whole.sectors {
            self.insert(core, found.span.end(), whole.part(to, whole.sectors));
        }
    }

    fn insert(&mut self, core: CoreId, first: u64, extent: Extent) {
        self.count(core, extent);
        if self.cores.len() <= core.index() {
            self.cores.resize_with(core.index() + 1, BTreeMap::new);
        }
        let leaves = &mut self.cores[core.index()];
        let Some((&base, leaf)) = leaves.range_mut(..=first).next_back() else {
            return Self::insert_alone(leaves, first, extent);
        };
        let Ok(offset) = u32::try_from(first - base) else {
            return Self::insert_alone(leaves, first, extent);
        };
        let number = leaf.position(u64::from(offset));
        if !leaf.is_full() {
            return leaf.insert(number, offset, extent.pack());
        }
        if number == leaf.len() {
            // Leaves stay full after sequential writes.
            return Self::insert_alone(leaves, first, extent);
        }
        let next = leaves.range(base + 1..).next().map(|(next, leaf)| (*next, leaf.len()));
        let taken = next
            .filter(|(_, len)| *len <= ROOMY)
            .and_then(|(next, _)| Some((next, leaves.remove(&next)?)));
        let leaf = leaves.get_mut(&base).expect("it was found");
        let middle = taken.as_ref().map_or(CAPACITY / 2, |(_, next)| (CAPACITY + next.len()) / 2);
        let (shift, mut upper) = leaf.divide(middle);
        let upper_base = base + u64::from(shift);
        if let Some((next, next_leaf)) = taken
            && !upper.absorb(&next_leaf, next - upper_base, CAPACITY)
        {
            leaves.insert(next, next_leaf);
        }
        let leaf = leaves.get_mut(&base).expect("it was found");
        if offset >= shift {
            let number = upper.position(u64::from(offset - shift));
            upper.insert(number, offset - shift, extent.pack());
        } else {
            leaf.insert(number, offset, extent.pack());
        }
        leaves.insert(upper_base, Box::new(upper));
    }

    fn insert_alone(leaves: &mut BTreeMap<u64, Box<Leaf>>, first: u64, extent: Extent) {
        let mut leaf = Box::new(Leaf::new());
        leaf.insert(0, 0, extent.pack());
        leaves.insert(first, leaf);
    }

    /// Merges the leaf at `base` with a neighbour if both fit into one with some room left, or drops it if it is
    /// empty.
    fn merge(&mut self, core: CoreId, base: u64) {
        let leaves = &mut self.cores[core.index()];
        let len = leaves[&base].len();
        if len == 0 {
            leaves.remove(&base);
            return;
        }
        if len > MERGED_MAX * 3 / 4 {
            return;
        }
        let next = leaves.range(base + 1..).next().map(|(next, _)| (base, *next));
        let before = leaves.range(..base).next_back().map(|(before, _)| (*before, base));
        for (lower, upper) in [next, before].into_iter().flatten() {
            if leaves[&lower].len() + leaves[&upper].len() > MERGED_MAX {
                continue;
            }
            let absorbed = leaves.remove(&upper).expect("it is there");
            let leaf = leaves.get_mut(&lower).expect("it is there");
            if leaf.absorb(&absorbed, upper - lower, MERGED_MAX) {
                return;
            }
            leaves.insert(upper, absorbed);
        }
    }
}

fn dirty_of(extent: Extent) -> u64 {
    if extent.is_dirty { u64::from(extent.sectors) } else { 0 }
}

/// The part of an extent that is in `span`.
fn clip(span: Span, first: u64, extent: Extent) -> Option<MappedExtent> {
    let (start, end) = (first.max(span.first), (first + u64::from(extent.sectors)).min(span.end()));
    let within = |sector: u64| u32::try_from(sector - first).expect("within an extent");
    (start < end).then(|| {
        let part = extent.part(within(start), within(end));
        MappedExtent {
            span: Span { core: span.core, first: start, sectors: part.sectors },
            extent: part,
        }
    })
}

/// The parts of `span` that are not in `found`.
pub(crate) fn gaps(span: Span, found: &[MappedExtent]) -> Vec<Span> {
    let mut next = span.first;
    let ends = found.iter().map(|one| (one.span.first, one.span.end()));
    let ends = ends.chain([(span.end(), span.end())]);
    ends.filter_map(|(first, end)| gap(span.core, std::mem::replace(&mut next, end), first))
        .collect()
}

/// The sectors of a request from `first` up to `end`, if there are any.
pub(crate) fn gap(core: CoreId, first: u64, end: u64) -> Option<Span> {
    let sectors = u32::try_from(end.checked_sub(first)?).expect("within a request");
    (sectors > 0).then_some(Span { core, first, sectors })
}

#[cfg(test)]
mod tests;
