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

/// Fewest segments of a log: one open for each class, one draining, and some ready to be filled.
pub const SEGMENTS_MIN: u32 = 8;

/// Options of a log. Use `..Default::default()` for the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Bytes of a segment: a power of two of 64 KiB to 1 GiB. With 256 or more segments, little capacity is lost to
    /// those that are being filled and drained. Default 16 MiB.
    pub segment_bytes: u32,
    /// Bytes of a line, the most that a record holds: 4 to 64 KiB, a power of two. Default 4 KiB.
    pub line_bytes: u32,
    /// Memory for stream data until it is on the core, in bytes. 0: data is destaged only when its segment is drained.
    /// Default 64 MiB.
    pub write_buffer_bytes: u64,
    /// Largest part of a segment that is kept when it is drained: data with hits. 0 to 50 percent, default 45.
    pub reinsert_percent: u8,
    /// The unit that the exported device promises to write atomically: its logical block, at least 512 bytes. Dirty
    /// data is overwritten in place only if the cache device writes such units atomically. Default 512.
    pub write_unit_bytes: u32,
    /// Loading of the index that a start does not wait for.
    pub load: LoadOptions,
    /// Whether a start reads dirty data, and compares it with the checksums of its records. Default: no.
    pub verifies_dirty: bool,
}

/// How a start loads what it has found into the index: [`Layout::load_part`](crate::layout::Layout::load_part).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadOptions {
    /// Number of records that are loaded before the start ends, in a tenth of a second or less. Further records are
    /// loaded on demand and in the background. Default 1 Mi.
    pub at_start_max: usize,
    /// Approximate number of records of a part. Default 32 Ki: some milliseconds.
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

/// One of the two places for the first header of a filling.
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

/// The position of the segments. Fixed at format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Offset of the first segment on the cache device, in bytes.
    pub offset: u64,
    /// The number of segments.
    pub segments: u32,
    /// Bytes of a segment.
    pub segment_bytes: u32,
    /// Bytes of a block of the device: headers begin and end at block boundaries.
    pub block_bytes: u32,
    /// Bytes of a line.
    pub line_bytes: u32,
    /// Bytes of metadata per block, in which headers are written with their data; 0: headers have blocks of their own.
    pub metadata_bytes: u16,
}

impl Geometry {
    /// Divides a device from `offset` on, a multiple of its block size.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`], naming the option, if that is impossible.
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

    /// What is wrong with it on a device of `capacity_bytes`, if anything is.
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
        // The product of two 32-bit numbers fits.
        let end = (u64::from(segments) * u64::from(segment_bytes)).checked_add(offset);
        match end {
            Some(end) if end <= capacity_bytes && end <= LOCATION_END => None,
            _ => Some(format!(
                "{segments} segments of {segment_bytes} bytes from {offset} on end beyond its {capacity_bytes} bytes, \
                 or beyond 512 TiB"
            )),
        }
    }

    /// Bytes for client data and records.
    pub fn capacity_bytes(&self) -> u64 {
        u64::from(self.segments) * u64::from(self.segment_bytes)
    }

    /// The alignment at which data on the device described by `info` may be overwritten in place; `None`: nowhere.
    pub(super) fn overwrite_align(&self, info: &DeviceInfo, options: &LogOptions) -> Option<u32> {
        let whole = info.atomic_write_bytes.filter(|&bytes| bytes >= options.write_unit_bytes);
        whole.map(|_| options.write_unit_bytes.max(self.block_bytes))
    }

    pub(super) fn line_sectors(&self) -> u32 {
        self.line_bytes / 512
    }

    /// Whether the device can tear sectors, because its blocks are smaller.
    pub(super) fn tears_sectors(&self) -> bool {
        (self.block_bytes as usize) < SECTOR_BYTES
    }

    /// The position of a place for the first header of a filling, if the segment has two ([`short_header`]).
    pub(super) fn note_position(&self, place: NotePlace) -> Option<u32> {
        let note_bytes = self.header_bytes(0, 0);
        self.tears_sectors().then(|| if place == NotePlace::First { 0 } else { note_bytes })
    }

    /// Bytes of both places together; batches begin after them.
    pub(super) fn notes_bytes(&self) -> u32 {
        if self.tears_sectors() { 2 * self.header_bytes(0, 0) } else { 0 }
    }

    /// The offset on the device of a position in a segment, in bytes.
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

    /// Whether headers are in the metadata of the blocks that follow them.
    pub(super) fn has_metadata(&self) -> bool {
        self.metadata_bytes > 0
    }

    /// Bytes of metadata for the blocks of `bytes` bytes of data.
    pub(super) fn metadata_of(&self, bytes: usize) -> usize {
        bytes / self.block_bytes as usize * usize::from(self.metadata_bytes)
    }

    /// The blocks after the first `bytes` bytes of `blocks`; `None` if there are fewer.
    pub(super) fn after<'a>(&self, blocks: Blocks<'a>, bytes: u32) -> Option<Blocks<'a>> {
        blocks.from(bytes, self.metadata_of(bytes as usize))
    }

    /// Whether the header of a batch of `entries` records and `data_bytes` bytes of data is in the metadata of the
    /// data.
    pub(super) fn is_in_metadata(&self, entries: usize, data_bytes: usize) -> bool {
        self.has_metadata()
            && metadata_header::fits(entries, data_bytes, self.block_bytes, self.metadata_bytes)
    }

    /// Bytes to read from the beginning of a batch in order to see its whole header.
    pub(super) fn header_view_bytes(&self) -> usize {
        let longest = metadata_header::header_bytes(RECORDS_MAX);
        match usize::from(self.metadata_bytes) {
            0 => HEADER_BYTES_MAX,
            metadata => longest.div_ceil(metadata) * self.block_bytes as usize,
        }
    }

    /// Most records of the first batch of a filling. Its header must be atomic: within one sector, or one block with
    /// its metadata. So a note that a crash tears leaves the previous one in force.
    pub(super) fn first_records_max(&self) -> usize {
        if self.has_metadata() { 1 } else { RECORDS_OF_A_SECTOR }
    }

    /// Bytes that the header of a batch takes in front of its data.
    pub(super) fn header_bytes(&self, entries: usize, data_bytes: usize) -> u32 {
        if self.is_in_metadata(entries, data_bytes) {
            return 0;
        }
        let header_bytes =
            if self.tears_sectors() { short_header::header_bytes } else { batch::header_bytes };
        let bytes = header_bytes(entries).next_multiple_of(self.block_bytes as usize);
        u32::try_from(bytes).expect("a few kilobytes")
    }

    /// Writes a header to the beginning of `into`, which has the length of [`header_bytes`](Self::header_bytes). A
    /// header that [is in metadata](Self::is_in_metadata) is encoded for that place.
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

    /// Parses the header at a position of a segment. `None` if no batch of this cache begins and ends there.
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
            if beside.is_some() || !blocks.has_blank_metadata(self.metadata_bytes) {
                return beside;
            }
        }
        let bytes = blocks.bytes;
        if self.tears_sectors() {
            short_header::parse(bytes, uuid, (segment, position), room)
        } else {
            let parsed = BatchHeader::parse(bytes, uuid, (segment, position), room);
            // Each batch has its header in one defined place, so a footer need not record which one.
            parsed.filter(|(_, records)| {
                let data = records.iter().map(Record::data_bytes).sum();
                !self.is_in_metadata(records.len(), data)
            })
        }
    }
}

/// A log of half a megabyte.
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

    /// Data that looks like a header is not accepted, and each batch has its header in one place.
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
