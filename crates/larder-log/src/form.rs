//! The form of the records of a log: their alignment, and whether they have stamps.

use crate::footer::{self, FooterEntry};
use crate::record::record_bytes;

/// The form of records. All records of a log have the same form.
///
/// ```
/// use larder_log::RecordForm;
///
/// assert_eq!(RecordForm::PLAIN.end(8, 50), 60);
/// assert_eq!(RecordForm::STAMPED.end(1024, 1025), 3072);
/// assert!(RecordForm::STAMPED.object_bytes_max(1 << 20) < RecordForm::PLAIN.object_bytes_max(1 << 20));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordForm {
    /// Records begin at multiples of this, a power of two of at most 4096.
    align_bytes: u32,
    /// Whether each record has a stamp, and the end of each region says how it was filled
    /// ([`Closing`](crate::footer::Closing)).
    stamped: bool,
}

impl RecordForm {
    /// Records begin at multiples of 4 bytes and have no stamps. For an index in memory that knows all records.
    pub const PLAIN: Self = Self { align_bytes: 4, stamped: false };
    /// Records begin at multiples of 1 KiB and have stamps. For an index of which parts lie on flash, each with a stamp
    /// that says which records it knows.
    pub const STAMPED: Self = Self { align_bytes: 1024, stamped: true };

    /// Records begin at multiples of this.
    pub const fn align_bytes(self) -> u32 {
        self.align_bytes
    }

    /// Whether records have stamps.
    pub fn is_stamped(self) -> bool {
        self.stamped
    }

    /// Most bytes of a record apart from key and value.
    pub const fn beside_object_bytes(self) -> usize {
        record_bytes(0, self.stamped, true)
    }

    /// Most bytes that a record with `object_bytes` of key and value takes in a region, up to where the next may begin.
    fn record_bytes_max(self, object_bytes: usize) -> usize {
        record_bytes(object_bytes, self.stamped, true).next_multiple_of(self.align_bytes as usize)
    }

    /// Most bytes that an object takes, with its entry in the footer.
    pub fn bytes_in_region(self, object_bytes: usize) -> usize {
        self.record_bytes_max(object_bytes) + footer::entry_bytes(self)
    }

    /// Most bytes that a record of this length takes at any offset, with its entry in the footer.
    pub fn bytes_of_record(self, length: u32) -> usize {
        (length + self.align_bytes) as usize + footer::entry_bytes(self)
    }

    /// Bytes of a footer that lists this number of records.
    pub fn footer_bytes(self, entries: usize) -> usize {
        footer::footer_bytes(self, entries)
    }

    /// Longest object (key and value) that fits a region of this size.
    pub fn object_bytes_max(self, region_bytes: usize) -> usize {
        let room = region_bytes.saturating_sub(self.footer_bytes(1));
        let aligned = room - room % self.align_bytes as usize;
        aligned.saturating_sub(self.beside_object_bytes())
    }

    /// Where the next record may begin after a record at this offset and of this length.
    pub fn end(self, offset: u32, length: u32) -> usize {
        (offset as usize + length as usize).next_multiple_of(self.align_bytes as usize)
    }

    pub(crate) fn end_of(self, entry: &FooterEntry) -> usize {
        self.end(entry.offset, entry.length)
    }
}
