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

use super::index::UNIT_BYTES;
use super::record::RECORD_HEADER_BYTES;
use crate::identity::CacheId;
use larder_device::label::FORMAT_VERSION;

pub(crate) const FOOTER_MAGIC: [u8; 4] = *b"LFTR";
const TRAILER_BYTES: usize = 36;
const TRAILER_CHECKED_FROM: usize = 12;
const ENTRY_BYTES: usize = 16;

/// One record of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FooterEntry {
    pub(crate) hash: u64,
    pub(crate) offset: u32,
    pub(crate) length: u32,
}

/// Which filling of which region a footer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RegionIdentity {
    pub(crate) region: u32,
    pub(crate) sequence: u64,
}

/// What a footer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) sequence: u64,
    /// 0 is never.
    pub(crate) latest_expiry_s: u32,
    pub(crate) entries: Vec<FooterEntry>,
}

/// The later of two expiries, of which 0 is never; `None` is no record yet.
pub(crate) fn later_expiry(latest: Option<u32>, expiry_s: u32) -> Option<u32> {
    match latest {
        Some(0) => Some(0),
        Some(latest) if expiry_s > 0 => Some(latest.max(expiry_s)),
        _ => Some(expiry_s),
    }
}

/// Bytes of a footer that lists `entries` records.
pub(crate) fn footer_bytes(entries: usize) -> usize {
    TRAILER_BYTES + entries * ENTRY_BYTES
}

/// Writes the footer of a region over the region's last bytes.
///
/// # Panics
/// If records and footer overlap: the caller left room for it.
pub(crate) fn encode(
    region_bytes: &mut [u8],
    cache: CacheId,
    identity: RegionIdentity,
    entries: &[FooterEntry],
    used_bytes: u32,
    latest_expiry_s: u32,
) {
    let start = region_bytes.len().checked_sub(footer_bytes(entries.len()));
    let start = start.filter(|&start| start >= used_bytes as usize).expect("room was left");
    let (_, footer) = region_bytes.split_at_mut(start);
    let (listed, trailer) = footer.split_at_mut(entries.len() * ENTRY_BYTES);
    for (room, entry) in listed.chunks_exact_mut(ENTRY_BYTES).zip(entries) {
        let (hash, place) = room.split_at_mut(8);
        let (offset, length) = place.split_at_mut(4);
        hash.copy_from_slice(&entry.hash.to_le_bytes());
        offset.copy_from_slice(&entry.offset.to_le_bytes());
        length.copy_from_slice(&entry.length.to_le_bytes());
    }
    let count = u32::try_from(entries.len()).expect("a region has fewer than 2^32 records");
    let mut checked = Vec::with_capacity(TRAILER_BYTES - TRAILER_CHECKED_FROM);
    checked.extend_from_slice(&count.to_le_bytes());
    checked.extend_from_slice(&identity.sequence.to_le_bytes());
    checked.extend_from_slice(&identity.region.to_le_bytes());
    checked.extend_from_slice(&used_bytes.to_le_bytes());
    checked.extend_from_slice(&latest_expiry_s.to_le_bytes());
    let checksum = crc32c::crc32c_append(cache.checksum(listed), &checked);
    let fields = [
        &FOOTER_MAGIC[..],
        &FORMAT_VERSION.to_le_bytes(),
        &[0, 0],
        &checksum.to_le_bytes(),
        &checked,
    ];
    trailer.copy_from_slice(&fields.concat());
}

/// Reads from the last bytes of a region how long its footer is, itself not yet checked. `None` if
/// there is no footer.
pub(crate) fn announced_bytes(tail: &[u8], region_bytes: usize) -> Option<usize> {
    let trailer = tail.last_chunk::<TRAILER_BYTES>()?;
    let (head, checked) = trailer.split_first_chunk::<TRAILER_CHECKED_FROM>()?;
    let (magic, rest) = head.split_first_chunk::<4>()?;
    let (version, rest) = rest.split_first_chunk::<2>()?;
    let reserved = rest.first_chunk::<2>()?;
    let count = usize::try_from(u32::from_le_bytes(*checked.first_chunk()?)).ok()?;
    let announced = count.checked_mul(ENTRY_BYTES)?.checked_add(TRAILER_BYTES)?;
    let plausible = *magic == FOOTER_MAGIC
        && u16::from_le_bytes(*version) == FORMAT_VERSION
        && *reserved == [0, 0]
        && announced <= region_bytes;
    plausible.then_some(announced)
}

/// Checks a footer, which ends with the last byte of `tail`, whichever filling of the region it is of.
pub(crate) fn parse(
    tail: &[u8],
    cache: CacheId,
    region_number: u32,
    region_bytes: usize,
) -> Option<Footer> {
    let announced = announced_bytes(tail, region_bytes)?;
    let footer = tail.get(tail.len().checked_sub(announced)?..)?;
    let (listed, trailer) = footer.split_last_chunk::<TRAILER_BYTES>()?;
    let checksum = u32::from_le_bytes(*trailer.get(8..)?.first_chunk()?);
    let (_, checked) = trailer.split_first_chunk::<TRAILER_CHECKED_FROM>()?;
    if crc32c::crc32c_append(cache.checksum(listed), checked) != checksum {
        return None;
    }
    let sequence = u64::from_le_bytes(*checked.get(4..)?.first_chunk()?);
    let region = u32::from_le_bytes(*checked.get(12..)?.first_chunk()?);
    let used = u32::from_le_bytes(*checked.get(16..)?.first_chunk()?);
    let latest_expiry_s = u32::from_le_bytes(*checked.get(20..)?.first_chunk()?);
    if region != region_number {
        return None;
    }
    let records_end = u64::from(used).min((region_bytes - announced) as u64);
    let entries: Option<Vec<_>> =
        listed.chunks_exact(ENTRY_BYTES).map(|bytes| parse_entry(bytes, records_end)).collect();
    Some(Footer { sequence, latest_expiry_s, entries: entries? })
}

fn parse_entry(bytes: &[u8], records_end: u64) -> Option<FooterEntry> {
    let hash = u64::from_le_bytes(*bytes.first_chunk()?);
    let offset = u32::from_le_bytes(*bytes.get(8..)?.first_chunk()?);
    let length = u32::from_le_bytes(*bytes.get(12..)?.first_chunk()?);
    let inside = length as usize > RECORD_HEADER_BYTES
        && (offset as usize).is_multiple_of(UNIT_BYTES)
        && u64::from(offset) + u64::from(length) <= records_end;
    inside.then_some(FooterEntry { hash, offset, length })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const IDENTITY: RegionIdentity = RegionIdentity { region: 3, sequence: 99 };

    fn entries(count: u32) -> Vec<FooterEntry> {
        (0..count).map(|i| FooterEntry { hash: u64::from(i), offset: i * 52, length: 50 }).collect()
    }

    fn region(count: u32) -> Vec<u8> {
        let mut bytes = vec![0; 8192];
        encode(&mut bytes, CacheId::ZERO, IDENTITY, &entries(count), count * 52, 777);
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
            assert_eq!(parse(tail, CacheId::ZERO, 3, 8192), footer(20));
        }
        assert_eq!(parse(bytes.get(8192 - 100..).unwrap(), CacheId::ZERO, 3, 8192), None);
        assert_eq!(parse(&region(0), CacheId::ZERO, 3, 8192), footer(0));
    }

    #[test]
    fn another_region_or_cache_is_refused() {
        assert!(parse(&region(5), CacheId::ZERO, 4, 8192).is_none());
        assert!(parse(&region(5), CacheId::from_number(1), 3, 8192).is_none());
    }

    #[test]
    fn what_never_expires_is_the_latest() {
        let latest = |expiries: &[u32]| expiries.iter().copied().fold(None, later_expiry);
        assert_eq!([latest(&[]), latest(&[5, 9, 7]), latest(&[5])], [None, Some(9), Some(5)]);
        assert_eq!([latest(&[0, 5]), latest(&[5, 0, 9])], [Some(0), Some(0)]);
    }

    proptest! {
        #[test]
        fn no_bit_flip_passes(bit in 0..footer_bytes(5) * 8) {
            let mut bytes = region(5);
            let at = 8192 - footer_bytes(5) + bit / 8;
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << (bit % 8);
            }
            prop_assert!(parse(&bytes, CacheId::ZERO, 3, 8192).is_none());
        }

        #[test]
        fn arbitrary_bytes_never_panic(mut tail in prop::collection::vec(any::<u8>(), 36..300)) {
            let at = tail.len() - TRAILER_BYTES;
            if let Some(head) = tail.get_mut(at..at + 8) {
                head.copy_from_slice(b"LFTR\x03\0\0\0");
            }
            let announced = announced_bytes(&tail, 4096);
            prop_assert!(announced.is_none_or(|bytes| bytes <= 4096));
            prop_assert!(parse(&tail, CacheId::ZERO, 3, 4096).is_none());
        }
    }
}
