//! One object of the large-object engine, as it lies in a region. Little-endian. Records begin at
//! multiples of 4 bytes; between them are zeros.
//!
//! ```text
//!  offset  bytes  field
//!       0      4  magic "LREC"
//!       4      2  version of the formats
//!       6      2  key length
//!       8      4  CRC-32C of the cache's identity (6 bytes) and of bytes 12 to the end
//!      12      4  value length (28 bits); bit 28: for flash only; bit 29: the head of a long value;
//!                 bit 30: a part of one; bit 31: there are flags
//!      16      8  sequence number of the region's filling
//!      24      4  offset of this record in its region
//!      28      4  expiry, second of the cache's clock; 0 is never
//!      32      4  flags, if they are not 0
//!       *      *  key, value
//! ```
//!
//! Sequence numbers are never used twice, so a record read from a place that was filled again since
//! fails its check.

#![deny(clippy::indexing_slicing)]

use super::index::UNIT_BYTES;
use crate::cache::Tiers;
use crate::identity::CacheId;
use crate::key::KEY_BYTES_MAX;
use crate::le::{u16_at, u32_at, u64_at};
use crate::value::{ItemRef, Kind};
use larder_device::label::FORMAT_VERSION;

pub(crate) const RECORD_MAGIC: [u8; 4] = *b"LREC";
pub(crate) const RECORD_HEADER_BYTES: usize = 32;
const CHECKED_FROM: usize = 12;
const FLAGS_BYTES: usize = 4;
/// In the value's length.
const HAS_FLAGS: u32 = 1 << 31;
const IS_PART: u32 = 1 << 30;
const IS_HEAD: u32 = 1 << 29;
const FLASH_ONLY: u32 = 1 << 28;
const LENGTH: u32 = FLASH_ONLY - 1;

/// By whom, where and when a record was written: its checksum covers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordIdentity {
    pub(crate) cache: CacheId,
    pub(crate) sequence: u64,
    pub(crate) offset: u32,
}

/// A valid record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// Key and value in one piece.
    pub(crate) body: &'a [u8],
    pub(crate) key_bytes: usize,
    pub(crate) expiry_s: u32,
    pub(crate) flags: u32,
    pub(crate) kind: Kind,
    pub(crate) tiers: Tiers,
    has_flags: bool,
}

impl<'a> Record<'a> {
    pub(crate) fn key(&self) -> &'a [u8] {
        self.body.get(..self.key_bytes).unwrap_or(&[])
    }

    /// Where in the record key and value begin.
    pub(crate) fn body_at(&self) -> usize {
        RECORD_HEADER_BYTES + if self.has_flags { FLAGS_BYTES } else { 0 }
    }

    /// Whether this is the record of `item`.
    pub(crate) fn is(&self, item: &ItemRef<'_>) -> bool {
        self.body.split_at_checked(self.key_bytes) == Some((item.key, item.value))
            && (self.expiry_s, self.flags, self.kind, self.tiers)
                == (item.expiry_s, item.flags, item.kind, item.tiers)
    }
}

/// Most bytes that an object takes in a region, up to where the next record may begin.
pub(crate) fn record_bytes_max(object_bytes: usize) -> usize {
    (RECORD_HEADER_BYTES + FLAGS_BYTES + object_bytes).next_multiple_of(UNIT_BYTES)
}

/// Bytes that `item` takes in a region.
pub(crate) fn record_bytes(item: &ItemRef<'_>) -> usize {
    RECORD_HEADER_BYTES + flags_bytes(item.flags) + item.object_bytes()
}

fn flags_bytes(flags: u32) -> usize {
    if flags == 0 { 0 } else { FLAGS_BYTES }
}

/// Writes a record into `room`, which is exactly as long as the record.
///
/// # Panics
/// If it is not: the caller measured with [`record_bytes`].
pub(crate) fn encode(room: &mut [u8], identity: RecordIdentity, item: &ItemRef<'_>) {
    assert_eq!(room.len(), record_bytes(item));
    assert!(item.key.len() <= KEY_BYTES_MAX);
    let value_bytes = u32::try_from(item.value.len()).expect("lengths are checked at the door");
    let has_flags = if item.flags == 0 { 0 } else { HAS_FLAGS };
    let only = if item.tiers == Tiers::FlashOnly { FLASH_ONLY } else { 0 };
    let value_bytes = value_bytes | has_flags | only | bit_of(item.kind);
    let (front, rest) = room.split_at_mut(CHECKED_FROM);
    let (middle, body) = rest.split_at_mut(RECORD_HEADER_BYTES - CHECKED_FROM);
    put(middle, 0, &value_bytes.to_le_bytes());
    put(middle, 4, &identity.sequence.to_le_bytes());
    put(middle, 12, &identity.offset.to_le_bytes());
    put(middle, 16, &item.expiry_s.to_le_bytes());
    let key_at = flags_bytes(item.flags);
    if item.flags != 0 {
        put(body, 0, &item.flags.to_le_bytes());
    }
    put(body, key_at, item.key);
    put(body, key_at + item.key.len(), item.value);
    let checksum = crc32c::crc32c_append(identity.cache.checksum(middle), body);
    let key_bytes = u16::try_from(item.key.len()).expect("asserted above");
    put(front, 0, &RECORD_MAGIC);
    put(front, 4, &FORMAT_VERSION.to_le_bytes());
    put(front, 6, &key_bytes.to_le_bytes());
    put(front, 8, &checksum.to_le_bytes());
}

fn bit_of(kind: Kind) -> u32 {
    match kind {
        Kind::Whole => 0,
        Kind::Head => IS_HEAD,
        Kind::Part => IS_PART,
    }
}

/// What a value's length says beside it. `None` if it contradicts itself.
fn kind_in(value_bytes: u32) -> Option<Kind> {
    let kinds = [Kind::Whole, Kind::Head, Kind::Part];
    kinds.into_iter().find(|&kind| bit_of(kind) == value_bytes & (IS_HEAD | IS_PART))
}

fn put(room: &mut [u8], at: usize, bytes: &[u8]) {
    let (_, room) = room.split_at_mut(at);
    let (room, _) = room.split_at_mut(bytes.len());
    room.copy_from_slice(bytes);
}

/// Checks that `bytes` begin with the record of this identity. What follows it does not matter.
pub(crate) fn parse_first(bytes: &[u8], identity: RecordIdentity) -> Option<Record<'_>> {
    let key_bytes = usize::from(u16_at(bytes, 6)?);
    let value_bytes = u32_at(bytes, CHECKED_FROM)?;
    let flags_bytes = if value_bytes & HAS_FLAGS == 0 { 0 } else { FLAGS_BYTES };
    let value_bytes = usize::try_from(value_bytes & LENGTH).ok()?;
    let length = (RECORD_HEADER_BYTES + flags_bytes + key_bytes).checked_add(value_bytes)?;
    parse(bytes.get(..length)?, identity)
}

/// Whether `bytes` begin with the header of the record of this identity. What follows is not checked.
pub(crate) fn begins(bytes: &[u8], identity: RecordIdentity) -> bool {
    bytes.get(..4) == Some(&RECORD_MAGIC[..])
        && u64_at(bytes, 16) == Some(identity.sequence)
        && u32_at(bytes, 24) == Some(identity.offset)
}

/// Checks that `bytes` is, from its first to its last byte, the record of this identity.
pub(crate) fn parse(bytes: &[u8], identity: RecordIdentity) -> Option<Record<'_>> {
    let (header, body) = bytes.split_first_chunk::<RECORD_HEADER_BYTES>()?;
    let (magic, fields) = header.split_first_chunk::<4>()?;
    let (version, fields) = fields.split_first_chunk::<2>()?;
    let (key_bytes, fields) = fields.split_first_chunk::<2>()?;
    let (checksum, fields) = fields.split_first_chunk::<4>()?;
    let (value_bytes, fields) = fields.split_first_chunk::<4>()?;
    let (sequence, fields) = fields.split_first_chunk::<8>()?;
    let (offset, fields) = fields.split_first_chunk::<4>()?;
    let expiry_s = u32::from_le_bytes(*fields.first_chunk::<4>()?);
    let key_bytes = usize::from(u16::from_le_bytes(*key_bytes));
    let value_bytes = u32::from_le_bytes(*value_bytes);
    let has_flags = value_bytes & HAS_FLAGS != 0;
    let (kind, only) = (kind_in(value_bytes)?, value_bytes & FLASH_ONLY != 0);
    let (flags, body) = if has_flags {
        let (flags, body) = body.split_first_chunk::<FLAGS_BYTES>()?;
        (u32::from_le_bytes(*flags), body)
    } else {
        (0, body)
    };
    let value_bytes = usize::try_from(value_bytes & LENGTH).ok()?;
    let valid = *magic == RECORD_MAGIC
        && u16::from_le_bytes(*version) == FORMAT_VERSION
        && u64::from_le_bytes(*sequence) == identity.sequence
        && u32::from_le_bytes(*offset) == identity.offset
        && key_bytes > 0
        && key_bytes.checked_add(value_bytes) == Some(body.len())
        && u32::from_le_bytes(*checksum) == identity.cache.checksum(bytes.get(CHECKED_FROM..)?);
    let tiers = Tiers::on_flash(only);
    valid.then_some(Record { body, key_bytes, expiry_s, flags, kind, tiers, has_flags })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyHash;
    use proptest::prelude::*;

    const IDENTITY: RecordIdentity =
        RecordIdentity { cache: CacheId::ZERO, sequence: 77, offset: 4000 };

    fn encoded(key: &[u8], value: &[u8]) -> Vec<u8> {
        let item = ItemRef { flags: 6, ..ItemRef::new(KeyHash::of(key), key, value, 9) };
        let mut bytes = vec![0; record_bytes(&item)];
        encode(&mut bytes, IDENTITY, &item);
        bytes
    }

    #[test]
    fn what_was_encoded_is_parsed() {
        let bytes = encoded(b"key", b"value");
        let record = parse(&bytes, IDENTITY).unwrap();
        assert_eq!(
            (record.key(), record.body, record.expiry_s, record.flags),
            (&b"key"[..], &b"keyvalue"[..], 9, 6)
        );
    }

    #[test]
    fn a_record_says_whether_it_is_whole() {
        for kind in [Kind::Whole, Kind::Head, Kind::Part] {
            let item = ItemRef { kind, ..ItemRef::new(KeyHash::of(b"key"), b"key", b"value", 0) };
            let mut bytes = vec![0; record_bytes(&item)];
            encode(&mut bytes, IDENTITY, &item);
            let record = parse_first(&bytes, IDENTITY).unwrap();
            assert_eq!((record.kind, record.is(&item)), (kind, true));
        }
        assert_eq!(kind_in(IS_HEAD | IS_PART | 5), None);
    }

    #[test]
    fn another_filling_or_place_is_refused() {
        let bytes = encoded(b"key", b"value");
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
        fn no_bit_flip_passes(bit in 0..(RECORD_HEADER_BYTES + FLAGS_BYTES + 8) * 8) {
            let mut bytes = encoded(b"key", b"value");
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
