//! How a cache device is divided between the collision table and lines.

use larder_device::DeviceInfo;

use super::version::OcfVersion;
use crate::{Error, ErrorKind};

/// Bytes of a page of the collision table, the unit in which it is written.
pub(super) const PAGE_BYTES: u32 = 4096;
/// Bytes of a sector of the table: no record crosses a sector boundary.
pub(super) const TABLE_SECTOR_BYTES: usize = 512;
/// Bytes at the end of each sector of the table that verify it.
pub(super) const TRAILER_BYTES: usize = 8;
/// Bounds of the size of the log in front of the table, which is four times that of the table. Even if each write
/// takes a block of 512 bytes, and each block of a half concerns another page, the pages cost less than a tenth of the
/// written bytes.
const JOURNAL_BYTES: std::ops::RangeInclusive<u64> = 32 << 10..=64 << 20;
/// Data begins at a multiple of this.
const ALIGN_BYTES: u64 = 128 << 10;
/// Line numbers have 29 bits.
const LINES_MAX: u32 = (1 << 29) - 1;
/// Fewest lines: enough for two cleanings.
const LINES_MIN: u32 = 64;

/// Options of a cache of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OcfOptions {
    /// The version of Open CAS to imitate. Default: that of 2026.
    pub version: OcfVersion,
    /// Bytes of a line: 4 to 64 KiB, a power of two. Default 4 KiB.
    pub line_bytes: u32,
}

impl Default for OcfOptions {
    fn default() -> Self {
        Self { version: OcfVersion::V26, line_bytes: 4096 }
    }
}

/// The position of the table and the lines. Fixed at format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The version of Open CAS that it imitates.
    pub version: OcfVersion,
    /// Offset of the collision table on the cache device, in bytes.
    pub offset: u64,
    /// The number of lines.
    pub lines: u32,
    /// Bytes of a line: 4 to 64 KiB.
    pub line_bytes: u32,
    /// Bytes of a block of the device.
    pub block_bytes: u32,
}

impl Geometry {
    /// Divides a device from `offset` on, a multiple of 4 KiB.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`], naming the option, if that is impossible.
    pub fn new(info: &DeviceInfo, offset: u64, options: &OcfOptions) -> Result<Self, Error> {
        let OcfOptions { version, line_bytes } = *options;
        let room = info.capacity_bytes.saturating_sub(offset);
        let most = room / u64::from(line_bytes.max(1));
        let lines = u32::try_from(most).unwrap_or(LINES_MAX).min(LINES_MAX);
        let block_bytes = info.block_bytes;
        let mut geometry = Self { version, offset, lines, line_bytes, block_bytes };
        let refused = |complaint| {
            Error::new(ErrorKind::Setup, format!("cache of lines on {}: {complaint}", info.name))
        };
        if let Some(complaint) = geometry.complaint_of_sizes() {
            return Err(refused(complaint));
        }
        let fits = |lines| Self { lines, ..geometry }.end() <= info.capacity_bytes;
        let (mut below, mut beyond) = (0, lines + 1);
        while beyond - below > 1 {
            let middle = below.midpoint(beyond);
            if fits(middle) { below = middle } else { beyond = middle }
        }
        geometry.lines = below;
        match geometry.complaint(info.capacity_bytes) {
            None => Ok(geometry),
            Some(complaint) => Err(refused(complaint)),
        }
    }

    /// Bytes of a device that has room for a table from `offset` on, and `lines` lines.
    pub fn device_bytes(offset: u64, lines: u32, options: &OcfOptions) -> u64 {
        let OcfOptions { version, line_bytes } = *options;
        Self { version, offset, lines, line_bytes, block_bytes: 512 }.end()
    }

    fn complaint_of_sizes(&self) -> Option<String> {
        let Self { offset, line_bytes, block_bytes, .. } = *self;
        if !line_bytes.is_power_of_two() || !(4096..=65536).contains(&line_bytes) {
            return Some(format!(
                "line_bytes of {line_bytes}: give a power of two of 4096 to 65536"
            ));
        }
        if !block_bytes.is_power_of_two() || !(512..=PAGE_BYTES).contains(&block_bytes) {
            return Some(format!(
                "its blocks have {block_bytes} bytes: take a device with 512 to 4096"
            ));
        }
        if !offset.is_multiple_of(u64::from(PAGE_BYTES)) {
            return Some(format!("offset {offset} is no multiple of {PAGE_BYTES}"));
        }
        None
    }

    /// What is wrong with it on a device of `capacity_bytes`, if anything is.
    pub(super) fn complaint(&self, capacity_bytes: u64) -> Option<String> {
        if let Some(complaint) = self.complaint_of_sizes() {
            return Some(complaint);
        }
        let Self { offset, lines, line_bytes, .. } = *self;
        if !(LINES_MIN..=LINES_MAX).contains(&lines) {
            return Some(format!(
                "it has {lines} lines of {line_bytes} bytes: give room for {LINES_MIN} to {LINES_MAX}"
            ));
        }
        (offset > capacity_bytes || self.end() > capacity_bytes).then(|| {
            format!(
                "a table from offset {offset} on and {lines} lines of {line_bytes} bytes end beyond its \
                 {capacity_bytes} bytes"
            )
        })
    }

    /// Bytes for client data.
    pub fn capacity_bytes(&self) -> u64 {
        u64::from(self.lines) * u64::from(self.line_bytes)
    }

    /// Number of pages of the collision table.
    pub fn pages(&self) -> u32 {
        self.lines.div_ceil(self.lines_per_page())
    }

    /// Lines per page of the table.
    pub fn lines_per_page(&self) -> u32 {
        self.lines_per_sector() * (PAGE_BYTES / 512)
    }

    pub(super) fn lines_per_sector(&self) -> u32 {
        let records = (TABLE_SECTOR_BYTES - TRAILER_BYTES) / self.record_bytes();
        u32::try_from(records).expect("at most 50")
    }

    pub(super) fn record_bytes(&self) -> usize {
        self.version.key_bytes() + 2 * self.map_bytes()
    }

    /// Bytes of a bitmap with a bit for each sector of a line.
    pub(super) fn map_bytes(&self) -> usize {
        (self.line_bytes / 4096) as usize
    }

    pub(super) fn line_sectors(&self) -> u32 {
        self.line_bytes / 512
    }

    pub(super) fn page_of(&self, line: u32) -> u32 {
        line / self.lines_per_page()
    }

    /// The offset of a page of the table on the device, in bytes.
    pub(super) fn page_offset(&self, page: u32) -> u64 {
        self.offset + u64::from(page) * u64::from(PAGE_BYTES)
    }

    /// The unit in which the change of a line is written: its page of the table, or its entry of the log.
    pub(super) fn unit_of(&self, line: u32) -> u32 {
        if self.version.has_journal() { line } else { self.page_of(line) }
    }

    fn journal_bytes(&self) -> u64 {
        let table_bytes = u64::from(self.pages()) * u64::from(PAGE_BYTES);
        let bytes = (4 * table_bytes).clamp(*JOURNAL_BYTES.start(), *JOURNAL_BYTES.end());
        if self.version.has_journal() {
            bytes.next_multiple_of(2 * u64::from(PAGE_BYTES))
        } else {
            0
        }
    }

    /// Number of blocks of the log; it is even.
    pub(super) fn journal_blocks(&self) -> u32 {
        u32::try_from(self.journal_bytes() / u64::from(self.block_bytes)).expect("of 64 MiB")
    }

    /// The offset of a block of the log on the device, in bytes: after the table.
    pub(super) fn journal_offset(&self, block: u32) -> u64 {
        self.page_offset(self.pages()) + u64::from(block) * u64::from(self.block_bytes)
    }

    /// The offset of the first line on the device, in bytes.
    pub(super) fn data_offset(&self) -> u64 {
        (self.page_offset(self.pages()) + self.journal_bytes()).next_multiple_of(ALIGN_BYTES)
    }

    /// First sector of a line on the device.
    pub(super) fn sector_of(&self, line: u32) -> u64 {
        debug_assert!(line < self.lines, "line {line} of {}", self.lines);
        self.data_offset() / 512 + u64::from(line) * u64::from(self.line_sectors())
    }

    fn end(&self) -> u64 {
        self.data_offset() + self.capacity_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_lines_as_fit_behind_their_table() {
        for version in OcfVersion::ALL {
            for line_bytes in [4096, 8192, 16384, 32768, 65536] {
                let options = OcfOptions { version, line_bytes };
                for lines in [256, 7618, 30_424] {
                    let bytes = Geometry::device_bytes(4096, lines, &options);
                    let info = DeviceInfo::new("cache", bytes, 512, 1 << 20);
                    assert_eq!(Geometry::new(&info, 4096, &options).unwrap().lines, lines);
                    let info = DeviceInfo::new("cache", bytes - 512, 512, 1 << 20);
                    let fewer = Geometry::new(&info, 4096, &options);
                    assert!(fewer.map_or(0, |geometry| geometry.lines) < lines);
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_field() {
        let info = DeviceInfo::new("cache", 64 << 20, 512, 1 << 20);
        let refused = |offset, line_bytes| {
            let options = OcfOptions { line_bytes, ..OcfOptions::default() };
            Geometry::new(&info, offset, &options).unwrap_err().to_string()
        };
        assert!(refused(0, 2048).contains("line_bytes"));
        assert!(refused(0, 131_072).contains("line_bytes"));
        assert!(refused(512, 4096).contains("offset"));
        assert!(refused((64 << 20) - (256 << 10), 4096).contains("lines"));
        assert!(refused(1 << 40, 4096).contains("lines"));
    }

    /// Bytes of a record as in Open CAS, and the number of records per page if none crosses a sector boundary.
    #[test]
    fn records_of_a_page() {
        let rows = [
            (OcfVersion::V22, 4096, 12, 336),
            (OcfVersion::V22, 8192, 14, 288),
            (OcfVersion::V22, 16384, 18, 224),
            (OcfVersion::V22, 32768, 26, 152),
            (OcfVersion::V22, 65536, 42, 96),
            (OcfVersion::V26, 4096, 10, 400),
            (OcfVersion::V26, 8192, 12, 336),
            (OcfVersion::V26, 16384, 16, 248),
            (OcfVersion::V26, 32768, 24, 168),
            (OcfVersion::V26, 65536, 40, 96),
        ];
        for (version, line_bytes, record_bytes, lines_per_page) in rows {
            let geometry =
                Geometry { version, offset: 0, lines: 1 << 20, line_bytes, block_bytes: 512 };
            assert_eq!(
                (geometry.record_bytes(), geometry.lines_per_page()),
                (record_bytes, lines_per_page)
            );
        }
    }
}
