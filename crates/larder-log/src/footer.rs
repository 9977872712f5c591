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
//!            28      4  CRC-32C of the cache's identity (6 bytes), of the entries and of the last
//!                       24 bytes
//!            24      4  n, number of entries
//!            20      8  sequence number of the region's filling
//!            12      4  region number
//!             8      4  bytes of records at the start of the region
//!             4      4  expiry of the record that expires last, second of the cache's clock; 0 is
//!                       never
//! ```

#![deny(clippy::indexing_slicing)]

use larder_device::label::FORMAT_VERSION;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::identity::CacheId;
use crate::record::{RECORD_ALIGN_BYTES, RECORD_HEADER_BYTES};
use crate::region::{RegionId, RegionIdentity};

/// What the part of a footer behind its entries begins with.
pub const FOOTER_MAGIC: [u8; 4] = *b"LFTR";

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Trailer {
    magic: [u8; 4],
    version: U16,
    reserved: U16,
    checksum: U32,
    checked: Checked,
}

/// What the checksum covers of the trailer.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Checked {
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

/// Bytes of the line of a record in a footer.
pub const ENTRY_BYTES: usize = size_of::<Entry>();
const TRAILER_BYTES: usize = size_of::<Trailer>();
const _: () = assert!(TRAILER_BYTES == 36 && ENTRY_BYTES == 16);

/// One record of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FooterEntry {
    /// Hash of its key.
    pub hash: u64,
    /// Where in the region it begins.
    pub offset: u32,
    /// Its bytes.
    pub length: u32,
}

impl FooterEntry {
    /// Where the next record may begin.
    pub fn end(&self) -> usize {
        (self.offset as usize + self.length as usize).next_multiple_of(RECORD_ALIGN_BYTES)
    }
}

/// What a footer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footer {
    /// Number of the filling.
    pub sequence: u64,
    /// When the last of its records expires, second of the cache's clock; 0 is never.
    pub latest_expiry_s: u32,
    /// Its records, in their order.
    pub entries: Vec<FooterEntry>,
}

/// Bytes of a footer that lists `entries` records.
pub fn footer_bytes(entries: usize) -> usize {
    TRAILER_BYTES + entries * ENTRY_BYTES
}

/// Writes the footer of a region with `used_bytes` of records over the last bytes of `tail`, which are
/// the region's last.
///
/// # Panics
/// If `tail` is shorter than the footer: the caller left room for it.
pub fn encode(
    tail: &mut [u8],
    cache: CacheId,
    identity: RegionIdentity,
    entries: &[FooterEntry],
    (used_bytes, latest_expiry_s): (u32, u32),
) {
    let start = tail.len().checked_sub(footer_bytes(entries.len())).expect("room was left");
    let (_, footer) = tail.split_at_mut(start);
    let (listed, trailer) = footer.split_at_mut(entries.len() * ENTRY_BYTES);
    for (room, entry) in listed.chunks_exact_mut(ENTRY_BYTES).zip(entries) {
        let FooterEntry { hash, offset, length } = *entry;
        let entry = Entry { hash: hash.into(), offset: offset.into(), length: length.into() };
        room.copy_from_slice(entry.as_bytes());
    }
    let count = u32::try_from(entries.len()).expect("a region has fewer than 2^32 records");
    let checked = Checked {
        entries: count.into(),
        sequence: identity.sequence.into(),
        region: identity.region.number().into(),
        used_bytes: used_bytes.into(),
        latest_expiry_s: latest_expiry_s.into(),
    };
    let checksum = crc32c::crc32c_append(cache.checksum(listed), checked.as_bytes());
    let (version, reserved) = (FORMAT_VERSION.into(), 0.into());
    let last =
        Trailer { magic: FOOTER_MAGIC, version, reserved, checksum: checksum.into(), checked };
    trailer.copy_from_slice(last.as_bytes());
}

/// Reads from the last bytes of a region how long its footer is, itself not yet checked. `None` if
/// there is no footer.
pub fn announced_bytes(tail: &[u8], region_bytes: usize) -> Option<usize> {
    let (_, trailer) = Trailer::ref_from_suffix(tail).ok()?;
    let count = usize::try_from(trailer.checked.entries.get()).ok()?;
    let announced = count.checked_mul(ENTRY_BYTES)?.checked_add(TRAILER_BYTES)?;
    let plausible = trailer.magic == FOOTER_MAGIC
        && trailer.version.get() == FORMAT_VERSION
        && trailer.reserved.get() == 0
        && announced <= region_bytes;
    plausible.then_some(announced)
}

/// Checks a footer, which ends with the last byte of `tail`, whichever filling of the region it is of.
pub fn parse(tail: &[u8], cache: CacheId, region: RegionId, region_bytes: usize) -> Option<Footer> {
    let announced = announced_bytes(tail, region_bytes)?;
    let footer = tail.get(tail.len().checked_sub(announced)?..)?;
    let (listed, trailer) = Trailer::ref_from_suffix(footer).ok()?;
    let checked = &trailer.checked;
    let checksum = crc32c::crc32c_append(cache.checksum(listed), checked.as_bytes());
    if checksum != trailer.checksum.get() || checked.region.get() != region.number() {
        return None;
    }
    let used_bytes = u64::from(checked.used_bytes.get());
    let records_end = used_bytes.min((region_bytes - announced) as u64);
    let listed = <[Entry]>::ref_from_bytes(listed).ok()?;
    let entries: Option<Vec<_>> =
        listed.iter().map(|entry| parse_entry(entry, records_end)).collect();
    let (sequence, latest_expiry_s) = (checked.sequence.get(), checked.latest_expiry_s.get());
    Some(Footer { sequence, latest_expiry_s, entries: entries? })
}

fn parse_entry(entry: &Entry, records_end: u64) -> Option<FooterEntry> {
    let (hash, offset, length) = (entry.hash.get(), entry.offset.get(), entry.length.get());
    let inside = length as usize > RECORD_HEADER_BYTES
        && (offset as usize).is_multiple_of(RECORD_ALIGN_BYTES)
        && u64::from(offset) + u64::from(length) <= records_end;
    inside.then_some(FooterEntry { hash, offset, length })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REGION: RegionId = RegionId::new(3);
    const IDENTITY: RegionIdentity = RegionIdentity { region: REGION, sequence: 99 };

    fn entries(count: u32) -> Vec<FooterEntry> {
        (0..count).map(|i| FooterEntry { hash: u64::from(i), offset: i * 52, length: 50 }).collect()
    }

    fn region(count: u32) -> Vec<u8> {
        let mut bytes = vec![0; 8192];
        encode(&mut bytes, CacheId::ZERO, IDENTITY, &entries(count), (count * 52, 777));
        bytes
    }

    /// What [`region`] holds.
    fn footer(count: u32) -> Option<Footer> {
        let sequence = IDENTITY.sequence;
        Some(Footer { sequence, latest_expiry_s: 777, entries: entries(count) })
    }

    #[test]
    fn what_was_encoded_is_parsed_from_any_tail_that_holds_it() {
        let bytes = region(20);
        assert_eq!(announced_bytes(&bytes, 8192), Some(footer_bytes(20)));
        for tail in [8192, 4096, footer_bytes(20)] {
            let tail = bytes.get(8192 - tail..).unwrap();
            assert_eq!(parse(tail, CacheId::ZERO, REGION, 8192), footer(20));
        }
        assert_eq!(parse(bytes.get(8192 - 100..).unwrap(), CacheId::ZERO, REGION, 8192), None);
        assert_eq!(parse(&region(0), CacheId::ZERO, REGION, 8192), footer(0));
    }

    /// Each byte, as docs/formats.md draws it.
    #[test]
    fn a_footer_is_what_it_was_in_version_9() {
        let identity = RegionIdentity { region: REGION, sequence: 0x0102_0304_0506_0708 };
        let entries = [
            FooterEntry { hash: 0x1111_2222_3333_4444, offset: 0, length: 50 },
            FooterEntry { hash: 7, offset: 52, length: 60 },
        ];
        let mut bytes = vec![0; footer_bytes(2)];
        encode(&mut bytes, CacheId::from_number(0x1122_3344_5566), identity, &entries, (112, 777));
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "444433332222111100000000320000000700000000000000340000003c0000004c465452090000008cd6abfd\
             020000000807060504030201030000007000000009030000"
        );
    }

    #[test]
    fn another_region_or_cache_is_refused() {
        assert!(parse(&region(5), CacheId::ZERO, RegionId::new(4), 8192).is_none());
        assert!(parse(&region(5), CacheId::from_number(1), REGION, 8192).is_none());
    }

    proptest! {
        #[test]
        fn no_bit_flip_passes(bit in 0..footer_bytes(5) * 8) {
            let mut bytes = region(5);
            let at = 8192 - footer_bytes(5) + bit / 8;
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << (bit % 8);
            }
            prop_assert!(parse(&bytes, CacheId::ZERO, REGION, 8192).is_none());
        }

        #[test]
        fn arbitrary_bytes_never_panic(mut tail in prop::collection::vec(any::<u8>(), 36..300)) {
            let at = tail.len() - TRAILER_BYTES;
            if let Some(head) = tail.get_mut(at..at + 8) {
                let version = FORMAT_VERSION.to_le_bytes();
                head.copy_from_slice(&[&b"LFTR"[..], &version, &[0, 0]].concat());
            }
            let announced = announced_bytes(&tail, 4096);
            prop_assert!(announced.is_none_or(|bytes| bytes <= 4096));
            prop_assert!(parse(&tail, CacheId::ZERO, REGION, 4096).is_none());
        }
    }
}
