//! A block of the tombstone log, as stored on flash: eight parts, each of which carries its full identity.
//! Little-endian.
//!
//! A block that is being filled is rewritten in place, and a power loss may leave any of its 512-byte sectors as they
//! were before. So each sector is valid by itself, and entries stay in their sector while the block grows: whichever
//! version of each sector remains, everything is there that was there before the rewrite began.
//!
//! ```text
//!  part, 512 bytes
//!  offset  bytes  field
//!       0      4  magic "LTMB"
//!       4      2  version of the formats
//!       6      2  number of keys of tables: not covered by the checksum itself, but it says how much is
//!       8      4  CRC-32C of the cache's identity (6 bytes) and of bytes 12 to 48 + 16 n
//!      12      4  ring: epoch in which the log began
//!      16      8  number of the block, times 8, plus position of the part; the block lies in slot number mod slots
//!      24      8  number of the oldest block that still counts
//!      32      6  clock: larger than the index of every key so far
//!      38      4  second of the cache's clock in which the part was written
//!      42      2  number of keys of buckets
//!      44      2  number of places
//!      46      2  number of lost hashes; n is the sum of all four
//!      48      *  keys of buckets, places, lost hashes, keys of tables, 16 bytes each; zeros behind them
//!
//!  key      8  hash
//!           8  index: buckets, or tables, with a stamp of at most this lost the key
//!  place    4  region
//!           4  offset of a record that is dead; 2^32 - 1: all of the region's fillings before
//!           8  sequence number of the record's filling, or of the first filling that counts
//!  lost     8  hash
//!           8  sequence number: fillings before it lost the large objects of this hash
//! ```

#![deny(clippy::indexing_slicing)]

use larder_device::label::FORMAT_VERSION;
use larder_log::CacheId;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::number::BlockNumber;

pub(crate) const BLOCK_BYTES: usize = 4096;
pub(crate) const BLOCK_MAGIC: [u8; 4] = *b"LTMB";
/// Every drive leaves a write of this size whole or undone on a power loss.
const PART_BYTES: usize = 512;
const PARTS: usize = BLOCK_BYTES / PART_BYTES;
/// Maximum block number.
const NUMBER_MAX: u64 = u64::MAX / PARTS as u64;
/// Bytes of the clock: it ends at [`super::CLOCK_MAX`].
const CLOCK_BYTES: usize = 6;
const HEADER_BYTES: usize = std::mem::offset_of!(Part, entries);
const CHECKED_FROM: usize = std::mem::offset_of!(Part, ring);
const ENTRY_BYTES: usize = size_of::<TombstoneEntry>();
/// In place of an offset: the whole region.
const ALL_BEFORE: u32 = u32::MAX;
/// Keys of buckets, places, lost hashes, keys of tables.
const SECTIONS: usize = 4;

/// Maximum entries of a part.
const PART_ENTRIES_MAX: usize = 29;
/// Maximum entries of a block.
pub(crate) const ENTRIES_MAX: usize = PARTS * PART_ENTRIES_MAX;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Part {
    magic: [u8; 4],
    version: U16,
    table_keys: U16,
    checksum: U32,
    ring: U32,
    number: U64,
    oldest: U64,
    clock: [u8; CLOCK_BYTES],
    second: U32,
    /// Entries of each section except the last.
    counts: [U16; SECTIONS - 1],
    entries: [TombstoneEntry; PART_ENTRIES_MAX],
}

/// Two words; their meaning depends on the section.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct TombstoneEntry([U64; 2]);

const _: () = assert!(size_of::<Part>() == PART_BYTES && ENTRY_BYTES == 16);
const _: () = assert!(HEADER_BYTES == 48 && CHECKED_FROM == 12);
const _: () = assert!(HEADER_BYTES + PART_ENTRIES_MAX * ENTRY_BYTES == PART_BYTES);

/// Something that is dead from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Tombstone {
    /// The small object of this hash, in buckets with a stamp of at most `index`.
    Key { hash: u64, index: u64 },
    /// One record of the large-object engine.
    Record { region: u32, offset: u32, sequence: u64 },
    /// Everything that a region held before the filling with this number.
    Region { region: u32, sequence: u64 },
    /// All large objects of this hash in fillings before this number, wherever they are.
    Lost { hash: u64, sequence: u64 },
    /// The array's object of this hash, in everything written with a stamp of at most `index`.
    TableKey { hash: u64, index: u64 },
}

/// The content of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogBlock {
    pub(crate) cache: CacheId,
    pub(crate) ring: u32,
    pub(crate) number: BlockNumber,
    pub(crate) oldest: BlockNumber,
    pub(crate) clock: u64,
    pub(crate) second: u32,
    /// At most [`ENTRIES_MAX`]. When a block grows, new entries are appended and earlier ones keep their positions. A
    /// parsed block has them in the order of the sections of each part.
    pub(crate) entries: Vec<Tombstone>,
}

/// The content of a slot of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Slot {
    /// Never written.
    Blank,
    /// All parts of one block, possibly from several of its writes.
    Whole(LogBlock),
    /// Parts of a block next to older content: the block's first write has not ended. Ring and number of the latest
    /// block in the slot.
    Begun(u32, BlockNumber),
    /// Content that the log never produces.
    Damaged,
}

impl Slot {
    /// Parses a slot of this cache's log.
    pub(crate) fn look(bytes: &[u8], cache: CacheId) -> Self {
        if is_blank(bytes) {
            return Self::Blank;
        }
        let Ok(slot) = <[Part; PARTS]>::ref_from_bytes(bytes) else { return Self::Damaged };
        let mut latest = None;
        for (position, part) in (0..).zip(slot) {
            match part.is_valid(position, cache) {
                true => latest = latest.max(Some(part.written_as())),
                false if is_blank(part.as_bytes()) => {}
                false => return Self::Damaged,
            }
        }
        let Some(block) = latest else { return Self::Damaged };
        // Blank parts have no magic.
        let is_of_it = |part: &Part| part.magic == BLOCK_MAGIC && part.written_as() == block;
        if !slot.iter().all(is_of_it) {
            return Self::Begun(block.0, block.1);
        }
        Self::Whole(LogBlock::of_parts(slot, block, cache))
    }
}

impl LogBlock {
    /// Encodes the block into `room`, which must be [`BLOCK_BYTES`] long.
    pub(crate) fn encode(&self, room: &mut [u8]) {
        assert!(room.len() == BLOCK_BYTES && self.entries.len() <= ENTRIES_MAX);
        assert!(self.number.get() <= NUMBER_MAX, "no cache writes as many blocks");
        let parts = <[Part; PARTS]>::mut_from_bytes(room).expect("its length was asserted");
        let mut entries = self.entries.chunks(PART_ENTRIES_MAX);
        for (position, part) in (0..).zip(parts) {
            self.encode_part(position, entries.next().unwrap_or_default(), part);
        }
    }

    fn encode_part(&self, position: u64, entries: &[Tombstone], part: &mut Part) {
        part.zero();
        part.magic = BLOCK_MAGIC;
        part.version = FORMAT_VERSION.into();
        part.ring = self.ring.into();
        part.number = (self.number.get() * PARTS as u64 + position).into();
        part.oldest = self.oldest.get().into();
        part.clock = *self.clock.to_le_bytes().first_chunk().expect("six of eight bytes");
        part.second = self.second.into();
        debug_assert!(entries.len() <= PART_ENTRIES_MAX && position < PARTS as u64, "{position}");
        let in_order = (0..SECTIONS)
            .flat_map(|section| entries.iter().filter(move |entry| section_of(entry) == section));
        for (room, entry) in part.entries.iter_mut().zip(in_order) {
            *room = TombstoneEntry::of(entry);
        }
        let counts = part.counts.iter_mut().chain(std::iter::once(&mut part.table_keys));
        for (section, count) in counts.enumerate() {
            let count_of = entries.iter().filter(|entry| section_of(entry) == section).count();
            *count = u16::try_from(count_of).expect("a part has few entries").into();
        }
        part.checksum = part.checked().map_or(0, |checked| self.cache.checksum(checked)).into();
        debug_assert!(part.is_valid(position, self.cache), "what is written is read back");
    }

    /// Combines the parts of a block with this ring and number. All parts must be valid.
    fn of_parts(parts: &[Part; PARTS], (ring, number): (u32, BlockNumber), cache: CacheId) -> Self {
        let most = |field: fn(&Part) -> u64| parts.iter().map(field).max().unwrap_or(0);
        let oldest = BlockNumber::new(most(|part| part.oldest.get()));
        let clock = most(Part::clock);
        let second = parts.iter().map(|part| part.second.get()).max().unwrap_or(0);
        let mut entries = Vec::with_capacity(parts.iter().map(Part::entries).sum());
        parts.iter().for_each(|part| entries.extend(part.tombstones()));
        debug_assert!(entries.len() <= ENTRIES_MAX, "each part is valid");
        Self { cache, ring, number, oldest, clock, second, entries }
    }

    /// Parses a block of this cache. `None` if it is not a block, or is damaged.
    pub(crate) fn parse(bytes: &[u8], cache: CacheId) -> Option<Self> {
        match Slot::look(bytes, cache) {
            Slot::Whole(block) => Some(block),
            Slot::Blank | Slot::Begun(..) | Slot::Damaged => None,
        }
    }
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

impl Part {
    /// Whether it is a valid part, for this position, of a block of this cache.
    fn is_valid(&self, position: u64, cache: CacheId) -> bool {
        let behind = self.as_bytes().get(HEADER_BYTES + self.entries() * ENTRY_BYTES..);
        self.magic == BLOCK_MAGIC
            && self.version.get() == FORMAT_VERSION
            && self.number.get() % PARTS as u64 == position
            && self.checked().is_some_and(|it| self.checksum.get() == cache.checksum(it))
            && behind.is_some_and(is_blank)
    }

    /// The bytes that the checksum covers. `None` if the part announces more entries than it has room for.
    fn checked(&self) -> Option<&[u8]> {
        self.as_bytes().get(CHECKED_FROM..HEADER_BYTES + self.entries() * ENTRY_BYTES)
    }

    /// Ring and number of the block that this part belongs to.
    fn written_as(&self) -> (u32, BlockNumber) {
        (self.ring.get(), BlockNumber::new(self.number.get() / PARTS as u64))
    }

    fn clock(&self) -> u64 {
        self.clock.iter().rev().fold(0, |clock, &byte| clock << 8 | u64::from(byte))
    }

    /// Number of entries that it announces.
    fn entries(&self) -> usize {
        self.counts.iter().chain([&self.table_keys]).map(|count| usize::from(count.get())).sum()
    }

    fn tombstones(&self) -> impl Iterator<Item = Tombstone> {
        let mut end = 0;
        let ends = self.counts.map(|count| {
            end += usize::from(count.get());
            end
        });
        let section = move |at: usize| ends.iter().filter(|end| at >= **end).count();
        let listed = self.entries.iter().take(self.entries()).enumerate();
        listed.map(move |(at, entry)| entry.tombstone(section(at)))
    }
}

fn section_of(entry: &Tombstone) -> usize {
    match entry {
        Tombstone::Key { .. } => 0,
        Tombstone::Record { .. } | Tombstone::Region { .. } => 1,
        Tombstone::Lost { .. } => 2,
        Tombstone::TableKey { .. } => 3,
    }
}

impl TombstoneEntry {
    fn of(tombstone: &Tombstone) -> Self {
        let place = |region: u32, offset: u32| u64::from(region) | u64::from(offset) << 32;
        let words = match *tombstone {
            Tombstone::Key { hash, index } | Tombstone::TableKey { hash, index } => [hash, index],
            Tombstone::Record { region, offset, sequence } => [place(region, offset), sequence],
            Tombstone::Region { region, sequence } => [place(region, ALL_BEFORE), sequence],
            Tombstone::Lost { hash, sequence } => [hash, sequence],
        };
        Self(words.map(U64::new))
    }

    #[allow(clippy::cast_possible_truncation)] // the two halves of a word
    fn tombstone(&self, section: usize) -> Tombstone {
        let [first, second] = self.0.map(U64::get);
        match (section, first as u32, (first >> 32) as u32) {
            (0, ..) => Tombstone::Key { hash: first, index: second },
            (1, region, ALL_BEFORE) => Tombstone::Region { region, sequence: second },
            (1, region, offset) => Tombstone::Record { region, offset, sequence: second },
            (2, ..) => Tombstone::Lost { hash: first, sequence: second },
            _ => Tombstone::TableKey { hash: first, index: second },
        }
    }
}

/// For the fuzzer: gives arbitrary bytes the header of a block, including checksums.
pub(crate) fn forge(bytes: &mut [u8]) {
    let Ok((parts, _)) = <[Part]>::mut_from_prefix_with_elems(bytes, bytes.len() / PART_BYTES)
    else {
        return;
    };
    for part in parts {
        if part.checked().is_none() {
            part.table_keys = 0.into();
        }
        let Some(checksum) = part.checked().map(|checked| CacheId::ZERO.checksum(checked)) else {
            continue;
        };
        (part.magic, part.version) = (BLOCK_MAGIC, FORMAT_VERSION.into());
        part.checksum = checksum.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block(entries: u64) -> LogBlock {
        let keys = (0..entries / 2).map(|n| Tombstone::Key { hash: n * 7, index: n });
        let places = (entries / 2..entries).map(|n| match u32::try_from(n).unwrap() {
            region if region % 3 == 0 => Tombstone::Region { region, sequence: n << 33 },
            region => Tombstone::Record { region, offset: 4 * region, sequence: n << 32 },
        });
        let lost = (0..entries / 3).map(|n| Tombstone::Lost { hash: n * 11, sequence: n << 32 });
        let others = usize::try_from(entries - entries / 3).unwrap();
        let entries = keys.chain(places).take(others).chain(lost).collect();
        let cache = CacheId::ZERO;
        let (number, oldest) = (BlockNumber::new(1 << 40), BlockNumber::new(17));
        LogBlock { cache, ring: 3, number, oldest, clock: 1 << 46, second: 7, entries }
    }

    fn encoded(entries: u64) -> Vec<u8> {
        let mut bytes = vec![0xee; BLOCK_BYTES];
        block(entries).encode(&mut bytes);
        bytes
    }

    #[test]
    fn what_was_encoded_is_parsed() {
        for entries in [0, 1, 2, 100, ENTRIES_MAX as u64] {
            assert_eq!(LogBlock::parse(&encoded(entries), CacheId::ZERO), Some(block(entries)));
        }
        assert_eq!(Slot::look(&[0; BLOCK_BYTES], CacheId::ZERO), Slot::Blank);
        assert_eq!(LogBlock::parse(&[0; BLOCK_BYTES], CacheId::ZERO), None);
        assert_eq!(LogBlock::parse(encoded(5).get(..4000).unwrap(), CacheId::ZERO), None);
        assert_eq!(LogBlock::parse(&encoded(5), CacheId::from_number(1)), None);
    }

    /// Each byte, as described in docs/formats.md.
    #[test]
    fn a_block_is_what_it_was() {
        let bytes = encoded(5);
        let front = bytes.iter().take(128).map(|byte| format!("{byte:02x}"));
        assert_eq!(
            front.collect::<String>(),
            "4c544d4209000000e1a2c51d03000000000000000008000011000000000000000000000000400700000002\
             00020001000000000000000000000000000000000007000000000000000100000000000000020000000800\
             0000000000000200000003000000ffffffff000000000600000000000000000000000000000000000000"
        );
        let sums = [0, 5, 60, ENTRIES_MAX as u64].map(|n| larder_checksum::crc32c(&encoded(n)));
        assert_eq!(sums, [0xb41f_5583, 0xb3f8_4b8b, 0xd3b9_496e, 0x701a_915b]);
    }

    #[test]
    fn keys_of_tables_are_counted_in_front_and_listed_last() {
        let mut block = block(3);
        block.entries.insert(1, Tombstone::TableKey { hash: 0x77, index: 0x99 });
        let mut bytes = vec![0xee; BLOCK_BYTES];
        block.encode(&mut bytes);
        assert_eq!(bytes.get(4..8), Some(&[9, 0, 1, 0][..]));
        assert_eq!(bytes.get(42..48), Some(&[1, 0, 1, 0, 1, 0][..]));
        let last = [&[0x77, 0, 0, 0, 0, 0, 0, 0, 0x99][..], &[0; 24]].concat();
        assert_eq!(bytes.get(96..129), Some(&last[..]));
        let entry = block.entries.remove(1);
        block.entries.push(entry);
        assert_eq!(LogBlock::parse(&bytes, CacheId::ZERO), Some(block));
        for count in [0, 2, 26, u8::MAX] {
            bytes.iter_mut().skip(6).take(1).for_each(|byte| *byte = count);
            assert_eq!(LogBlock::parse(&bytes, CacheId::ZERO), None, "{count}");
        }
    }

    #[test]
    fn what_is_forged_for_the_fuzzer_gets_past_the_checksum() {
        for entries in [0, 1, 5, ENTRIES_MAX as u64] {
            let mut bytes = encoded(entries);
            for part in bytes.chunks_exact_mut(PART_BYTES) {
                part.iter_mut().take(CHECKED_FROM).for_each(|byte| *byte = 0xee);
            }
            forge(&mut bytes);
            assert_eq!(LogBlock::parse(&bytes, CacheId::ZERO), Some(block(entries)));
        }
    }

    /// Tries all combinations of the old and the new version of each sector.
    #[test]
    fn a_torn_rewriting_lacks_nothing_that_was_there_before() {
        let (before, mut after) = (block(40), block(40));
        after.entries.extend((0..150).map(|n| Tombstone::Key { hash: 1 << 60 | n, index: n }));
        (after.clock, after.second) = (before.clock + 9, before.second + 1);
        let [old, new] = [&before, &after].map(|block| {
            let mut bytes = vec![0; BLOCK_BYTES];
            block.encode(&mut bytes);
            bytes
        });
        for which in 0..1_u32 << PARTS {
            let parts = old.chunks_exact(PART_BYTES).zip(new.chunks_exact(PART_BYTES)).enumerate();
            let torn: Vec<u8> = parts
                .flat_map(|(at, (old, new))| if which >> at & 1 == 0 { old } else { new })
                .copied()
                .collect();
            let left = LogBlock::parse(&torn, CacheId::ZERO).expect("each part is whole");
            assert!(before.entries.iter().all(|entry| left.entries.contains(entry)), "{which:b}");
            assert!(left.entries.iter().all(|entry| after.entries.contains(entry)), "{which:b}");
            assert!((before.clock..=after.clock).contains(&left.clock));
        }
    }

    #[test]
    fn a_first_write_that_was_torn_is_told_from_damage() {
        let (mut older, latest) = (block(60), block(30));
        older.number = BlockNumber::new(older.number.get() - 16);
        let mut bytes = [vec![0; BLOCK_BYTES], vec![0; BLOCK_BYTES], vec![0; BLOCK_BYTES]];
        older.encode(&mut bytes[1]);
        latest.encode(&mut bytes[2]);
        let [blank, older_bytes, new] = &bytes;
        for under in [blank, older_bytes] {
            let parts = under.chunks_exact(PART_BYTES).zip(new.chunks_exact(PART_BYTES));
            let mut torn: Vec<u8> = parts
                .enumerate()
                .flat_map(|(at, (old, new))| if (2..5).contains(&at) { old } else { new })
                .copied()
                .collect();
            assert_eq!(Slot::look(&torn, CacheId::ZERO), Slot::Begun(3, latest.number));
            torn.iter_mut().skip(2 * PART_BYTES + 50).take(1).for_each(|byte| *byte ^= 1);
            assert_eq!(Slot::look(&torn, CacheId::ZERO), Slot::Damaged);
        }
        // A part in the place of another one.
        let mut moved = bytes[2].clone();
        moved.copy_within(..PART_BYTES, PART_BYTES);
        assert_eq!(Slot::look(&moved, CacheId::ZERO), Slot::Damaged);
    }

    proptest! {
        #[test]
        fn no_bit_flip_passes(bit in 0..BLOCK_BYTES * 8) {
            let mut bytes = encoded(60);
            if let Some(byte) = bytes.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
            prop_assert_eq!(LogBlock::parse(&bytes, CacheId::ZERO), None);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut block = BLOCK_MAGIC.to_vec();
            block.extend_from_slice(&[3, 0, 0, 0]);
            block.extend_from_slice(&bytes);
            block.resize(BLOCK_BYTES, 0);
            prop_assert_eq!(LogBlock::parse(&block, CacheId::ZERO), None);
        }
    }
}
