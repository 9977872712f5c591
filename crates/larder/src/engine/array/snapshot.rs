//! What a clean shutdown keeps of the array: where the tables lie, which know everything at that time, and the state of
//! the regions. Little-endian.
//!
//! ```text
//!  offset  bytes  field
//!       0      8  clock, where there is no tombstone log; else 0
//!       8      4  n, number of tables
//!      12      4  r, number of regions
//!      16   24 n  tables: 4 region, 2^32 - 1 for none; 4 offset; 8 stamp; 2 entries; 1 pages that are overflown;
//!                 1 flags: 1 touched, 2 hides; 4 reserved, 0
//!       *   16 r  regions: 8 sequence number of the filling, 0 for none; 4 latest expiry; 2 stream; 2 reserved, 0
//!       *    8 g  bytes written of each group of times to live, those of long ago less and less
//! ```

#![deny(clippy::indexing_slicing)]

use larder_log::{RegionId, RegionIdentity, RegionState};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, IntoBytes};

use super::Array;
use super::index::TableSummary;
use super::stored::{StoredHeader, StoredRegion, StoredTable};
use super::table::TABLE_BYTES;

const NO_REGION: u32 = u32::MAX;
const TOUCHED: u8 = 1;
const HIDES: u8 = 2;

impl Array {
    /// What the next opening needs. Nothing may be in flight.
    pub(super) fn export_all(&self) -> Vec<u8> {
        let clock = self.log.dead().clock_in_memory();
        let is_logged = self.log.tombstones().is_some();
        // What could not be written is lost. Without a log of deaths, a table that lacks deaths must be dropped too.
        let left: Vec<bool> =
            (0..self.log.place().tables).map(|table| self.tables.has_news(table)).collect();
        let state = self.log.lock();
        let header = StoredHeader {
            clock: clock.into(),
            tables: self.log.place().tables.into(),
            regions: self.log.place().log.regions.into(),
        };
        let mut bytes = header.as_bytes().to_vec();
        for (table, has_news) in (0..).zip(left) {
            let kept = state.entries.kept(table);
            let TableSummary { place, stamp, entries, overflown, is_touched, hides } =
                match has_news && !is_logged {
                    true => TableSummary { place: None, ..kept },
                    false => kept,
                };
            let flag = |is: bool, flag: u8| if is { flag } else { 0 };
            let stored = StoredTable {
                region: place.map_or(NO_REGION, |(region, _)| region.number()).into(),
                offset: place.map_or(0, |(_, offset)| offset).into(),
                stamp: stamp.into(),
                entries: entries.into(),
                overflown,
                flags: flag(is_touched, TOUCHED) | flag(hides, HIDES),
                reserved: 0.into(),
            };
            bytes.extend_from_slice(stored.as_bytes());
        }
        for region in state.regions.all() {
            let is_sealed = region.state() == RegionState::Sealed;
            let stream = region.stream().and_then(|stream| u16::try_from(stream).ok()).unwrap_or(0);
            let stored = StoredRegion {
                sequence: if is_sealed { region.sequence() } else { 0 }.into(),
                latest_expiry_s: region.latest_expiry_s().into(),
                stream: stream.into(),
                reserved: 0.into(),
            };
            bytes.extend_from_slice(stored.as_bytes());
        }
        for written in self.log.host().group_bytes.get() {
            bytes.extend_from_slice(&written.to_le_bytes());
        }
        bytes
    }

    /// Takes over what a clean shutdown has left. Returns whether it is valid; if not, nothing is changed.
    pub(super) fn import_all(&self, part: &[u8]) -> bool {
        let Some(snapshot) = Snapshot::parse(part) else { return false };
        if !self.can_be(&snapshot) {
            return false;
        }
        let Snapshot { header, tables, regions, groups } = snapshot;
        for (number, region) in (0..).zip(regions) {
            let sequence = region.sequence.get();
            if sequence > 0 {
                let filling = RegionIdentity { region: RegionId::new(number), sequence };
                self.log.restore_filling(
                    filling,
                    region.stream.get(),
                    region.latest_expiry_s.get(),
                );
            }
        }
        let mut state = self.log.lock();
        for (number, table) in (0..).zip(tables) {
            state.entries.take_over(number, kept_of(table));
        }
        drop(state);
        let groups: Vec<u64> = groups.iter().map(|bytes| bytes.get()).collect();
        self.log.host().group_bytes.begin_with(&groups);
        self.log.dead().set_clock(header.clock.get());
        true
    }

    /// Whether it belongs to an index and a log of these sizes.
    fn can_be(&self, snapshot: &Snapshot<'_>) -> bool {
        let Snapshot { header, tables, regions, groups } = snapshot;
        let is_alike = header.tables.get() == self.log.place().tables
            && header.regions.get() == self.log.place().log.regions
            && groups.len() == self.log.place().index_stream;
        let counts = self.log.place().oldest_sequence..self.log.place().log.first_sequence;
        let is_region = |region: &StoredRegion| {
            let is_none = region.sequence.get() == 0;
            let is_stream = usize::from(region.stream.get()) <= self.log.place().index_stream;
            is_none || counts.contains(&region.sequence.get()) && is_stream
        };
        // A table lies in a valid filling, of tables.
        let is_table = |table: &StoredTable| {
            let region = table.region.get();
            let filled = usize::try_from(region).ok().and_then(|region| regions.get(region));
            let holds_tables = |filled: &StoredRegion| {
                let stream = usize::from(filled.stream.get());
                filled.sequence.get() > 0 && stream == self.log.place().index_stream
            };
            let end = u64::from(table.offset.get()) + TABLE_BYTES as u64;
            region == NO_REGION
                || filled.is_some_and(holds_tables)
                    && end <= u64::from(self.log.place().log.region_bytes)
                    && table.offset.get().is_multiple_of(4096)
        };
        is_alike && regions.iter().all(is_region) && tables.iter().all(is_table)
    }
}

fn kept_of(table: &StoredTable) -> TableSummary {
    let region = Some(table.region.get()).filter(|&region| region != NO_REGION);
    TableSummary {
        place: region.map(|region| (RegionId::new(region), table.offset.get())),
        stamp: table.stamp.get(),
        entries: table.entries.get(),
        overflown: table.overflown,
        is_touched: table.flags & TOUCHED != 0,
        hides: table.flags & HIDES != 0,
    }
}

/// The parts of a snapshot.
struct Snapshot<'a> {
    header: &'a StoredHeader,
    tables: &'a [StoredTable],
    regions: &'a [StoredRegion],
    groups: &'a [U64],
}

impl<'a> Snapshot<'a> {
    fn parse(part: &'a [u8]) -> Option<Self> {
        let (header, rest) = StoredHeader::ref_from_prefix(part).ok()?;
        let tables = usize::try_from(header.tables.get()).ok()?;
        let regions = usize::try_from(header.regions.get()).ok()?;
        let (tables, rest) = <[StoredTable]>::ref_from_prefix_with_elems(rest, tables).ok()?;
        let (regions, rest) = <[StoredRegion]>::ref_from_prefix_with_elems(rest, regions).ok()?;
        let groups = <[U64]>::ref_from_bytes(rest).ok()?;
        Some(Self { header, tables, regions, groups })
    }
}
