//! A small object as a record in a page with others. Pages of the log in front of buckets and pages of sets have
//! records of this form, one after the other, without gaps. Little-endian.
//!
//! ```text
//!  record   2  key length, at least 1
//!           2  value length (14 bits); bit 14: for flash only; the top bit: there are flags
//!           4  expiry, second of the cache's clock; 0 is never
//!           4  flags, if they are not 0
//!           *  key, value
//! ```

#![deny(clippy::indexing_slicing)]

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::base::item::ItemRef;
use crate::base::tier::Tiers;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RecordHeader {
    key_bytes: U16,
    value_bytes: U16,
    expiry_s: U32,
}
const HEADER_BYTES: usize = size_of::<RecordHeader>();
const _: () = assert!(HEADER_BYTES == 8);

const FLAGS_BYTES: usize = size_of::<U32>();
/// Bit in the value length.
const HAS_FLAGS: u16 = 1 << 15;
/// Bit in the value length.
const FLASH_ONLY: u16 = 1 << 14;
const LENGTH: u16 = FLASH_ONLY - 1;

/// Most bytes of a record apart from key and value.
pub(crate) const BESIDE_OBJECT_BYTES: usize = HEADER_BYTES + FLAGS_BYTES;

/// One object in a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SmallRecord<'a> {
    /// Offset of the key in the page; the value follows it.
    pub(crate) at: usize,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    pub(crate) expiry_s: u32,
    pub(crate) flags: u32,
    pub(crate) tiers: Tiers,
}

/// Bytes of a page that a record of `item` takes.
pub(crate) fn record_bytes(item: &ItemRef<'_>) -> usize {
    let flags = if item.flags == 0 { 0 } else { FLAGS_BYTES };
    HEADER_BYTES + flags + item.object_bytes()
}

/// Writes the record of `item` to the start of `room`. `None` if there is too little room, or if a length does not fit
/// its field.
pub(crate) fn put(mut room: &mut [u8], item: &ItemRef<'_>) -> Option<()> {
    let key_bytes = u16::try_from(item.key.len()).ok()?;
    let value_bytes = u16::try_from(item.value.len()).ok().filter(|&bytes| bytes <= LENGTH)?;
    let only = if item.tiers == Tiers::FlashOnly { FLASH_ONLY } else { 0 };
    let (marked, flags) = (item.flags != 0, U32::new(item.flags));
    let record = RecordHeader {
        key_bytes: key_bytes.into(),
        value_bytes: (value_bytes | only | if marked { HAS_FLAGS } else { 0 }).into(),
        expiry_s: item.expiry_s.into(),
    };
    let flags = if marked { flags.as_bytes() } else { &[] };
    for part in [record.as_bytes(), flags, item.key, item.value] {
        let (front, rest) = room.split_at_mut_checked(part.len())?;
        front.copy_from_slice(part);
        room = rest;
    }
    Some(())
}

/// The records in `page` from offset `at` to `end`; the first that is not whole ends them.
pub(crate) fn records(page: &[u8], at: usize, end: usize) -> SmallRecords<'_> {
    SmallRecords { page, at, end }
}

/// Iterates over the records of a page.
pub(crate) struct SmallRecords<'a> {
    page: &'a [u8],
    at: usize,
    end: usize,
}

impl SmallRecords<'_> {
    /// Whether all bytes were records.
    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.end
    }
}

impl<'a> Iterator for SmallRecords<'a> {
    type Item = SmallRecord<'a>;

    fn next(&mut self) -> Option<SmallRecord<'a>> {
        let bytes = self.page.get(self.at..self.end)?;
        let (header, rest) = RecordHeader::ref_from_prefix(bytes).ok()?;
        let (value_bytes, expiry_s) = (header.value_bytes.get(), header.expiry_s.get());
        let (flags, rest) = match value_bytes & HAS_FLAGS {
            0 => (0, rest),
            _ => {
                let (flags, rest) = U32::ref_from_prefix(rest).ok()?;
                (flags.get(), rest)
            }
        };
        let header_bytes = bytes.len() - rest.len();
        let (key, rest) = rest.split_at_checked(usize::from(header.key_bytes.get()))?;
        let value = rest.get(..usize::from(value_bytes & LENGTH))?;
        // Written keys are not empty, and written flags are not 0: the record's length depends on it.
        if key.is_empty() || (value_bytes & HAS_FLAGS != 0 && flags == 0) {
            return None;
        }
        let at = self.at + header_bytes;
        self.at = at + key.len() + value.len();
        let tiers = Tiers::on_flash(value_bytes & FLASH_ONLY != 0);
        Some(SmallRecord { at, key, value, expiry_s, flags, tiers })
    }
}
