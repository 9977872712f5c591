//! A table: the part of the index on flash that has the entries of one range of hashes. Little-endian.
//!
//! A table is a record of the log, 16 KiB long, in regions that contain only tables; so it starts at a multiple of 4
//! KiB, and each of its four pages can be read alone. A page is valid if it is whole and belongs to this writing of
//! this table.
//!
//! ```text
//!  offset  bytes  field
//!       0     48  page 0: header of the record, and its key: the number of the table; in others 0
//!      48      4  CRC-32C of the cache's identity (6 bytes) and of bytes 52 to 80 + 16 n
//!      52      2  n, number of entries
//!      54      1  number of the page
//!      55      1  1 if entries of this page are in the page beside it
//!      56      4  number of the table
//!      60      4  offset of the record in its region
//!      64      8  sequence number of the region's filling
//!      72      8  stamp: the table knows all records of its range with smaller stamps
//!      80   16 n  entries; zeros behind them
//! ```
//!
//! The upper two bits of the lower 48 bits of a fingerprint select its home page. Entries that do not fit there go to
//! the neighbour page: pages 0 and 1, and pages 2 and 3, are neighbours, so that both can be read at once. Entries that
//! do not fit there either are lost, and counted: these are old entries, because new ones come first.

#![deny(clippy::indexing_slicing)]

use larder_log::CacheId;
use larder_log::record::RECORD_HEADER_BYTES;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::entry::{ENTRY_BYTES, Fingerprint, SetEntry, Shape};

/// Pages of a table.
pub(crate) const PAGES: usize = 4;
pub(crate) const PAGE_BYTES: usize = 4096;
/// Bytes of a table, as a record.
pub(crate) const TABLE_BYTES: usize = PAGES * PAGE_BYTES;
const _: () = assert!(4 * TABLE_BYTES == 64 << 10, "a region has room for some tables");
/// Maximum entries of a page.
pub(crate) const PAGE_ENTRIES: usize = 251;
/// Maximum entries of a table.
pub(crate) const TABLE_ENTRIES: usize = PAGES * PAGE_ENTRIES;

/// Bytes of the table number, which is the key of its record.
pub(crate) const KEY_BYTES: usize = 8;
const STAMP_BYTES: usize = 8;
/// Bytes in front of the value in the record of a table.
const FRONT_BYTES: usize = RECORD_HEADER_BYTES + STAMP_BYTES + KEY_BYTES;
/// Bytes of the value of that record.
pub(crate) const VALUE_BYTES: usize = TABLE_BYTES - FRONT_BYTES;
const HEADER_AT: usize = 48;
const ENTRIES_AT: usize = HEADER_AT + size_of::<TableHeader>();
const _: () = assert!(FRONT_BYTES == HEADER_AT && ENTRIES_AT == 80);
const _: () = assert!(ENTRIES_AT + PAGE_ENTRIES * ENTRY_BYTES == PAGE_BYTES);
const CHECKED_FROM: usize = 4;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct TableHeader {
    checksum: U32,
    entries: U16,
    page: u8,
    overflown: u8,
    table: U32,
    offset: U32,
    sequence: U64,
    stamp: U64,
}

/// Identifies one writing of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableIdentity {
    pub(crate) cache: CacheId,
    pub(crate) table: u32,
    /// Sequence number of the filling of its region.
    pub(crate) sequence: u64,
    /// Offset in the region.
    pub(crate) offset: u32,
}

/// A page that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    /// Whether entries of it are in its neighbour page.
    pub(crate) is_overflown: bool,
    pub(crate) stamp: u64,
    pub(crate) entries: Vec<SetEntry>,
}

/// The home page of a key's entry.
pub(crate) fn home_of(fingerprint: Fingerprint) -> usize {
    usize::try_from(fingerprint.0 >> 46 & 3).expect("two bits")
}

/// The neighbour page, which takes the entries that do not fit.
fn beside(page: usize) -> usize {
    page ^ 1
}

/// The pages to read for an entry with this home page, as one range: both neighbours if the page has overflown.
pub(crate) fn pages_of(home: usize, is_overflown: bool) -> std::ops::Range<usize> {
    if is_overflown { home & !1..(home | 1) + 1 } else { home..home + 1 }
}

/// Collects the entries of a table.
#[derive(Debug, Default)]
pub(crate) struct TableBuilder {
    /// By home page. If there is too little room, the first ones are kept.
    pages: [Vec<SetEntry>; PAGES],
}

/// Result of building a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Built {
    pub(crate) entries: u16,
    /// A bit for each page.
    pub(crate) overflown: u8,
    /// Entries for which it has no room.
    pub(crate) lost: u64,
}

impl TableBuilder {
    /// Adds an entry after those of its page.
    pub(crate) fn add(&mut self, shape: Shape, entry: SetEntry) {
        if let Some(page) = self.pages.get_mut(home_of(shape.fingerprint_of(entry))) {
            page.push(entry);
        }
    }

    /// The value of the table's record, and what is in it.
    pub(crate) fn encode(mut self, identity: TableIdentity, stamp: u64) -> (Vec<u8>, Built) {
        let mut moved: [Vec<SetEntry>; PAGES] = Default::default();
        let (mut overflown, mut lost) = (0, 0);
        for page in 0..PAGES {
            let room = self.room(beside(page));
            let Some(own) = self.pages.get_mut(page) else { continue };
            let mut rest = own.split_off(own.len().min(PAGE_ENTRIES));
            lost += rest.len().saturating_sub(room) as u64;
            rest.truncate(room);
            if !rest.is_empty() {
                overflown |= 1 << page;
            }
            if let Some(moved) = moved.get_mut(beside(page)) {
                *moved = rest;
            }
        }
        let mut bytes = vec![0; TABLE_BYTES];
        let mut entries = 0;
        for (at, page) in bytes.chunks_exact_mut(PAGE_BYTES).enumerate() {
            let empty: &[SetEntry] = &[];
            let own = self.pages.get(at).map_or(empty, Vec::as_slice);
            let guests = moved.get(at).map_or(empty, Vec::as_slice);
            entries += own.len() + guests.len();
            let all = own.iter().chain(guests).copied();
            encode_page(page, (identity, stamp), (at, overflown & 1 << at != 0), all);
        }
        let entries = u16::try_from(entries).expect("a table has at most 1004");
        (bytes.split_off(FRONT_BYTES), Built { entries, overflown, lost })
    }

    /// Free slots of a page.
    fn room(&self, page: usize) -> usize {
        let own = self.pages.get(page).map_or(0, Vec::len);
        PAGE_ENTRIES.saturating_sub(own)
    }
}

fn encode_page(
    page: &mut [u8],
    (identity, stamp): (TableIdentity, u64),
    (number, is_overflown): (usize, bool),
    entries: impl Iterator<Item = SetEntry>,
) {
    let mut body = Vec::with_capacity(PAGE_ENTRIES * ENTRY_BYTES);
    entries.for_each(|entry| body.extend_from_slice(&entry.to_bytes()));
    let count = u16::try_from(body.len() / ENTRY_BYTES).expect("at most 251");
    let mut header = TableHeader {
        checksum: 0.into(),
        entries: count.into(),
        page: u8::try_from(number).expect("0 to 3"),
        overflown: is_overflown.into(),
        table: identity.table.into(),
        offset: identity.offset.into(),
        sequence: identity.sequence.into(),
        stamp: stamp.into(),
    };
    let checked = header.as_bytes().get(CHECKED_FROM..).unwrap_or(&[]);
    let checksum = larder_checksum::crc32c_append(identity.cache.checksum(checked), &body);
    header.checksum = checksum.into();
    let front = page.get_mut(HEADER_AT..ENTRIES_AT).expect("a page is longer");
    front.copy_from_slice(header.as_bytes());
    let room = page.get_mut(ENTRIES_AT..ENTRIES_AT + body.len()).expect("251 entries fit");
    room.copy_from_slice(&body);
}

/// Parses a page. It must be this page of this writing of the table.
pub(crate) fn parse_page(bytes: &[u8], identity: TableIdentity, page: usize) -> Option<Page> {
    let (header, rest) = TableHeader::ref_from_prefix(bytes.get(HEADER_AT..)?).ok()?;
    let count = usize::from(header.entries.get());
    let body = rest.get(..count.checked_mul(ENTRY_BYTES)?).filter(|_| count <= PAGE_ENTRIES)?;
    let checked = header.as_bytes().get(CHECKED_FROM..)?;
    let checksum = larder_checksum::crc32c_append(identity.cache.checksum(checked), body);
    let is_it = header.checksum.get() == checksum
        && usize::from(header.page) == page
        && header.table.get() == identity.table
        && header.offset.get() == identity.offset
        && header.sequence.get() == identity.sequence;
    let entries = body.chunks_exact(ENTRY_BYTES).filter_map(|bytes| bytes.try_into().ok());
    is_it.then(|| Page {
        is_overflown: header.overflown != 0,
        stamp: header.stamp.get(),
        entries: entries.map(SetEntry::from_bytes).filter(|entry| !entry.is_none()).collect(),
    })
}

/// For the fuzzer: parses any bytes as a page of a table, and again with a correct checksum.
pub(crate) fn fuzz_page(bytes: &[u8]) {
    let cache = CacheId::ZERO;
    let whole: Vec<u8> =
        bytes.iter().copied().chain(std::iter::repeat(0)).take(PAGE_BYTES).collect();
    let Some((header, _)) =
        whole.get(HEADER_AT..).and_then(|it| TableHeader::ref_from_prefix(it).ok())
    else {
        return;
    };
    let (table, offset) = (header.table.get(), header.offset.get());
    let identity = TableIdentity { cache, table, sequence: header.sequence.get(), offset };
    let count = usize::from(header.entries.get()).min(PAGE_ENTRIES);
    let end = ENTRIES_AT + count * ENTRY_BYTES;
    let sum = cache.checksum(whole.get(HEADER_AT + CHECKED_FROM..end).unwrap_or(&[]));
    let mut forged = whole.clone();
    if let Some(room) = forged.get_mut(HEADER_AT..HEADER_AT + CHECKED_FROM) {
        room.copy_from_slice(&sum.to_le_bytes());
    }
    for bytes in [&whole, &forged] {
        if let Some(page) = parse_page(bytes, identity, usize::from(header.page)) {
            assert!(page.entries.len() <= PAGE_ENTRIES);
            let shape = Shape::new(1 << 16, 1 << 20);
            for &entry in &page.entries {
                let _ = (shape.place_of(entry), home_of(shape.fingerprint_of(entry)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use larder_log::{NewRecord, RecordIdentity, RegionId, record};
    use proptest::prelude::*;

    use super::super::entry::RecordPlace;
    use super::*;

    const IDENTITY: TableIdentity = TableIdentity {
        cache: CacheId::from_number(0x1122_3344_5566),
        table: 0x0102_0304,
        sequence: 0x1112_1314_1516_1718,
        offset: 0x4000,
    };
    const STAMP: u64 = 0x2122_2324_2526_2728;

    fn shape() -> Shape {
        Shape::new(1 << 20, 1 << 20)
    }

    fn entry(fingerprint: u64) -> SetEntry {
        let place = RecordPlace { region: RegionId::new(7), offset: 2048, span: 1024 };
        shape().entry(Fingerprint(fingerprint), (place, 9), 3)
    }

    fn built(fingerprints: &[u64]) -> (Vec<u8>, Built) {
        let mut builder = TableBuilder::default();
        fingerprints.iter().for_each(|&it| builder.add(shape(), entry(it)));
        let (value, built) = builder.encode(IDENTITY, STAMP);
        let record = NewRecord {
            hash: IDENTITY.table.into(),
            key: &u64::from(IDENTITY.table).to_le_bytes(),
            value: &value,
            expiry_s: 0,
            flags: 0,
            marks: 0,
            stamp: Some(STAMP),
        };
        let identity = RecordIdentity {
            cache: IDENTITY.cache,
            sequence: IDENTITY.sequence,
            offset: IDENTITY.offset,
        };
        let bytes = record.to_vec(identity);
        assert!(record::parse(&bytes, identity).is_some());
        (bytes, built)
    }

    /// Finds a key as a reader does: in its home page, and in the neighbour page if the home page has overflown.
    fn finds(bytes: &[u8], fingerprint: u64) -> bool {
        let home = home_of(Fingerprint(fingerprint));
        let page = |at: usize| {
            let bytes = bytes.get(at * PAGE_BYTES..(at + 1) * PAGE_BYTES).unwrap();
            parse_page(bytes, IDENTITY, at).unwrap()
        };
        let is_overflown = page(home).is_overflown;
        pages_of(home, is_overflown).any(|at| {
            let is_it = |&it: &SetEntry| shape().is_of(it, Fingerprint(fingerprint));
            page(at).stamp == STAMP && page(at).entries.iter().any(is_it)
        })
    }

    #[test]
    fn a_table_is_a_record_of_16_kib() {
        let (bytes, built) = built(&[1, 2, 3 << 46]);
        assert_eq!(bytes.len(), TABLE_BYTES);
        assert_eq!(built, Built { entries: 3, overflown: 0, lost: 0 });
        assert!([1, 2, 3 << 46].iter().all(|&it| finds(&bytes, it)) && !finds(&bytes, 4));
    }

    /// Each byte, as described in docs/formats.md.
    #[test]
    fn a_page_is_what_it_is_in_version_9() {
        let (bytes, _) = built(&[1 << 46 | 0x3132_3334]);
        let page = bytes.get(PAGE_BYTES..PAGE_BYTES + ENTRIES_AT + ENTRY_BYTES).unwrap();
        let hex: String = page.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
             8ed907da010001000403020100400000181716151413121128272625242322213433323100400900021c00000001c000"
        );
    }

    #[test]
    fn a_full_page_spills_into_its_neighbour() {
        let many: Vec<u64> = (0..300).map(|it| 2 << 46 | it).collect();
        let (bytes, built) = built(&many);
        assert_eq!(built, Built { entries: 300, overflown: 0b0100, lost: 0 });
        assert!(many.iter().all(|&it| finds(&bytes, it)));
    }

    #[test]
    fn what_comes_first_is_kept() {
        let many: Vec<u64> = (0..600).map(|it| 3 << 46 | it).collect();
        let (bytes, built) = built(&many);
        assert_eq!(built, Built { entries: 502, overflown: 0b1000, lost: 98 });
        assert_eq!(many.iter().position(|&it| !finds(&bytes, it)), Some(502));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_while_pairs_have_room(
            fingerprints in prop::collection::hash_set(0..1_u64 << 48, 0..700)
        ) {
            let all: Vec<u64> = fingerprints.into_iter().collect();
            let in_pair = |pair: usize| {
                all.iter().filter(|&&it| home_of(Fingerprint(it)) / 2 == pair).count()
            };
            let (bytes, built) = built(&all);
            let fits = (0..2).all(|pair| in_pair(pair) <= 2 * PAGE_ENTRIES);
            prop_assert_eq!(built.lost == 0, fits);
            if fits {
                prop_assert!(all.iter().all(|&it| finds(&bytes, it)));
            }
        }

        #[test]
        fn no_bit_flip_passes(bit in 0..(ENTRIES_AT + 2 * ENTRY_BYTES - HEADER_AT) * 8) {
            let (mut bytes, _) = built(&[1, 2]);
            let byte = bytes.get_mut(HEADER_AT + bit / 8).unwrap();
            *byte ^= 1 << (bit % 8);
            prop_assert!(parse_page(bytes.get(..PAGE_BYTES).unwrap(), IDENTITY, 0).is_none());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..5000)) {
            prop_assert!(parse_page(&bytes, IDENTITY, 0).is_none());
        }
    }

    #[test]
    fn another_writing_place_or_page_is_refused() {
        let (bytes, _) = built(&[1]);
        let page = bytes.get(..PAGE_BYTES).unwrap();
        assert!(parse_page(page, IDENTITY, 0).is_some() && parse_page(page, IDENTITY, 1).is_none());
        for other in [
            TableIdentity { table: 1, ..IDENTITY },
            TableIdentity { sequence: 1, ..IDENTITY },
            TableIdentity { offset: 0, ..IDENTITY },
            TableIdentity { cache: CacheId::ZERO, ..IDENTITY },
        ] {
            assert!(parse_page(page, other, 0).is_none());
        }
    }
}
