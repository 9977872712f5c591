//! How a cache device is divided, and what the layout may do there.

use larder_device::DeviceInfo;

use super::batch::{
    self, BatchHeader, CacheUuid, HEADER_BYTES_MAX, RECORDS_MAX, RECORDS_OF_A_SECTOR,
};
use super::blocks::Blocks;
use super::index::LOCATION_END;
use super::metadata_header;
use super::record::Record;
use super::short_header;
use crate::layout::SECTOR_BYTES;
use crate::{Error, ErrorKind};

/// Fewest segments of a log: one open for each class, one that drains, some ready to be filled.
pub const SEGMENTS_MIN: u32 = 8;

/// What a user may say of a log. `..Default::default()` for the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Bytes of a segment: a power of two of 64 KiB to 1 GiB. A 256th of the cache, or more, loses little to those
    /// that are being filled and drained. Default 16 MiB.
    pub segment_bytes: u32,
    /// Bytes of a line: what a record holds at most; 4 to 64 KiB, a power of two. Default 4 KiB.
    pub line_bytes: u32,
    /// Memory for data that streams have written, until they are on the core, in bytes. 0: nothing is destaged before
    /// its segment gives way. Default 64 MiB.
    pub write_buffer_bytes: u64,
    /// Part of a segment that is kept, at most, when it gives way: what had hits. 0 to 50 percent, default 45.
    pub reinsert_percent: u8,
    /// The unit that the exported device promises to write whole: its logical block, at least 512 bytes. Dirty data
    /// are overwritten in place only where the cache device does as much. Default 512.
    pub write_unit_bytes: u32,
    /// What a start does not wait for.
    pub load: LoadOptions,
    /// Whether a start reads what is dirty, and compares it with the checksums of its records. Default: no.
    pub verifies_dirty: bool,
}

/// How a start tells the index of what it has found: [`Layout::load_part`](crate::layout::Layout::load_part).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadOptions {
    /// Of so many records before it ends, in a tenth of a second or less; of more when they are asked for, and beside.
    /// Default 1 Mi.
    pub at_start_max: usize,
    /// Records of a part, more or less. Default 32 Ki: some milliseconds.
    pub part_records: usize,
    /// Lines of a core that are in one part: a power of two. Default 2048.
    pub range_lines: u32,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self { at_start_max: 1 << 20, part_records: 1 << 15, range_lines: 2048 }
    }
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            segment_bytes: 16 << 20,
            line_bytes: 4096,
            write_buffer_bytes: 64 << 20,
            reinsert_percent: 45,
            write_unit_bytes: 512,
            load: LoadOptions::default(),
            verifies_dirty: false,
        }
    }
}

/// Which of the two places for the first header of a filling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum NotePlace {
    First,
    #[default]
    Second,
}

impl NotePlace {
    pub(super) fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}

/// Where the segments lie. Fixed at format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Where the first segment begins on the cache device, in bytes.
    pub offset: u64,
    /// How many there are.
    pub segments: u32,
    /// Bytes of each.
    pub segment_bytes: u32,
    /// Bytes of a block of the device: a record's header begins and ends with one.
    pub block_bytes: u32,
    /// Bytes of a line.
    pub line_bytes: u32,
    /// Bytes of metadata beside each block, in which headers travel with their data; 0: they have blocks of their own.
    pub metadata_bytes: u16,
}

impl Geometry {
    /// Divides what of a device lies behind `offset`, a multiple of its block.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`], naming the option, if that cannot be.
    pub fn new(info: &DeviceInfo, offset: u64, options: &LogOptions) -> Result<Self, Error> {
        let room = info.capacity_bytes.saturating_sub(offset);
        let segments =
            u32::try_from(room / u64::from(options.segment_bytes.max(1))).unwrap_or(u32::MAX);
        let (block_bytes, segment_bytes) = (info.block_bytes, options.segment_bytes);
        let line_bytes = options.line_bytes;
        let has_room = info.keeps_metadata
            && info.metadata_bytes >= metadata_header::METADATA_BYTES_MIN
            && block_bytes as usize >= SECTOR_BYTES;
        let metadata_bytes = if has_room { info.metadata_bytes } else { 0 };
        let geometry =
            Self { offset, segments, segment_bytes, block_bytes, line_bytes, metadata_bytes };
        match geometry.complaint(info.capacity_bytes) {
            None => Ok(geometry),
            Some(complaint) => {
                Err(Error::new(ErrorKind::Setup, format!("log on {}: {complaint}", info.name)))
            }
        }
    }

    /// What is wrong with it, on a device of `capacity_bytes`.
    pub(super) fn complaint(&self, capacity_bytes: u64) -> Option<String> {
        let Self { offset, segments, segment_bytes, block_bytes, line_bytes, metadata_bytes } =
            *self;
        if !line_bytes.is_power_of_two() || !(4096..=65536).contains(&line_bytes) {
            return Some(format!(
                "line_bytes of {line_bytes}: give a power of two of 4096 to 65536"
            ));
        }
        if !segment_bytes.is_power_of_two() || !(1 << 16..=1 << 30).contains(&segment_bytes) {
            return Some(format!(
                "segment_bytes of {segment_bytes}: give a power of two of 64 KiB to 1 GiB"
            ));
        }
        if segment_bytes < line_bytes * 4 {
            return Some(format!(
                "segment_bytes of {segment_bytes}: give at least four lines of {line_bytes}"
            ));
        }
        if !block_bytes.is_power_of_two() || !(64..=4096).contains(&block_bytes) {
            return Some(format!(
                "its blocks have {block_bytes} bytes: take a device with 64 to 4096"
            ));
        }
        let is_room =
            metadata_bytes >= metadata_header::METADATA_BYTES_MIN && !self.tears_sectors();
        if metadata_bytes > 0 && !is_room {
            return Some(format!(
                "metadata_bytes of {metadata_bytes} beside blocks of {block_bytes}: headers need {} at least beside \
                 blocks of 512 bytes at least, or none",
                metadata_header::METADATA_BYTES_MIN
            ));
        }
        if !offset.is_multiple_of(u64::from(block_bytes)) {
            return Some(format!("offset {offset} is no multiple of the {block_bytes}-byte block"));
        }
        if segments < SEGMENTS_MIN {
            return Some(format!(
                "it has room for {segments} segments of {segment_bytes} bytes and needs {SEGMENTS_MIN}: \
                 make segment_bytes smaller"
            ));
        }
        // The product of two numbers of 32 bits.
        let end = (u64::from(segments) * u64::from(segment_bytes)).checked_add(offset);
        match end {
            Some(end) if end <= capacity_bytes && end <= LOCATION_END => None,
            _ => Some(format!(
                "{segments} segments of {segment_bytes} bytes from {offset} on end beyond its {capacity_bytes} bytes, \
                 or beyond 512 TiB"
            )),
        }
    }

    /// Bytes that user data and records have.
    pub fn capacity_bytes(&self) -> u64 {
        u64::from(self.segments) * u64::from(self.segment_bytes)
    }

    pub(super) fn line_sectors(&self) -> u32 {
        self.line_bytes / 512
    }

    /// Whether the device writes not even a sector whole: its blocks are smaller.
    pub(super) fn tears_sectors(&self) -> bool {
        (self.block_bytes as usize) < SECTOR_BYTES
    }

    /// Where the place is for the first header of a filling, if there are two in the segment ([`short_header`]).
    pub(super) fn note_position(&self, place: NotePlace) -> Option<u32> {
        let note_bytes = self.header_bytes(0, 0);
        self.tears_sectors().then(|| if place == NotePlace::First { 0 } else { note_bytes })
    }

    /// Bytes of both places together, behind which batches begin.
    pub(super) fn notes_bytes(&self) -> u32 {
        if self.tears_sectors() { 2 * self.header_bytes(0, 0) } else { 0 }
    }

    /// Where a position in a segment is on the device, in bytes.
    pub(super) fn offset_of(&self, segment: u32, position: u32) -> u64 {
        debug_assert!(segment < self.segments && position < self.segment_bytes);
        self.offset + u64::from(segment) * u64::from(self.segment_bytes) + u64::from(position)
    }

    /// Segment and position of a byte of the device.
    pub(super) fn place_of(&self, location: u64) -> (u32, u32) {
        let at = location - self.offset;
        let bytes = u64::from(self.segment_bytes);
        let narrow = |number: u64| u32::try_from(number).expect("within the segments");
        (narrow(at / bytes), narrow(at % bytes))
    }

    /// Whether headers travel in the metadata of the blocks behind them.
    pub(super) fn has_metadata(&self) -> bool {
        self.metadata_bytes > 0
    }

    /// Bytes of metadata of the blocks of so many bytes of data.
    pub(super) fn metadata_of(&self, bytes: usize) -> usize {
        bytes / self.block_bytes as usize * usize::from(self.metadata_bytes)
    }

    /// Whether the header of a batch of `entries` and so many bytes of data lies in the metadata of these.
    pub(super) fn is_in_metadata(&self, entries: usize, data_bytes: usize) -> bool {
        self.has_metadata()
            && metadata_header::fits(entries, data_bytes, self.block_bytes, self.metadata_bytes)
    }

    /// What has to be read from where a batch begins to see its header whole, in bytes.
    pub(super) fn header_view_bytes(&self) -> usize {
        let longest = metadata_header::header_bytes(RECORDS_MAX);
        match usize::from(self.metadata_bytes) {
            0 => HEADER_BYTES_MAX,
            metadata => longest.div_ceil(metadata) * self.block_bytes as usize,
        }
    }

    /// Most records of the first batch of a filling. Its header is there or not by one sector, or by one block with its
    /// metadata, so that a note that a crash tears leaves the one before in force.
    pub(super) fn first_records_max(&self) -> usize {
        if self.has_metadata() { 1 } else { RECORDS_OF_A_SECTOR }
    }

    /// Bytes in front of its data that the header of a batch of `entries` takes.
    pub(super) fn header_bytes(&self, entries: usize, data_bytes: usize) -> u32 {
        if self.is_in_metadata(entries, data_bytes) {
            return 0;
        }
        let header_bytes =
            if self.tears_sectors() { short_header::header_bytes } else { batch::header_bytes };
        let bytes = header_bytes(entries).next_multiple_of(self.block_bytes as usize);
        u32::try_from(bytes).expect("a few kilobytes")
    }

    /// Puts a header at the beginning of `into`, which is as long as [`header_bytes`](Self::header_bytes) says.
    /// That of a batch whose header [is in metadata](Self::is_in_metadata) is encoded there.
    pub(super) fn encode(
        &self,
        header: &BatchHeader,
        uuid: &CacheUuid,
        records: &[Record],
        into: &mut [u8],
    ) {
        let data_bytes = || records.iter().map(Record::data_bytes).sum();
        if self.has_metadata() && self.is_in_metadata(records.len(), data_bytes()) {
            metadata_header::encode(header, uuid, records, into);
        } else if self.tears_sectors() {
            short_header::encode(header, uuid, records, into);
        } else {
            header.encode(uuid, records, into);
        }
    }

    /// Reads what lies at a position of a segment. `None` if no batch of this cache begins there that ends there, too.
    pub(super) fn parse(
        &self,
        blocks: Blocks<'_>,
        uuid: &CacheUuid,
        (segment, position): (u32, u32),
    ) -> Option<(BatchHeader, Vec<Record>)> {
        let room = (self.segment_bytes - position, self.block_bytes);
        if self.has_metadata() {
            let limits = (room.0, room.1, self.metadata_bytes);
            let beside = metadata_header::parse(blocks.metadata, uuid, (segment, position), limits);
            if beside.is_some() || !blocks.has_blank_metadata(self) {
                return beside;
            }
        }
        let bytes = blocks.bytes;
        if self.tears_sectors() {
            short_header::parse(bytes, uuid, (segment, position), room)
        } else {
            let parsed = BatchHeader::parse(bytes, uuid, (segment, position), room);
            // Each batch has its header in one place, so that a footer need not say in which.
            parsed.filter(|(_, records)| {
                let data = records.iter().map(Record::data_bytes).sum();
                !self.is_in_metadata(records.len(), data)
            })
        }
    }
}

/// Of a log of half a megabyte.
#[cfg(test)]
pub(super) const SMALL: Geometry = Geometry {
    offset: 0,
    segments: 8,
    segment_bytes: 64 << 10,
    block_bytes: 512,
    line_bytes: 4096,
    metadata_bytes: 0,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::log::record::RecordKind;
    use crate::layout::{CoreId, Span};

    const UUID: CacheUuid = *b"0123456789abcdef";
    const BESIDE: Geometry = Geometry { block_bytes: 4096, metadata_bytes: 64, ..SMALL };

    /// Of data that look like a header nothing is believed, and each batch has its header in one place.
    #[test]
    fn a_header_in_a_block_counts_where_it_can_be_one() {
        let record = |kind| {
            let span = Span { core: CoreId::new(1).unwrap(), first: 8, sectors: 8 };
            Record { span, kind, checksum: 0 }
        };
        let parse = |records: &[Record], metadata: &[u8]| {
            let data = records.iter().map(Record::data_bytes).sum::<usize>();
            let header = BatchHeader {
                segment: 0,
                position: 4096,
                bytes: u32::try_from(4096 + data).unwrap(),
                generation: 9,
                sequence: 10,
                horizon: 8,
                void_below: 2,
                epoch: 1,
            };
            let mut bytes = vec![0; 8192];
            header.encode(&UUID, records, &mut bytes);
            let blocks = Blocks { bytes: &bytes, metadata };
            BESIDE.parse(blocks, &UUID, (0, 4096)).map(|(header, _)| header.bytes)
        };
        let void = [record(RecordKind::Void)];
        assert_eq!(parse(&void, &[0; 128]), Some(4096));
        assert_eq!(parse(&void, &[&[0; 63][..], &[1; 65]].concat()), None, "a block of data");
        assert_eq!(parse(&void, &[]), None, "metadata that were not read");
        assert_eq!(parse(&[record(RecordKind::Clean)], &[0; 128]), None, "it would be beside");
    }
}
