//! The form of the records of a log: their alignment, and whether they have stamps.

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
    pub(crate) fn record_bytes_max(self, object_bytes: usize) -> usize {
        record_bytes(object_bytes, self.stamped, true).next_multiple_of(self.align_bytes as usize)
    }

    /// Where the next record may begin after a record at this offset and of this length.
    pub fn end(self, offset: u32, length: u32) -> usize {
        (offset as usize + length as usize).next_multiple_of(self.align_bytes as usize)
    }
}
