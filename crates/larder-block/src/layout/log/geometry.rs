//! How a cache device is divided, and what the layout may do there.

use larder_device::DeviceInfo;

use super::batch;
use super::index::LOCATION_END;
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
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            segment_bytes: 16 << 20,
            line_bytes: 4096,
            write_buffer_bytes: 64 << 20,
            reinsert_percent: 45,
            write_unit_bytes: 512,
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
        let geometry = Self { offset, segments, segment_bytes, block_bytes, line_bytes };
        match geometry.complaint(info.capacity_bytes) {
            None => Ok(geometry),
            Some(complaint) => {
                Err(Error::new(ErrorKind::Setup, format!("log on {}: {complaint}", info.name)))
            }
        }
    }

    /// What is wrong with it, on a device of `capacity_bytes`.
    pub(super) fn complaint(&self, capacity_bytes: u64) -> Option<String> {
        let Self { offset, segments, segment_bytes, block_bytes, line_bytes } = *self;
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
        if !block_bytes.is_power_of_two() || !(512..=4096).contains(&block_bytes) {
            return Some(format!(
                "its blocks have {block_bytes} bytes: take a device with 512 to 4096"
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
            Some(end) if end <= capacity_bytes && end / SECTOR_BYTES as u64 <= LOCATION_END => None,
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

    /// Where a position in a segment is on the device, in bytes.
    pub(super) fn offset_of(&self, segment: u32, position: u32) -> u64 {
        debug_assert!(segment < self.segments && position < self.segment_bytes);
        self.offset + u64::from(segment) * u64::from(self.segment_bytes) + u64::from(position)
    }

    /// The same as a sector.
    pub(super) fn location_of(&self, segment: u32, position: u32) -> u64 {
        self.offset_of(segment, position) / SECTOR_BYTES as u64
    }

    /// Segment and position of a sector of the device.
    pub(super) fn place_of(&self, location: u64) -> (u32, u32) {
        let at = location * SECTOR_BYTES as u64 - self.offset;
        let bytes = u64::from(self.segment_bytes);
        let narrow = |number: u64| u32::try_from(number).expect("within the segments");
        (narrow(at / bytes), narrow(at % bytes))
    }

    /// Bytes that the header of a batch of `entries` takes.
    pub(super) fn header_bytes(&self, entries: usize) -> u32 {
        let bytes = batch::header_bytes(entries).next_multiple_of(self.block_bytes as usize);
        u32::try_from(bytes).expect("a few kilobytes")
    }
}
