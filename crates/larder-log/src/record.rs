//! One record, as it lies in a region. Little-endian. Records begin at multiples of 4 bytes, or 1 KiB if they have
//! stamps; between them are zeros.
//!
//! ```text
//!  offset  bytes  field
//!       0      4  magic "LREC"; with a stamp "LRST"
//!       4      2  version of the formats
//!       6      2  key length
//!       8      4  CRC-32C of the cache's identity (6 bytes) and of bytes 12 to the end
//!      12      4  value length (28 bits); bits 28 to 30: marks of the engine; bit 31: there are flags
//!      16      8  sequence number of the region's filling
//!      24      4  offset of this record in its region
//!      28      4  expiry, second of the cache's clock; 0 is never
//!      32      8  stamp, if it has one
//!              4  flags, if there are any
//!              k  key
//!              v  value
//! ```
//!
//! Sequence numbers are never used twice, so a record read from a place that was filled again since
//! fails its check.

#![deny(clippy::indexing_slicing)]

use larder_device::label::FORMAT_VERSION;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::identity::CacheId;

/// The first bytes of a record.
pub const RECORD_MAGIC: [u8; 4] = *b"LREC";
/// The first bytes of a record with a stamp.
pub const STAMPED_MAGIC: [u8; 4] = *b"LRST";
/// Bytes of a record without stamp, flags, key and value.
pub const RECORD_HEADER_BYTES: usize = size_of::<Header>();
/// Marks are below this value.
pub const MARKS_END: u8 = 1 << MARKS_BITS;

const FLAGS_BYTES: usize = 4;
const STAMP_BYTES: usize = 8;
const MARKS_BITS: u32 = 3;
const MARKS_AT: u32 = 28;
/// A bit in the field of the value's length.
const HAS_FLAGS: u32 = 1 << (MARKS_AT + MARKS_BITS);
const LENGTH: u32 = (1 << MARKS_AT) - 1;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Header {
    magic: [u8; 4],
    version: U16,
    key_bytes: U16,
    checksum: U32,
    checked: CheckedHeader,
}

/// The part of the header that the checksum covers.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct CheckedHeader {
    value_bytes: U32,
    sequence: U64,
    offset: U32,
    expiry_s: U32,
}

const _: () = assert!(RECORD_HEADER_BYTES == 32 && size_of::<CheckedHeader>() == 20);
const _: () = assert!(HAS_FLAGS == 1 << 31, "length, marks and this fill the field");

/// The cache, filling and place that a record was written for: its checksum covers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordIdentity {
    /// The cache that wrote it.
    pub cache: CacheId,
    /// Sequence number of the filling.
    pub sequence: u64,
    /// Offset in the region.
    pub offset: u32,
}

/// A record to write.
#[derive(Debug, Clone, Copy)]
pub struct NewRecord<'a> {
    /// The key's hash, for the footer.
    pub hash: u64,
    /// 1 to 65,535 bytes.
    pub key: &'a [u8],
    /// Less than 256 MiB.
    pub value: &'a [u8],
    /// Second of the cache's clock at which it expires; 0 is never.
    pub expiry_s: u32,
    /// The flags that the user set; 0 takes no room.
    pub flags: u32,
    /// The marks that the engine set, below [`MARKS_END`].
    pub marks: u8,
    /// When the record was appended, in the engine's own count; present if records have stamps
    /// ([`RecordForm::STAMPED`](crate::RecordForm::STAMPED)).
    pub stamp: Option<u64>,
}

/// A valid record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Key and value in one piece.
    pub body: &'a [u8],
    /// Length of the key.
    pub key_bytes: usize,
    /// Second of the cache's clock at which it expires; 0 is never.
    pub expiry_s: u32,
    /// The flags that the user set.
    pub flags: u32,
    /// The marks that the engine set.
    pub marks: u8,
    /// When the record was appended, in the engine's own count.
    pub stamp: Option<u64>,
    has_flags: bool,
}

impl<'a> Record<'a> {
    /// Its key.
    pub fn key(&self) -> &'a [u8] {
        self.body.get(..self.key_bytes).unwrap_or(&[])
    }

    /// Where key and value begin in the record.
    pub fn body_at(&self) -> usize {
        record_bytes(0, self.stamp.is_some(), self.has_flags)
    }

    /// Whether this record has the content of `new`; the stamp does not matter.
    pub fn is(&self, new: &NewRecord<'_>) -> bool {
        self.body.split_at_checked(self.key_bytes) == Some((new.key, new.value))
            && (self.expiry_s, self.flags, self.marks) == (new.expiry_s, new.flags, new.marks)
    }
}

/// Bytes of a record with `object_bytes` of key and value.
pub(crate) const fn record_bytes(object_bytes: usize, is_stamped: bool, has_flags: bool) -> usize {
    let stamp_bytes = if is_stamped { STAMP_BYTES } else { 0 };
    let flags_bytes = if has_flags { FLAGS_BYTES } else { 0 };
    RECORD_HEADER_BYTES + stamp_bytes + flags_bytes + object_bytes
}

impl NewRecord<'_> {
    /// Bytes of key and value.
    pub fn object_bytes(&self) -> usize {
        self.key.len() + self.value.len()
    }

    /// Bytes of the record.
    pub fn record_bytes(&self) -> usize {
        record_bytes(self.object_bytes(), self.stamp.is_some(), self.flags != 0)
    }

    /// Passes the bytes of the record, one part after another, to `put`.
    ///
    /// # Panics
    /// If a length or the marks do not fit their fields: engines check them where they come in.
    pub(crate) fn encode(&self, identity: RecordIdentity, mut put: impl FnMut(&[u8])) {
        let value_bytes = u32::try_from(self.value.len()).expect("checked where it came in");
        assert!(value_bytes <= LENGTH && self.marks < MARKS_END && !self.key.is_empty());
        let has_flags = if self.flags == 0 { 0 } else { HAS_FLAGS };
        let checked = CheckedHeader {
            value_bytes: (value_bytes | u32::from(self.marks) << MARKS_AT | has_flags).into(),
            sequence: identity.sequence.into(),
            offset: identity.offset.into(),
            expiry_s: self.expiry_s.into(),
        };
        let flags = self.flags.to_le_bytes();
        let flags: &[u8] = if self.flags == 0 { &[] } else { &flags };
        let stamp = self.stamp.map(u64::to_le_bytes);
        let stamp: &[u8] = stamp.as_ref().map_or(&[], |stamp| stamp);
        let body = [stamp, flags, self.key, self.value];
        let first = identity.cache.checksum(checked.as_bytes());
        let checksum =
            body.iter().fold(first, |sum, part| larder_checksum::crc32c_append(sum, part));
        let header = Header {
            magic: if self.stamp.is_some() { STAMPED_MAGIC } else { RECORD_MAGIC },
            version: FORMAT_VERSION.into(),
            key_bytes: u16::try_from(self.key.len()).expect("checked where it came in").into(),
            checksum: checksum.into(),
            checked,
        };
        put(header.as_bytes());
        body.into_iter().for_each(put);
    }

    /// All bytes of the record.
    pub fn to_vec(&self, identity: RecordIdentity) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.record_bytes());
        self.encode(identity, |part| bytes.extend_from_slice(part));
        debug_assert_eq!(bytes.len(), self.record_bytes());
        bytes
    }
}

/// Checks that `bytes` begin with the record of this identity. The bytes after the record do not matter.
pub fn parse_first(bytes: &[u8], identity: RecordIdentity) -> Option<Record<'_>> {
    let (header, _) = Header::ref_from_prefix(bytes).ok()?;
    let value_bytes = header.checked.value_bytes.get();
    let has_flags = value_bytes & HAS_FLAGS != 0;
    let value_bytes = usize::try_from(value_bytes & LENGTH).ok()?;
    let key_bytes = usize::from(header.key_bytes.get());
    let before_value = record_bytes(key_bytes, header.magic == STAMPED_MAGIC, has_flags);
    let length = before_value.checked_add(value_bytes)?;
    parse(bytes.get(..length)?, identity)
}

/// Checks that `bytes`, from the start of a region, begin with a record of this cache, of any filling.
pub(crate) fn parse_first_of_any(bytes: &[u8], cache: CacheId) -> Option<Record<'_>> {
    let (header, _) = Header::ref_from_prefix(bytes).ok()?;
    let sequence = header.checked.sequence.get();
    parse_first(bytes, RecordIdentity { cache, sequence, offset: 0 })
}

/// Whether `bytes` begin with the header of the record of this identity. The rest of the record is not checked.
pub fn begins(bytes: &[u8], identity: RecordIdentity) -> bool {
    Header::ref_from_prefix(bytes).is_ok_and(|(header, _)| {
        [RECORD_MAGIC, STAMPED_MAGIC].contains(&header.magic)
            && header.checked.sequence.get() == identity.sequence
            && header.checked.offset.get() == identity.offset
    })
}

/// Checks that `bytes` are exactly the record of this identity, from the first byte to the last.
pub fn parse(bytes: &[u8], identity: RecordIdentity) -> Option<Record<'_>> {
    let (header, body) = Header::ref_from_prefix(bytes).ok()?;
    let checked = &header.checked;
    let value_bytes = checked.value_bytes.get();
    let has_flags = value_bytes & HAS_FLAGS != 0;
    let (stamp, body) = match header.magic == STAMPED_MAGIC {
        true => U64::ref_from_prefix(body).ok().map(|(stamp, body)| (Some(stamp.get()), body))?,
        false => (None, body),
    };
    let (flags, body) = match has_flags {
        true => U32::ref_from_prefix(body).ok().map(|(flags, body)| (flags.get(), body))?,
        false => (0, body),
    };
    let marks = u8::try_from(value_bytes >> MARKS_AT & u32::from(MARKS_END - 1)).ok()?;
    let key_bytes = usize::from(header.key_bytes.get());
    let value_bytes = usize::try_from(value_bytes & LENGTH).ok()?;
    let checked_from = RECORD_HEADER_BYTES - size_of::<CheckedHeader>();
    let valid = [RECORD_MAGIC, STAMPED_MAGIC].contains(&header.magic)
        && header.version.get() == FORMAT_VERSION
        && checked.sequence.get() == identity.sequence
        && checked.offset.get() == identity.offset
        && key_bytes > 0
        && key_bytes.checked_add(value_bytes) == Some(body.len())
        && header.checksum.get() == identity.cache.checksum(bytes.get(checked_from..)?);
    let expiry_s = checked.expiry_s.get();
    valid.then_some(Record { body, key_bytes, expiry_s, flags, marks, stamp, has_flags })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const IDENTITY: RecordIdentity =
        RecordIdentity { cache: CacheId::ZERO, sequence: 77, offset: 4000 };

    fn new<'a>(key: &'a [u8], value: &'a [u8]) -> NewRecord<'a> {
        NewRecord { hash: 1, key, value, expiry_s: 9, flags: 6, marks: 0, stamp: None }
    }

    #[test]
    fn what_was_encoded_is_parsed() {
        for marks in 0..MARKS_END {
            let new = NewRecord { marks, ..new(b"key", b"value") };
            let bytes = new.to_vec(IDENTITY);
            let record = parse(&bytes, IDENTITY).unwrap();
            assert_eq!((record.key(), record.body), (&b"key"[..], &b"keyvalue"[..]));
            assert!(record.is(&new) && begins(&bytes, IDENTITY));
            assert!(!record.is(&NewRecord { marks: marks ^ 1, ..new }));
            let stamped = NewRecord { stamp: Some(u64::MAX), ..new };
            let bytes = stamped.to_vec(IDENTITY);
            let record = parse_first(&bytes, IDENTITY).unwrap();
            assert_eq!((record.stamp, record.key()), (Some(u64::MAX), &b"key"[..]));
            assert_eq!(
                (bytes.get(record.body_at()..), bytes.len()),
                (Some(record.body), stamped.record_bytes())
            );
            assert!(record.is(&new) && begins(&bytes, IDENTITY));
        }
    }

    /// Every byte, as docs/formats.md shows it.
    #[test]
    fn a_stamped_record_is_what_it_is_in_version_9() {
        let identity = RecordIdentity {
            cache: CacheId::from_number(0x1122_3344_5566),
            sequence: 0x0102_0304_0506_0708,
            offset: 4096,
        };
        let stamped = NewRecord { stamp: Some(0x1112_1314_1516_1718), ..new(b"key", b"value") };
        let bytes = stamped.to_vec(identity);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "4c52535409000300694c595305000080080706050403020100100000090000001817161514131211060000006b6579\
             76616c7565"
        );
    }

    #[test]
    fn another_filling_or_place_is_refused() {
        let bytes = new(b"key", b"value").to_vec(IDENTITY);
        assert!(parse(&bytes, RecordIdentity { sequence: 78, ..IDENTITY }).is_none());
        assert!(parse(&bytes, RecordIdentity { offset: 0, ..IDENTITY }).is_none());
        let another = CacheId::from_number(1);
        assert!(parse(&bytes, RecordIdentity { cache: another, ..IDENTITY }).is_none());
        assert!(parse(bytes.get(..20).unwrap(), IDENTITY).is_none());
        let followed = [&bytes[..], &bytes[..]].concat();
        assert_eq!(parse_first(&followed, IDENTITY), parse(&bytes, IDENTITY));
        assert!(parse(&followed, IDENTITY).is_none());
        assert!(parse_first(bytes.get(..40).unwrap(), IDENTITY).is_none());
    }

    proptest! {
        #[test]
        fn no_bit_flip_passes(bit in 0..(RECORD_HEADER_BYTES + FLAGS_BYTES + 8) * 8, stamp in any::<Option<u64>>()) {
            let mut bytes = NewRecord { stamp, ..new(b"key", b"value") }.to_vec(IDENTITY);
            if let Some(byte) = bytes.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
            prop_assert!(parse(&bytes, IDENTITY).is_none());
        }

        #[test]
        fn arbitrary_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(parse(&bytes, IDENTITY).is_none());
            prop_assert!(parse_first(&bytes, IDENTITY).is_none());
        }
    }
}
