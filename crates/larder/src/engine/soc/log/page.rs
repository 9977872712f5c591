//! A 4 KiB page of the small-object log, as stored on flash. Little-endian.
//!
//! ```text
//!  offset  bytes  field
//!       0      4  magic "LLOG"
//!       4      2  version of the formats
//!       6      2  reserved, 0
//!       8      4  CRC-32C of the cache's identity (6 bytes) and of bytes 12 to 32 + used
//!      12      2  used: bytes of records
//!      14      2  number of records
//!      16      8  sequence number of the segment's filling
//!      24      4  segment number
//!      28      4  page number within the segment
//!      32      *  records (`engine/small_record.rs`), oldest first, without gaps; then zeros
//! ```
//!
//! Pages are read individually, so each has everything necessary to verify it. Sequence numbers are never reused: a
//! page of an earlier filling of its place fails the check.

#![deny(clippy::indexing_slicing)]

use std::mem::offset_of;

use larder_device::label::FORMAT_VERSION;
use larder_log::CacheId;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::base::item::ItemRef;
use crate::engine::small_record::{self, SmallRecords, record_bytes};

/// Bytes of a page.
pub(crate) const PAGE_BYTES: usize = 4096;
/// Maximum records of a page: a record's number takes eight bits in the index.
pub(super) const RECORDS_MAX: u16 = 256;
pub(crate) const PAGE_MAGIC: [u8; 4] = *b"LLOG";

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct PageHeader {
    magic: [u8; 4],
    version: U16,
    reserved: U16,
    checksum: U32,
    used: U16,
    count: U16,
    sequence: U64,
    segment: U32,
    page: U32,
}
const HEADER_BYTES: usize = size_of::<PageHeader>();
const _: () = assert!(HEADER_BYTES == 32);
/// The checksum covers what follows it.
const CHECKED_FROM: usize = offset_of!(PageHeader, used);

/// Longest object (key and value) that a page can hold.
pub(super) const OBJECT_BYTES_MAX: usize =
    PAGE_BYTES - HEADER_BYTES - small_record::BESIDE_OBJECT_BYTES;

/// Identifies a page of a filling of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageIdentity {
    pub(crate) cache: CacheId,
    pub(crate) sequence: u64,
    pub(crate) segment: u32,
    pub(crate) page: u32,
}

/// Makes pages empty. Their content does not matter.
pub(super) fn clear(page: &mut [u8]) {
    debug_assert!(page.len().is_multiple_of(PAGE_BYTES), "whole pages: {} bytes", page.len());
    page.fill(0);
}

/// Appends `item` to the records of a page. Returns its number; `None` if there is no room.
pub(super) fn push(page: &mut [u8], item: &ItemRef<'_>) -> Option<u8> {
    let header = header_of(page)?;
    let (used, count) = (header.used.get(), header.count.get());
    let number = u8::try_from(count).ok().filter(|_| count < RECORDS_MAX)?;
    let start = HEADER_BYTES + usize::from(used);
    let end = start + record_bytes(item);
    small_record::put(page.get_mut(start..end)?, item)?;
    let header = header_of_mut(page)?;
    header.used = narrow(end - HEADER_BYTES)?.into();
    header.count = (count + 1).into();
    debug_assert_eq!(
        records(page).count(),
        usize::from(count) + 1,
        "it is found behind the others"
    );
    Some(number)
}

/// Whether [`push`] would find room for such a record.
pub(super) fn has_room(page: &[u8], record_bytes: usize) -> bool {
    header_of(page).is_some_and(|header| {
        HEADER_BYTES + usize::from(header.used.get()) + record_bytes <= PAGE_BYTES
            && header.count.get() < RECORDS_MAX
    })
}

/// Writes header and checksum, so that the page can go to flash.
pub(super) fn seal(page: &mut [u8], identity: PageIdentity) {
    let Some(header) = header_of_mut(page) else { return };
    *header = PageHeader {
        magic: PAGE_MAGIC,
        version: FORMAT_VERSION.into(),
        reserved: 0.into(),
        checksum: 0.into(),
        used: header.used,
        count: header.count,
        sequence: identity.sequence.into(),
        segment: identity.segment.into(),
        page: identity.page.into(),
    };
    let checksum = checksum(identity.cache, page);
    if let Some(header) = header_of_mut(page) {
        header.checksum = checksum.into();
    }
}

fn header_of(page: &[u8]) -> Option<&PageHeader> {
    PageHeader::ref_from_prefix(page).ok().map(|(header, _)| header)
}

fn header_of_mut(page: &mut [u8]) -> Option<&mut PageHeader> {
    PageHeader::mut_from_prefix(page).ok().map(|(header, _)| header)
}

/// Whether the bytes are the page with this identity.
pub(crate) fn is_valid(page: &[u8], identity: PageIdentity) -> bool {
    let Some(header) = header_of(page).filter(|_| page.len() == PAGE_BYTES) else { return false };
    let found = PageIdentity {
        cache: identity.cache, // the checksum covers it
        sequence: header.sequence.get(),
        segment: header.segment.get(),
        page: header.page.get(),
    };
    let whole = header.magic == PAGE_MAGIC
        && header.version.get() == FORMAT_VERSION
        && header.reserved.get() == 0
        && usize::from(header.used.get()) <= PAGE_BYTES - HEADER_BYTES
        && header.checksum.get() == checksum(identity.cache, page)
        && found == identity;
    // The checksum covers what this program wrote; the rest is for content that another program wrote with a valid
    // checksum.
    whole && {
        let mut records = records(page);
        let count = records.by_ref().count();
        header.count.get() <= RECORDS_MAX
            && usize::from(header.count.get()) == count
            && records.is_at_end()
    }
}

/// The records of a page that is valid or still in memory; for other bytes, the records that fit.
pub(crate) fn records(page: &[u8]) -> SmallRecords<'_> {
    small_record::records(page, HEADER_BYTES, HEADER_BYTES + used_bytes(page))
}

fn checksum(cache: CacheId, page: &[u8]) -> u32 {
    let used = used_bytes(page);
    cache.checksum(page.get(CHECKED_FROM..HEADER_BYTES + used).unwrap_or(&[]))
}

fn narrow(n: usize) -> Option<u16> {
    u16::try_from(n).ok()
}

fn used_bytes(page: &[u8]) -> usize {
    header_of(page).map_or(0, |header| usize::from(header.used.get()))
}

/// For the fuzzer: gives arbitrary bytes the header of page 0 of segment 0, filling 0, including the checksum.
pub(crate) fn forge(page: &mut [u8]) {
    seal(page, PageIdentity { cache: CacheId::ZERO, sequence: 0, segment: 0, page: 0 });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key::KeyHash;
    use crate::base::tier::Tiers;
    use proptest::prelude::*;

    const IDENTITY: PageIdentity =
        PageIdentity { cache: CacheId::ZERO, sequence: 7, segment: 3, page: 2 };
    const ZERO: PageIdentity =
        PageIdentity { cache: CacheId::ZERO, sequence: 0, segment: 0, page: 0 };

    fn item<'a>(key: &'a [u8], value: &'a [u8], expiry_s: u32) -> ItemRef<'a> {
        ItemRef { flags: expiry_s / 2, ..ItemRef::new(KeyHash::of(key), key, value, expiry_s) }
    }

    fn page_of(items: &[(&[u8], &[u8])]) -> Vec<u8> {
        let mut page = vec![0xaa; PAGE_BYTES];
        clear(&mut page);
        for (number, (key, value)) in (0..).zip(items) {
            assert_eq!(push(&mut page, &item(key, value, u32::from(number) * 2)), Some(number));
        }
        seal(&mut page, IDENTITY);
        page
    }

    #[test]
    fn what_was_pushed_is_found_again() {
        let page = page_of(&[(b"a", b"one"), (b"bc", b""), (b"d", b"three")]);
        assert!(is_valid(&page, IDENTITY));
        let found: Vec<_> = records(&page).collect();
        let told: Vec<_> = found.iter().map(|r| (r.key, r.value, r.expiry_s, r.flags)).collect();
        let d: &[u8] = b"d";
        assert_eq!(told.last(), Some(&(d, &b"three"[..], 4, 2)));
        assert!(found.iter().all(|r| page.get(r.at..r.at + r.key.len()) == Some(r.key)));
    }

    /// In version 9 of the formats.
    #[test]
    fn a_page_has_its_bytes_in_place() {
        let mut page = vec![0; PAGE_BYTES];
        let plain = ItemRef { flags: 0, ..item(b"k", b"plain", 0) };
        let full = ItemRef {
            flags: 0x2122_2324,
            tiers: Tiers::FlashOnly,
            ..item(b"key", b"value", 0x3132_3334)
        };
        assert_eq!((push(&mut page, &plain), push(&mut page, &full)), (Some(0), Some(1)));
        let identity = PageIdentity {
            cache: CacheId::from_number(0x4142_4344_4546),
            sequence: 0x5152_5354_5556_5758,
            segment: 0x6162_6364,
            page: 0x7172_7374,
        };
        seal(&mut page, identity);
        let used: String = page.iter().take(68).map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            used,
            "4c4c4f47090000005db303d3220002005857565554535251646362617473727101000500000000006b706c61696e0300\
             05c034333231242322216b657976616c75650000"
        );
    }

    #[test]
    fn identity_is_checked() {
        let page = page_of(&[(b"a", b"b")]);
        for wrong in [
            PageIdentity { sequence: 8, ..IDENTITY },
            PageIdentity { segment: 2, ..IDENTITY },
            PageIdentity { page: 1, ..IDENTITY },
            PageIdentity { cache: CacheId::from_number(1), ..IDENTITY },
        ] {
            assert!(!is_valid(&page, wrong));
        }
        assert!(!is_valid(&[0; PAGE_BYTES], ZERO) && !is_valid(&[], ZERO));
    }

    #[test]
    fn a_page_holds_the_longest_object_and_not_too_many_small_ones() {
        let mut page = vec![0; PAGE_BYTES];
        let value = vec![9; OBJECT_BYTES_MAX - 1];
        let longest = ItemRef { flags: 1, ..item(b"k", &value, 0) };
        assert!(has_room(&page, record_bytes(&longest)));
        assert_eq!(push(&mut page, &longest), Some(0));
        assert!(!has_room(&page, record_bytes(&item(b"k", b"", 0))));
        assert_eq!(push(&mut page, &item(b"k", b"", 0)), None);
        clear(&mut page);
        let pushed = (0..1000).filter(|_| push(&mut page, &item(b"k", b"", 0)).is_some()).count();
        assert_eq!(pushed, usize::from(RECORDS_MAX));
        assert!(!has_room(&page, record_bytes(&item(b"k", b"", 0))));
        seal(&mut page, IDENTITY);
        assert!(is_valid(&page, IDENTITY));
    }

    proptest! {
        /// Flip any bit that counts: the page is refused, never misread.
        #[test]
        fn no_bit_flip_passes(bit in 0..(HEADER_BYTES + 28) * 8) {
            let mut page = page_of(&[(b"k1", b"v1"), (b"k2", b"v2")]);
            if let Some(byte) = page.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
            prop_assert!(!is_valid(&page, IDENTITY));
        }

        /// Even a valid checksum over arbitrary bytes causes no panic.
        #[test]
        fn arbitrary_bytes_never_panic(
            mut bytes in prop::collection::vec(any::<u8>(), PAGE_BYTES..=PAGE_BYTES),
            used in 0..=4064_u16,
        ) {
            header_of_mut(&mut bytes).unwrap().used = used.into();
            forge(&mut bytes);
            if is_valid(&bytes, ZERO) {
                prop_assert!(records(&bytes).count() <= usize::from(RECORDS_MAX));
            }
            prop_assert!(records(&bytes).count() < PAGE_BYTES);
        }
    }
}
