//! What a start has found and the index does not contain yet.
//!
//! Putting each record of a large cache into the index takes longer than reading all of them. So the records are
//! divided by ranges of cores into small parts. The first request waits only for the part that it needs. The others
//! are loaded one by one in the background ([`record_log`](super::record_log)).
//!
//! *Always:* the index contains nothing of a sector whose part is not loaded, and is not queried for it before.

use super::geometry::LoadOptions;
use super::index::{Extent, LOCATION_END};
use crate::layout::line::scattered;
use crate::layout::{CoreId, Span};

/// Most parts: few enough that their write positions fit into the processor's caches.
const PARTS_MAX: usize = 1 << 14;
/// The bit position of the core, in bits that a packed extent without hits and class does not use.
const CORE_SHIFT: u32 = 52;
/// Stands for a location: nothing is cached. No extent can begin this close to the end.
const VOID: u64 = LOCATION_END - 64;
/// Stands for a location: the data of older records is clean.
const DESTAGED: u64 = LOCATION_END - 128;

/// The state that a record gives its sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordedState {
    Cached(Extent),
    Void,
    /// The sectors that older records call dirty are clean.
    Destaged,
}

/// A record, with the sequence that decides which record of a sector counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Late {
    first: u64,
    sequence: u64,
    /// The extent without hits, and the core; or [`VOID`] or [`DESTAGED`], with the sectors.
    packed: u64,
}

/// Records by part, in any order.
#[derive(Debug)]
pub(super) struct UnloadedRecords {
    /// Their number is a power of two. Empty parts are loaded.
    parts: Vec<Vec<Late>>,
    /// log2 of the sectors of a line.
    line_shift: u32,
    /// log2 of the sectors of a range. Lines do not cross a range boundary.
    range_shift: u32,
    left: usize,
    /// All parts before this one are loaded.
    next: usize,
    /// Sectors of records with data, and of dirty records. Several records of a sector each count.
    sectors: u64,
    dirty_sectors: u64,
}

impl UnloadedRecords {
    /// Reserves room for `records` records.
    pub(super) fn new(records: usize, line_sectors: u32, options: &LoadOptions) -> Self {
        let parts = records / options.part_records.max(1);
        let parts = parts.clamp(1, PARTS_MAX).next_power_of_two();
        let range_lines = u64::from(options.range_lines.max(1)).next_power_of_two();
        let range_shift = (u64::from(line_sectors) * range_lines).ilog2();
        // A little more than an equal share, because the shares are not equal.
        let room = records / parts + records / parts / 8;
        let parts = (0..parts).map(|_| Vec::with_capacity(room)).collect();
        let line_shift = line_sectors.ilog2();
        Self { parts, line_shift, range_shift, left: 0, next: 0, sectors: 0, dirty_sectors: 0 }
    }

    /// Adds a record of a batch of `sequence`. The records of a batch must come in order.
    pub(super) fn push(&mut self, sequence: u64, span: Span, said: RecordedState) {
        let packed = match said {
            RecordedState::Cached(extent) => extent.pack(),
            RecordedState::Void => nothing_at(VOID, span.sectors).pack(),
            RecordedState::Destaged => nothing_at(DESTAGED, span.sectors).pack(),
        };
        let [sectors, dirty] = sectors_of(said);
        (self.sectors, self.dirty_sectors) = (self.sectors + sectors, self.dirty_sectors + dirty);
        let number = self.part_of(span.core, span.first >> self.range_shift);
        let part = &mut self.parts[number];
        self.left += usize::from(part.is_empty());
        let core = u64::from(span.core.get()) << CORE_SHIFT;
        part.push(Late { first: span.first, sequence, packed: packed | core });
    }

    /// log2 of the sectors of a line.
    pub(super) fn line_shift(&self) -> u32 {
        self.line_shift
    }

    /// The number of parts that are not loaded.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Upper bounds of the cached and of the dirty sectors in the remaining parts.
    pub(super) fn sectors(&self) -> (u64, u64) {
        (self.sectors, self.dirty_sectors)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let records: usize = self.parts.iter().map(Vec::capacity).sum();
        records * size_of::<Late>() + self.parts.capacity() * size_of::<Vec<Late>>()
    }

    fn part_of(&self, core: CoreId, range: u64) -> usize {
        scattered(core.get(), range) & (self.parts.len() - 1)
    }

    /// The number of a part of `span` that is not loaded yet.
    pub(super) fn missing(&self, span: Span) -> Option<usize> {
        let (first, last) = (span.first >> self.range_shift, (span.end() - 1) >> self.range_shift);
        if last - first >= self.parts.len() as u64 {
            return self.parts.iter().position(|part| !part.is_empty());
        }
        let mut parts = (first..=last).map(|range| self.part_of(span.core, range));
        parts.find(|&part| !self.parts[part].is_empty())
    }

    /// The next part that is not loaded.
    pub(super) fn next(&mut self) -> Option<usize> {
        let found = self.parts[self.next..].iter().position(|part| !part.is_empty())?;
        self.next += found;
        Some(self.next)
    }

    /// Takes out a part: its records by line, and within a line in the order in which they were written.
    pub(super) fn take(&mut self, part: usize) -> Vec<Late> {
        let mut records = std::mem::take(&mut self.parts[part]);
        self.left -= usize::from(!records.is_empty());
        // A stable sort: the records of a batch stay in order.
        let line_shift = self.line_shift;
        records.sort_by_key(|late| (late.line(line_shift), late.sequence));
        for (_, said) in records.iter().map(|late| late.record()) {
            let [sectors, dirty] = sectors_of(said);
            (self.sectors, self.dirty_sectors) =
                (self.sectors - sectors, self.dirty_sectors - dirty);
        }
        records
    }
}

/// Its cached and its dirty sectors.
fn sectors_of(said: RecordedState) -> [u64; 2] {
    let RecordedState::Cached(Extent { sectors, is_dirty, .. }) = said else { return [0, 0] };
    [u64::from(sectors), if is_dirty { u64::from(sectors) } else { 0 }]
}

/// Stands for an extent: sectors without cached data.
fn nothing_at(location: u64, sectors: u32) -> Extent {
    Extent::new(location, sectors, false)
}

impl Late {
    /// The core and the line.
    pub(super) fn line(&self, line_shift: u32) -> (u64, u64) {
        (self.packed >> CORE_SHIFT, self.first >> line_shift)
    }

    pub(super) fn record(self) -> (Span, RecordedState) {
        let core = u16::try_from(self.packed >> CORE_SHIFT).expect("12 bits");
        let core = CoreId::new(core).expect("12 bits");
        let extent = Extent::unpack(self.packed & ((1 << CORE_SHIFT) - 1));
        let span = Span { core, first: self.first, sectors: extent.sectors };
        let said = match extent.location {
            VOID => RecordedState::Void,
            DESTAGED => RecordedState::Destaged,
            _ => RecordedState::Cached(extent),
        };
        (span, said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(core: u16, first: u64, sectors: u32) -> Span {
        Span { core: CoreId::new(core).unwrap(), first, sectors }
    }

    fn cached(location: u64, sectors: u32, is_dirty: bool) -> RecordedState {
        let extent = nothing_at(location, sectors);
        RecordedState::Cached(Extent { is_dirty, is_overwritable: is_dirty, ..extent })
    }

    /// Highest core, sector and location, and no location: what goes in comes out, by sequence.
    #[test]
    fn what_is_put_into_a_part_comes_out_in_its_order() {
        let mut unloaded = UnloadedRecords::new(4, 8, &LoadOptions::default());
        let far = span(4095, u64::MAX / 512 - 128, 128);
        let records = [
            (9, far, cached((1 << 49) - 256, 128, true)),
            (7, span(0, 8, 8), cached(0, 8, false)),
            (8, span(4095, 16, 1), RecordedState::Void),
            (8, span(0, 8, 1), RecordedState::Destaged),
        ];
        records.iter().for_each(|(sequence, span, said)| unloaded.push(*sequence, *span, *said));
        assert_eq!((unloaded.left(), unloaded.sectors()), (1, (136, 128)));
        let part = unloaded.missing(far).unwrap();
        let order = [1, 3, 2, 0].map(|number: usize| (records[number].1, records[number].2));
        let taken: Vec<_> = unloaded.take(part).into_iter().map(Late::record).collect();
        assert_eq!(taken, order, "by line, then by sequence");
        assert_eq!((unloaded.left(), unloaded.sectors()), (0, (0, 0)));
        assert_eq!((unloaded.missing(far), unloaded.next()), (None, None));
    }

    #[test]
    fn a_span_is_missing_until_each_of_its_ranges_is_loaded() {
        let options = LoadOptions { part_records: 4, range_lines: 16, ..LoadOptions::default() };
        let mut unloaded = UnloadedRecords::new(32, 8, &options);
        let range = 16 * 8;
        for number in 0..64 {
            unloaded.push(number, span(3, number * range, 1), cached(0, 1, false));
        }
        let whole = span(3, 0, 64 * 16 * 8);
        let mut taken = 0;
        while let Some(part) = unloaded.missing(whole) {
            taken += unloaded.take(part).len();
            assert!(unloaded.left() < 8);
        }
        assert_eq!((taken, unloaded.left()), (64, 0));
        unloaded.push(0, span(3, range, 1), RecordedState::Void);
        assert!(unloaded.missing(span(3, range - 1, 2)).is_some(), "its second sector");
        let core = whole.core;
        assert_ne!(unloaded.part_of(core, 0), unloaded.part_of(core, 1), "neighbours are apart");
        assert!(unloaded.missing(span(3, range - 1, 1)).is_none());
    }
}
