//! The collision table: the owner of each line, and its valid and dirty sectors. In memory it has the same format as
//! on the device, so that writing a page is a copy. Little-endian.
//!
//! ```text
//!  sector of 512 bytes; a page is 8 of them
//!  offset  bytes  field
//!       0    n r  records of n lines, one behind the other; then zeros
//!     504      2  magic "CT"
//!     506      2  version of the formats
//!     508      4  CRC-32C of the cache's UUID, the sector's number in the table (8 bytes) and bytes 0 to 508
//!
//!  record of 22               record of 26
//!       0      8  core line        0      8  core line (46 bits), core (14 bits above)
//!       8      2  core             8      m  valid: a bit a sector of the line
//!      10      m  valid            8+m    m  dirty
//!      10+m    m  dirty
//! ```
//!
//! Open CAS has no magic and no checksum here, and its records may cross sectors. A device writes sectors atomically,
//! but not pages. If a power loss interrupted the write of a page with a checksum, all of its lines would be lost,
//! including lines that were not changed. So each sector has its own checksum, and no record crosses a sector
//! boundary. As a result, a page has room for 2 to 6 % fewer lines than in Open CAS.

#![deny(clippy::indexing_slicing)]

use std::ops::Range;

use larder_device::IoBuffer;
use larder_device::label::FORMAT_VERSION;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::geometry::{Geometry, PAGE_BYTES, TABLE_SECTOR_BYTES, TRAILER_BYTES};
use super::version::OcfVersion;
use crate::layout::Data;

const MAGIC: [u8; 2] = *b"CT";
const CHECKED_BYTES: usize = TABLE_SECTOR_BYTES - size_of::<U32>();
const PAGE_SECTORS: usize = PAGE_BYTES as usize / TABLE_SECTOR_BYTES;

/// Bits of the number of a core line.
pub(super) const CORE_LINE_BITS: u32 = 46;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct SectorTrailer {
    magic: [u8; 2],
    version: U16,
    checksum: U32,
}

const _: () = assert!(size_of::<SectorTrailer>() == TRAILER_BYTES);

/// A line of a core: its number is below 2^46.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CoreLine {
    pub(super) core: u16,
    pub(super) number: u64,
}

/// The state of a sector that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SectorCondition {
    Whole,
    /// All zeros: never written.
    Blank,
    Damaged,
}

#[derive(Debug)]
pub(super) struct Table {
    bytes: Vec<u8>,
    uuid: [u8; 16],
    lines: u32,
    version: OcfVersion,
    lines_per_sector: u32,
    record_bytes: usize,
    map_bytes: usize,
}

impl Table {
    pub(super) fn new(geometry: &Geometry, uuid: [u8; 16]) -> Self {
        Self {
            bytes: vec![0; geometry.pages() as usize * PAGE_BYTES as usize],
            uuid,
            lines: geometry.lines,
            version: geometry.version,
            lines_per_sector: geometry.lines_per_sector(),
            record_bytes: geometry.record_bytes(),
            map_bytes: geometry.map_bytes(),
        }
    }

    pub(super) fn core_line(&self, line: u32) -> CoreLine {
        let (first, rest) = self.record(line).split_first_chunk().expect("8 bytes or more");
        let packed = u64::from_le_bytes(*first);
        match self.version {
            OcfVersion::V22 => {
                let (core, _) = rest.split_first_chunk().expect("10 bytes or more");
                CoreLine { core: u16::from_le_bytes(*core), number: packed }
            }
            OcfVersion::V26 | OcfVersion::Wal => CoreLine {
                core: u16::try_from(packed >> CORE_LINE_BITS).unwrap_or(u16::MAX),
                number: packed & ((1 << CORE_LINE_BITS) - 1),
            },
        }
    }

    pub(super) fn set_core_line(&mut self, line: u32, CoreLine { core, number }: CoreLine) {
        let version = self.version;
        let (first, rest) = self.record_mut(line).split_first_chunk_mut().expect("8 bytes or more");
        match version {
            OcfVersion::V22 => {
                *first = number.to_le_bytes();
                *rest.first_chunk_mut().expect("10 bytes or more") = core.to_le_bytes();
            }
            OcfVersion::V26 | OcfVersion::Wal => {
                *first = (u64::from(core) << CORE_LINE_BITS | number).to_le_bytes()
            }
        }
    }

    pub(super) fn valid(&self, line: u32) -> u128 {
        self.map(line, 0)
    }

    pub(super) fn dirty(&self, line: u32) -> u128 {
        self.map(line, 1)
    }

    pub(super) fn set_maps(&mut self, line: u32, valid: u128, dirty: u128) {
        let (map_bytes, at) = (self.map_bytes, self.version.key_bytes());
        let maps = self.record_mut(line).split_at_mut(at).1.chunks_exact_mut(map_bytes);
        for (map, bits) in maps.zip([valid, dirty]) {
            map.iter_mut().zip(bits.to_le_bytes()).for_each(|(byte, bits)| *byte = bits);
        }
    }

    /// Copies of pages, with trailers, ready to be written.
    pub(super) fn sealed(&mut self, pages: Range<u32>) -> Data {
        let bytes = PAGE_BYTES as usize;
        let (from, to) = (pages.start as usize * bytes, pages.end as usize * bytes);
        let first_sector = u64::from(pages.start) * PAGE_SECTORS as u64;
        let written = self.bytes.get_mut(from..to).expect("pages of the table");
        for (number, sector) in (first_sector..).zip(written.chunks_exact_mut(TABLE_SECTOR_BYTES)) {
            seal(&self.uuid, number, sector);
        }
        let mut buffer = IoBuffer::zeroed(written.len());
        buffer.copy_in(0, written);
        Data::new(buffer)
    }

    /// Takes over a sector that was read, unless it is damaged.
    pub(super) fn adopt(&mut self, number: u64, sector: &[u8]) -> SectorCondition {
        if sector.iter().all(|byte| *byte == 0) {
            return SectorCondition::Blank;
        }
        let mut sealed = sector.to_vec();
        seal(&self.uuid, number, &mut sealed);
        let at = usize::try_from(number).expect("in memory") * TABLE_SECTOR_BYTES;
        match self.bytes.get_mut(at..at + TABLE_SECTOR_BYTES) {
            Some(own) if sealed == sector => {
                own.copy_from_slice(sector);
                SectorCondition::Whole
            }
            _ => SectorCondition::Damaged,
        }
    }

    /// Applies an entry of the log to a line. Ignores lines that do not exist, and records of another length.
    pub(super) fn adopt_record(&mut self, line: u32, record: &[u8]) {
        if line < self.lines && record.len() == self.record_bytes {
            self.record_mut(line).copy_from_slice(record);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The record of a line, in the format of the device.
    pub(super) fn record(&self, line: u32) -> &[u8] {
        self.bytes.get(self.place(line)).expect("a line of the table")
    }

    fn record_mut(&mut self, line: u32) -> &mut [u8] {
        let place = self.place(line);
        self.bytes.get_mut(place).expect("a line of the table")
    }

    fn place(&self, line: u32) -> Range<usize> {
        assert!(line < self.lines, "line {line} of {}", self.lines);
        let (sector, slot) = (line / self.lines_per_sector, line % self.lines_per_sector);
        let at = sector as usize * TABLE_SECTOR_BYTES + slot as usize * self.record_bytes;
        at..at + self.record_bytes
    }

    fn map(&self, line: u32, number: usize) -> u128 {
        let at = self.version.key_bytes() + number * self.map_bytes;
        let map = self.record(line).get(at..at + self.map_bytes).expect("within a record");
        map.iter().rev().fold(0, |bits, byte| bits << 8 | u128::from(*byte))
    }
}

/// Writes the trailer of the sector of this number.
fn seal(uuid: &[u8; 16], number: u64, sector: &mut [u8]) {
    let trailer =
        SectorTrailer { magic: MAGIC, version: FORMAT_VERSION.into(), checksum: 0.into() };
    let (_, own) = SectorTrailer::mut_from_suffix(sector).expect("a sector");
    *own = trailer;
    let identity =
        larder_checksum::crc32c_append(larder_checksum::crc32c(uuid), &number.to_le_bytes());
    let checked = sector.get(..CHECKED_BYTES).expect("a sector");
    let checksum = larder_checksum::crc32c_append(identity, checked);
    let (_, own) = SectorTrailer::mut_from_suffix(sector).expect("a sector");
    own.checksum = checksum.into();
}

#[cfg(test)]
mod tests {
    use super::super::geometry::OcfOptions;
    use super::*;

    const UUID: [u8; 16] = *b"a cache's UUID..";

    fn geometry(version: OcfVersion, line_bytes: u32) -> Geometry {
        let OcfOptions { .. } = OcfOptions::default();
        Geometry { version, offset: 0, lines: 1000, line_bytes, block_bytes: 512 }
    }

    #[test]
    fn what_is_sealed_is_adopted() {
        for version in OcfVersion::ALL {
            for line_bytes in [4096, 8192, 16384, 32768, 65536] {
                let geometry = geometry(version, line_bytes);
                let mut table = Table::new(&geometry, UUID);
                let all = u128::MAX >> (128 - geometry.line_sectors());
                let of = |line: u32| CoreLine {
                    core: u16::try_from(line % 4096).unwrap(),
                    number: (1 << CORE_LINE_BITS) - 1 - u64::from(line),
                };
                for line in 0..geometry.lines {
                    table.set_core_line(line, of(line));
                    table.set_maps(line, all, u128::from(line) & all);
                }
                let data = table.sealed(0..geometry.pages());
                let mut again = Table::new(&geometry, UUID);
                for (number, sector) in (0..).zip(data.bytes().chunks(512)) {
                    assert_eq!(again.adopt(number, sector), SectorCondition::Whole);
                }
                for line in 0..geometry.lines {
                    assert_eq!(again.core_line(line), of(line));
                    assert_eq!(
                        (again.valid(line), again.dirty(line)),
                        (all, u128::from(line) & all)
                    );
                }
            }
        }
    }

    #[test]
    fn what_is_damaged_elsewhere_or_of_another_cache_is_refused() {
        let geometry = geometry(OcfVersion::V26, 4096);
        let mut table = Table::new(&geometry, UUID);
        table.set_maps(3, 255, 255);
        let sector = table.sealed(0..1).bytes().get(..512).unwrap().to_vec();
        let mut again = Table::new(&geometry, UUID);
        for at in 0..512 {
            let mut damaged = sector.clone();
            *damaged.get_mut(at).unwrap() ^= 4;
            assert_eq!(again.adopt(0, &damaged), SectorCondition::Damaged, "byte {at}");
        }
        assert_eq!(again.adopt(1, &sector), SectorCondition::Damaged);
        assert_eq!(again.adopt(1 << 20, &sector), SectorCondition::Damaged);
        assert_eq!(Table::new(&geometry, [0; 16]).adopt(0, &sector), SectorCondition::Damaged);
        assert_eq!((again.adopt(0, &[0; 512]), again.valid(3)), (SectorCondition::Blank, 0));
        assert_eq!((again.adopt(0, &sector), again.valid(3)), (SectorCondition::Whole, 255));
    }
}
