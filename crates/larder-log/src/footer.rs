//! The list of records at the end of a region, so that reclaim and recovery read kilobytes and not
//! the region. Little-endian.
//!
//! ```text
//!  from the end  bytes  field
//!  36 + 16 n      16 n  entries, in the order of the records:
//!                         8  hash of the key
//!                         4  offset of the record in the region
//!                         4  length of the record
//!            36      4  magic "LFTR"
//!            32      2  version of the formats
//!            30      2  reserved, 0
//!            28      4  CRC-32C of the cache's identity (6 bytes), of what lies before the magic, and of
//!                       the last 24 bytes
//!            24      4  n, number of entries
//!            20      8  sequence number of the region's filling
//!            12      4  region number
//!             8      4  bytes of records at the start of the region
//!             4      4  expiry of the record that expires last, second of the cache's clock; 0 is
//!                       never
//! ```
//!
//! Where records have stamps the magic is "LFTS", and before it lies:
//!
//! ```text
//!  60 + 24 n      24 n  entries: as above, and behind the length
//!                         8  stamp of the record
//!            60      8  horizon: the index on flash knew all records with smaller stamps when this was written
//!            52      4  second of the cache's clock in which the region was closed
//!            48      2  stream that filled it
//!            46     10  reserved, 0
//! ```

#![deny(clippy::indexing_slicing)]

use larder_device::label::FORMAT_VERSION;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::form::RecordForm;
use crate::identity::CacheId;
use crate::record::RECORD_HEADER_BYTES;
use crate::region::{RegionId, RegionIdentity};

/// The first bytes of the part of a footer that follows its entries.
pub const FOOTER_MAGIC: [u8; 4] = *b"LFTR";
/// The same for a footer of records with stamps.
pub const STAMPED_FOOTER_MAGIC: [u8; 4] = *b"LFTS";

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Trailer {
    magic: [u8; 4],
    version: U16,
    reserved: U16,
    checksum: U32,
    checked: CheckedFooter,
}

/// The part of the trailer that the checksum covers.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct CheckedFooter {
    entries: U32,
    sequence: U64,
    region: U32,
    used_bytes: U32,
    latest_expiry_s: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Entry {
    hash: U64,
    offset: U32,
    length: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct StampedEntry {
    entry: Entry,
    stamp: U64,
}

/// A [`Closing`], as it is stored.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct StoredClosing {
    horizon: U64,
    closed_s: U32,
    stream: U16,
    reserved: [u8; 10],
}

/// Bytes of one record's entry in a footer.
pub const ENTRY_BYTES: usize = size_of::<Entry>();
const STAMPED_ENTRY_BYTES: usize = size_of::<StampedEntry>();
const TRAILER_BYTES: usize = size_of::<Trailer>();
const CLOSING_BYTES: usize = size_of::<StoredClosing>();
const _: () = assert!(TRAILER_BYTES == 36 && ENTRY_BYTES == 16);
const _: () = assert!(CLOSING_BYTES == 24 && STAMPED_ENTRY_BYTES == 24);

/// One record of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FooterEntry {
    /// Hash of its key.
    pub hash: u64,
    /// Offset of the record in the region.
    pub offset: u32,
    /// Length of the record.
    pub length: u32,
    /// Stamp of the record; 0 if records have none.
    pub stamp: u64,
}

/// How a region was filled, if records have stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Closing {
    /// The index on flash knew all records with smaller stamps when the region was closed.
    pub horizon: u64,
    /// When the region was closed, second of the cache's clock.
    pub closed_s: u32,
    /// The stream that filled it.
    pub stream: u16,
}

/// The content of a footer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footer {
    /// How the region was filled; `None` if records have no stamps.
    pub closing: Option<Closing>,
    /// Sequence number of the filling.
    pub sequence: u64,
    /// When the last of the records expires, second of the cache's clock; 0 if one of them never does.
    pub latest_expiry_s: u32,
    /// The records, in the order in which they lie.
    pub entries: Vec<FooterEntry>,
}

/// Bytes of the entry of a record of this form.
pub(crate) fn entry_bytes(form: RecordForm) -> usize {
    if form.is_stamped() { STAMPED_ENTRY_BYTES } else { ENTRY_BYTES }
}

/// Bytes of a footer that lists `entries` records of this form.
pub(crate) fn footer_bytes(form: RecordForm, entries: usize) -> usize {
    let closing = if form.is_stamped() { CLOSING_BYTES } else { 0 };
    TRAILER_BYTES + closing + entries * entry_bytes(form)
}

/// What fits a region together with its footer.
impl RecordForm {
    /// Most bytes that an object takes, with its entry in the footer.
    pub fn bytes_in_region(self, object_bytes: usize) -> usize {
        self.record_bytes_max(object_bytes) + entry_bytes(self)
    }

    /// Most bytes that a record of this length takes at any offset, with its entry in the footer.
    pub fn bytes_of_record(self, length: u32) -> usize {
        (length + self.align_bytes()) as usize + entry_bytes(self)
    }

    /// Bytes of a footer that lists this number of records.
    pub fn footer_bytes(self, entries: usize) -> usize {
        footer_bytes(self, entries)
    }

    /// Longest object (key and value) that fits a region of this size.
    pub fn object_bytes_max(self, region_bytes: usize) -> usize {
        let room = region_bytes.saturating_sub(self.footer_bytes(1));
        let aligned = room - room % self.align_bytes() as usize;
        aligned.saturating_sub(self.beside_object_bytes())
    }

    pub(crate) fn end_of(self, entry: &FooterEntry) -> usize {
        self.end(entry.offset, entry.length)
    }
}

/// A footer to write over the end of a region.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewFooter<'a> {
    pub(crate) identity: RegionIdentity,
    pub(crate) entries: &'a [FooterEntry],
    /// Where the records end.
    pub(crate) used_bytes: u32,
    pub(crate) latest_expiry_s: u32,
    /// Present if records have stamps.
    pub(crate) closing: Option<Closing>,
}

impl NewFooter<'_> {
    /// Writes the footer over the last bytes of `tail`, which are the last bytes of the region.
    ///
    /// # Panics
    /// If `tail` is shorter than the footer: the caller must have left room for it.
    pub(crate) fn encode(&self, tail: &mut [u8], cache: CacheId) {
        let Self { identity, entries, used_bytes, latest_expiry_s, closing } = *self;
        let before = self.before_trailer();
        let start = tail.len().checked_sub(before.len() + TRAILER_BYTES).expect("room was left");
        let (_, footer) = tail.split_at_mut(start);
        let (listed, trailer) = footer.split_at_mut(before.len());
        listed.copy_from_slice(&before);
        let count = u32::try_from(entries.len()).expect("a region has fewer than 2^32 records");
        let checked = CheckedFooter {
            entries: count.into(),
            sequence: identity.sequence.into(),
            region: identity.region.number().into(),
            used_bytes: used_bytes.into(),
            latest_expiry_s: latest_expiry_s.into(),
        };
        let checksum = larder_checksum::crc32c_append(cache.checksum(listed), checked.as_bytes());
        let magic = if closing.is_some() { STAMPED_FOOTER_MAGIC } else { FOOTER_MAGIC };
        let (version, reserved) = (FORMAT_VERSION.into(), 0.into());
        let last = Trailer { magic, version, reserved, checksum: checksum.into(), checked };
        trailer.copy_from_slice(last.as_bytes());
    }

    /// The entries, and the fields between them and the trailer.
    fn before_trailer(&self) -> Vec<u8> {
        let mut bytes =
            Vec::with_capacity(self.entries.len() * STAMPED_ENTRY_BYTES + CLOSING_BYTES);
        for entry in self.entries {
            let FooterEntry { hash, offset, length, stamp } = *entry;
            let entry = Entry { hash: hash.into(), offset: offset.into(), length: length.into() };
            bytes.extend_from_slice(entry.as_bytes());
            if self.closing.is_some() {
                bytes.extend_from_slice(&stamp.to_le_bytes());
            }
        }
        if let Some(Closing { horizon, closed_s, stream }) = self.closing {
            let stored = StoredClosing {
                horizon: horizon.into(),
                closed_s: closed_s.into(),
                stream: stream.into(),
                reserved: [0; 10],
            };
            bytes.extend_from_slice(stored.as_bytes());
        }
        bytes
    }
}

/// Reads the length of a footer from the last bytes of a region, without checking the footer itself. `None` if there is
/// no footer of a log whose records have this form.
pub fn announced_bytes(tail: &[u8], form: RecordForm, region_bytes: usize) -> Option<usize> {
    let (_, trailer) = Trailer::ref_from_suffix(tail).ok()?;
    let count = usize::try_from(trailer.checked.entries.get()).ok()?;
    let announced = count.checked_mul(entry_bytes(form))?.checked_add(footer_bytes(form, 0))?;
    let magic = if form.is_stamped() { STAMPED_FOOTER_MAGIC } else { FOOTER_MAGIC };
    let plausible = trailer.magic == magic
        && trailer.version.get() == FORMAT_VERSION
        && trailer.reserved.get() == 0
        && announced <= region_bytes;
    plausible.then_some(announced)
}

/// Checks a footer of any filling of the region. The footer ends with the last byte of `tail`.
pub fn parse(
    tail: &[u8],
    (cache, form): (CacheId, RecordForm),
    region: RegionId,
    region_bytes: usize,
) -> Option<Footer> {
    let announced = announced_bytes(tail, form, region_bytes)?;
    let footer = tail.get(tail.len().checked_sub(announced)?..)?;
    let (before, trailer) = Trailer::ref_from_suffix(footer).ok()?;
    let checked = &trailer.checked;
    let checksum = larder_checksum::crc32c_append(cache.checksum(before), checked.as_bytes());
    if checksum != trailer.checksum.get() || checked.region.get() != region.number() {
        return None;
    }
    let used_bytes = u64::from(checked.used_bytes.get());
    let records_end = used_bytes.min((region_bytes - announced) as u64);
    let (closing, entries) = if form.is_stamped() {
        let (listed, closing) = StoredClosing::ref_from_suffix(before).ok()?;
        let listed = <[StampedEntry]>::ref_from_bytes(listed).ok()?;
        let parse = |it: &StampedEntry| parse_entry(&it.entry, it.stamp.get(), form, records_end);
        (Some(parse_closing(closing)?), listed.iter().map(parse).collect::<Option<Vec<_>>>()?)
    } else {
        let listed = <[Entry]>::ref_from_bytes(before).ok()?;
        let parse = |entry| parse_entry(entry, 0, form, records_end);
        (None, listed.iter().map(parse).collect::<Option<Vec<_>>>()?)
    };
    let (sequence, latest_expiry_s) = (checked.sequence.get(), checked.latest_expiry_s.get());
    Some(Footer { closing, sequence, latest_expiry_s, entries })
}

fn parse_closing(stored: &StoredClosing) -> Option<Closing> {
    let closing = Closing {
        horizon: stored.horizon.get(),
        closed_s: stored.closed_s.get(),
        stream: stored.stream.get(),
    };
    (stored.reserved == [0; 10]).then_some(closing)
}

fn parse_entry(
    entry: &Entry,
    stamp: u64,
    form: RecordForm,
    records_end: u64,
) -> Option<FooterEntry> {
    let (hash, offset, length) = (entry.hash.get(), entry.offset.get(), entry.length.get());
    let inside = length as usize > RECORD_HEADER_BYTES
        && offset.is_multiple_of(form.align_bytes())
        && u64::from(offset) + u64::from(length) <= records_end;
    inside.then_some(FooterEntry { hash, offset, length, stamp })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REGION: RegionId = RegionId::new(3);
    const IDENTITY: RegionIdentity = RegionIdentity { region: REGION, sequence: 99 };

    fn entries(count: u32) -> Vec<FooterEntry> {
        let entry = |i| FooterEntry { hash: u64::from(i), offset: i * 52, length: 50, stamp: 0 };
        (0..count).map(entry).collect()
    }

    const PLAIN: (CacheId, RecordForm) = (CacheId::ZERO, RecordForm::PLAIN);

    fn region(count: u32) -> Vec<u8> {
        let mut bytes = vec![0; 8192];
        let new = NewFooter {
            identity: IDENTITY,
            entries: &entries(count),
            used_bytes: count * 52,
            latest_expiry_s: 777,
            closing: None,
        };
        new.encode(&mut bytes, CacheId::ZERO);
        bytes
    }

    fn bytes_of(entries: usize) -> usize {
        footer_bytes(RecordForm::PLAIN, entries)
    }

    /// The footer that [`region`] holds.
    fn footer(count: u32) -> Option<Footer> {
        let sequence = IDENTITY.sequence;
        Some(Footer { closing: None, sequence, latest_expiry_s: 777, entries: entries(count) })
    }

    #[test]
    fn what_was_encoded_is_parsed_from_any_tail_that_holds_it() {
        let bytes = region(20);
        assert_eq!(announced_bytes(&bytes, RecordForm::PLAIN, 8192), Some(bytes_of(20)));
        for tail in [8192, 4096, bytes_of(20)] {
            let tail = bytes.get(8192 - tail..).unwrap();
            assert_eq!(parse(tail, PLAIN, REGION, 8192), footer(20));
        }
        assert_eq!(parse(bytes.get(8192 - 100..).unwrap(), PLAIN, REGION, 8192), None);
        assert_eq!(parse(&region(0), PLAIN, REGION, 8192), footer(0));
    }

    /// Every byte, as docs/formats.md shows it.
    #[test]
    fn a_footer_is_what_it_was_in_version_9() {
        let identity = RegionIdentity { region: REGION, sequence: 0x0102_0304_0506_0708 };
        let entries = [
            FooterEntry { hash: 0x1111_2222_3333_4444, offset: 0, length: 50, stamp: 0 },
            FooterEntry { hash: 7, offset: 52, length: 60, stamp: 0 },
        ];
        let mut bytes = vec![0; bytes_of(2)];
        let (entries, cache) = (&entries, CacheId::from_number(0x1122_3344_5566));
        let (used_bytes, latest_expiry_s) = (112, 777);
        NewFooter { identity, entries, used_bytes, latest_expiry_s, closing: None }
            .encode(&mut bytes, cache);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "444433332222111100000000320000000700000000000000340000003c0000004c465452090000008cd6abfd\
             020000000807060504030201030000007000000009030000"
        );
    }

    const CLOSING: Closing =
        Closing { horizon: 0x2122_2324_2526_2728, closed_s: 0x3132_3334, stream: 32 };
    const STAMPED: (CacheId, RecordForm) = (CacheId::ZERO, RecordForm::STAMPED);

    fn stamped() -> (Vec<u8>, Footer) {
        let entry = |i: u32| FooterEntry {
            hash: u64::from(i) << 40,
            offset: i * 2048,
            length: 1500,
            stamp: 7 + u64::from(i),
        };
        let entries: Vec<FooterEntry> = (0..2).map(entry).collect();
        let mut bytes = vec![0; 8192];
        let (used_bytes, latest_expiry_s, closing) = (4096, 777, Some(CLOSING));
        NewFooter { identity: IDENTITY, entries: &entries, used_bytes, latest_expiry_s, closing }
            .encode(&mut bytes, CacheId::ZERO);
        (bytes, Footer { closing, sequence: IDENTITY.sequence, latest_expiry_s, entries })
    }

    #[test]
    fn a_stamped_footer_is_of_a_stamped_log() {
        let (bytes, footer) = stamped();
        assert_eq!(parse(&bytes, STAMPED, REGION, 8192), Some(footer));
        assert_eq!(parse(&bytes, PLAIN, REGION, 8192), None);
        assert_eq!(parse(&region(2), STAMPED, REGION, 8192), None);
        let at = 8192 - footer_bytes(RecordForm::STAMPED, 2);
        let hex: String =
            bytes.get(at..).unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "000000000000000000000000dc0500000700000000000000\
             000000000001000000080000dc0500000800000000000000\
             28272625242322213433323120000000000000000000000\
             04c46545309000000d9d3be6b020000006300000000000000030000000010000009030000",
            "each byte, as docs/formats.md draws it"
        );
    }

    #[test]
    fn another_region_or_cache_is_refused() {
        assert!(parse(&region(5), PLAIN, RegionId::new(4), 8192).is_none());
        assert!(
            parse(&region(5), (CacheId::from_number(1), RecordForm::PLAIN), REGION, 8192).is_none()
        );
    }

    proptest! {
        #[test]
        fn no_bit_flip_of_a_stamped_one_passes(bit in 0..footer_bytes(RecordForm::STAMPED, 2) * 8) {
            let (mut bytes, _) = stamped();
            let at = 8192 - footer_bytes(RecordForm::STAMPED, 2) + bit / 8;
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << (bit % 8);
            }
            prop_assert!(parse(&bytes, STAMPED, REGION, 8192).is_none());
        }

        #[test]
        fn no_bit_flip_passes(bit in 0..bytes_of(5) * 8) {
            let mut bytes = region(5);
            let at = 8192 - bytes_of(5) + bit / 8;
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << (bit % 8);
            }
            prop_assert!(parse(&bytes, PLAIN, REGION, 8192).is_none());
        }

        #[test]
        fn arbitrary_bytes_never_panic(mut tail in prop::collection::vec(any::<u8>(), 36..300)) {
            let at = tail.len() - TRAILER_BYTES;
            if let Some(head) = tail.get_mut(at..at + 8) {
                let version = FORMAT_VERSION.to_le_bytes();
                head.copy_from_slice(&[&b"LFTR"[..], &version, &[0, 0]].concat());
            }
            let announced = announced_bytes(&tail, RecordForm::PLAIN, 4096);
            prop_assert!(announced.is_none_or(|bytes| bytes <= 4096));
            prop_assert!(parse(&tail, PLAIN, REGION, 4096).is_none());
        }
    }
}
