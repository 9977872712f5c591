//! One block of the tombstone log, as it lies on flash: eight parts, each of which says itself whose it is.
//! Little-endian.
//!
//! A block that is being filled is rewritten in place, and a loss of power may leave any of its sectors of 512 bytes as
//! they were before. So each sector is whole by itself, and what is in one stays there as the block grows: whichever
//! version of each sector is left, all is there that was there before the rewriting began.
//!
//! ```text
//!  part, 512 bytes
//!  offset  bytes  field
//!       0      4  magic "LTMB"
//!       4      2  version of the formats
//!       6      2  reserved, 0
//!       8      4  CRC-32C of the cache's identity (6 bytes) and of bytes 12 to 48 + 16 n
//!      12      4  ring: epoch in which the log began
//!      16      8  number of the block, times 8, plus position of the part; the block lies in slot number mod slots
//!      24      8  number of the oldest block that still counts
//!      32      6  clock: larger than the index of every key so far
//!      38      4  second of the cache's clock in which the part was written
//!      42      2  number of keys
//!      44      2  number of places
//!      46      2  number of lost hashes; n is the sum of all three
//!      48      *  keys, places, lost hashes, 16 bytes each; zeros behind them
//!
//!  key      8  hash
//!           8  index: buckets with a stamp of at most this lost the key
//!  place    4  region
//!           4  offset of a record that is dead; 2^32 - 1: all of the region's fillings before
//!           8  sequence number of the record's filling, or of the first filling that counts
//!  lost     8  hash
//!           8  sequence number: fillings before it lost the large objects of this hash
//! ```

#![deny(clippy::indexing_slicing)]

use crate::le::{u16_at, u32_at, u64_at};
use larder_device::label::FORMAT_VERSION;
use larder_log::CacheId;

pub(crate) const BLOCK_BYTES: usize = 4096;
/// What a loss of power leaves whole or not at all, on every drive.
const PART_BYTES: usize = 512;
const PARTS: usize = BLOCK_BYTES / PART_BYTES;
/// Blocks are counted up to here.
const NUMBER_MAX: u64 = u64::MAX / PARTS as u64;
pub(crate) const BLOCK_MAGIC: [u8; 4] = *b"LTMB";
/// Where the three numbers of entries are.
const COUNTS_AT: [usize; 3] = [42, 44, 46];
/// The clock takes so many bytes: it ends at [`super::CLOCK_MAX`].
const CLOCK_BYTES: usize = 6;
const HEADER_BYTES: usize = 48;
const CHECKED_FROM: usize = 12;
const ENTRY_BYTES: usize = 16;
/// Instead of an offset: the whole region.
const ALL_BEFORE: u32 = u32::MAX;

/// Most entries of a part.
const PART_ENTRIES_MAX: usize = (PART_BYTES - HEADER_BYTES) / ENTRY_BYTES;
/// Most entries of a block.
pub(crate) const ENTRIES_MAX: usize = PARTS * PART_ENTRIES_MAX;

/// What is dead from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Tombstone {
    /// The small object of this hash, in buckets with a stamp of at most `index`.
    Key { hash: u64, index: u64 },
    /// One record of the large-object engine.
    Record { region: u32, offset: u32, sequence: u64 },
    /// Everything that a region held before the filling of this number.
    Region { region: u32, sequence: u64 },
    /// All large objects of this hash in fillings before this number, wherever they are.
    Lost { hash: u64, sequence: u64 },
}

/// A block's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogBlock {
    pub(crate) cache: CacheId,
    pub(crate) ring: u32,
    pub(crate) number: u64,
    pub(crate) oldest: u64,
    pub(crate) clock: u64,
    pub(crate) second: u32,
    /// At most [`ENTRIES_MAX`]. Those that come later stay behind those before them, in the same place. Read back:
    /// keys, then places, then lost hashes of each part.
    pub(crate) entries: Vec<Tombstone>,
}

/// What lies in a slot of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Slot {
    /// Nothing was ever written.
    Blank,
    /// All parts of one block, though maybe of several times that it was written.
    Whole(LogBlock),
    /// Parts of a block beside what was there before: its first write has not ended. Ring and number of the
    /// latest block there.
    Begun(u32, u64),
    /// Something that the log does not leave.
    Damaged,
}

impl Slot {
    /// Looks at a slot of the log of this cache.
    pub(crate) fn look(bytes: &[u8], cache: CacheId) -> Self {
        if bytes.iter().all(|&byte| byte == 0) {
            return Self::Blank;
        }
        let mut parts: Vec<LogBlock> = Vec::with_capacity(PARTS);
        for (position, part) in bytes.chunks(PART_BYTES).enumerate() {
            match parse_part(part, position, cache) {
                Some(part) => parts.push(part),
                None if part.iter().all(|&byte| byte == 0) => {}
                None => return Self::Damaged,
            }
        }
        let of = |part: &LogBlock| (part.ring, part.number);
        let Some((ring, number)) = parts.iter().map(of).max() else { return Self::Damaged };
        let is_whole = parts.len() == PARTS && parts.iter().all(|part| of(part) == (ring, number));
        if !is_whole {
            return Self::Begun(ring, number);
        }
        let most = |field: fn(&LogBlock) -> u64| parts.iter().map(field).max().unwrap_or(0);
        let (oldest, clock) = (most(|part| part.oldest), most(|part| part.clock));
        let second = parts.iter().map(|part| part.second).max().unwrap_or(0);
        let entries = parts.into_iter().flat_map(|part| part.entries).collect();
        Self::Whole(LogBlock { cache, ring, number, oldest, clock, second, entries })
    }
}

impl LogBlock {
    /// Writes the block over `room`, which is [`BLOCK_BYTES`] long.
    pub(crate) fn encode(&self, room: &mut [u8]) {
        assert!(room.len() == BLOCK_BYTES && self.entries.len() <= ENTRIES_MAX);
        assert!(self.number <= NUMBER_MAX, "no cache writes as many blocks");
        let mut entries = self.entries.chunks(PART_ENTRIES_MAX);
        for (position, room) in room.chunks_exact_mut(PART_BYTES).enumerate() {
            self.encode_part(position, entries.next().unwrap_or_default(), room);
        }
    }

    fn encode_part(&self, position: usize, entries: &[Tombstone], room: &mut [u8]) {
        let sections = [0, 1, 2].map(|section| {
            entries.iter().filter(|entry| section_of(entry) == section).collect::<Vec<_>>()
        });
        let narrow = |n: usize| u16::try_from(n).expect("a part has few entries");
        let mut checked = Vec::with_capacity(PART_BYTES);
        checked.extend_from_slice(&self.ring.to_le_bytes());
        for word in [self.number * PARTS as u64 + position as u64, self.oldest] {
            checked.extend_from_slice(&word.to_le_bytes());
        }
        checked.extend(self.clock.to_le_bytes().iter().take(CLOCK_BYTES));
        checked.extend_from_slice(&self.second.to_le_bytes());
        for section in &sections {
            checked.extend_from_slice(&narrow(section.len()).to_le_bytes());
        }
        sections.iter().flatten().for_each(|entry| encode_entry(entry, &mut checked));
        let checksum = self.cache.checksum(&checked).to_le_bytes();
        let encoded =
            [&BLOCK_MAGIC[..], &FORMAT_VERSION.to_le_bytes(), &[0, 0], &checksum, &checked]
                .concat();
        room.fill(0);
        if let Some(front) = room.get_mut(..encoded.len()) {
            front.copy_from_slice(&encoded);
        }
    }

    /// Reads a block of this cache. `None` if it is none, or damaged.
    pub(crate) fn parse(bytes: &[u8], cache: CacheId) -> Option<Self> {
        match Slot::look(bytes, cache) {
            Slot::Whole(block) => Some(block),
            Slot::Blank | Slot::Begun(..) | Slot::Damaged => None,
        }
    }
}

/// Reads the part of a block at this position. `None` if it is none, or damaged.
fn parse_part(bytes: &[u8], position: usize, cache: CacheId) -> Option<LogBlock> {
    let [keys, places, lost] = counts(bytes)?;
    let end = HEADER_BYTES + (keys + places + lost) * ENTRY_BYTES;
    let checked = bytes.get(CHECKED_FROM..end)?;
    let part = u64_at(bytes, 16)?;
    let valid = bytes.len() == PART_BYTES
        && bytes.get(..4)? == BLOCK_MAGIC
        && u16_at(bytes, 4)? == FORMAT_VERSION
        && u16_at(bytes, 6)? == 0
        && u32_at(bytes, 8)? == cache.checksum(checked)
        && part % PARTS as u64 == position as u64
        && bytes.get(end..)?.iter().all(|&byte| byte == 0);
    if !valid {
        return None;
    }
    let listed = bytes.get(HEADER_BYTES..end)?.chunks_exact(ENTRY_BYTES).enumerate();
    let section = |at: usize| usize::from(at >= keys) + usize::from(at >= keys + places);
    let entries: Option<_> = listed.map(|(at, entry)| parse_entry(entry, section(at))).collect();
    Some(LogBlock {
        cache,
        ring: u32_at(bytes, 12)?,
        number: part / PARTS as u64,
        oldest: u64_at(bytes, 24)?,
        clock: u64::from(u32_at(bytes, 32)?) | u64::from(u16_at(bytes, 36)?) << 32,
        second: u32_at(bytes, 38)?,
        entries: entries?,
    })
}

/// The numbers of entries that a part announces.
fn counts(bytes: &[u8]) -> Option<[usize; 3]> {
    let [keys, places, lost] = COUNTS_AT;
    let count = |at: usize| u16_at(bytes, at).map(usize::from);
    Some([count(keys)?, count(places)?, count(lost)?])
}

fn section_of(entry: &Tombstone) -> usize {
    match entry {
        Tombstone::Key { .. } => 0,
        Tombstone::Record { .. } | Tombstone::Region { .. } => 1,
        Tombstone::Lost { .. } => 2,
    }
}

fn encode_entry(entry: &Tombstone, out: &mut Vec<u8>) {
    let place = |region: u32, offset: u32| u64::from(region) | u64::from(offset) << 32;
    let words = match *entry {
        Tombstone::Key { hash, index } => [hash, index],
        Tombstone::Record { region, offset, sequence } => [place(region, offset), sequence],
        Tombstone::Region { region, sequence } => [place(region, ALL_BEFORE), sequence],
        Tombstone::Lost { hash, sequence } => [hash, sequence],
    };
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

fn parse_entry(bytes: &[u8], section: usize) -> Option<Tombstone> {
    let (hash, number) = (u64_at(bytes, 0)?, u64_at(bytes, 8)?);
    match section {
        0 => return Some(Tombstone::Key { hash, index: number }),
        2 => return Some(Tombstone::Lost { hash, sequence: number }),
        _ => {}
    }
    let (region, sequence) = (u32_at(bytes, 0)?, number);
    Some(match u32_at(bytes, 4)? {
        ALL_BEFORE => Tombstone::Region { region, sequence },
        offset => Tombstone::Record { region, offset, sequence },
    })
}

/// Gives arbitrary bytes the marks of a block, checksums included: for the fuzzer.
pub(crate) fn forge(bytes: &mut [u8]) {
    bytes.chunks_exact_mut(PART_BYTES).for_each(forge_part);
}

fn forge_part(bytes: &mut [u8]) {
    let entries: usize = counts(bytes).unwrap_or_default().iter().sum();
    let end = HEADER_BYTES + entries * ENTRY_BYTES;
    let Some(checked) = bytes.get(CHECKED_FROM..end) else { return };
    let checksum = CacheId::ZERO.checksum(checked);
    let marks = [&BLOCK_MAGIC[..], &FORMAT_VERSION.to_le_bytes(), &[0, 0], &checksum.to_le_bytes()]
        .concat();
    if let Some(front) = bytes.get_mut(..marks.len()) {
        front.copy_from_slice(&marks);
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
        LogBlock { cache, ring: 3, number: 1 << 40, oldest: 17, clock: 1 << 46, second: 7, entries }
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

    /// Of each sector one version or the other, in all ways to mix them.
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
        older.number -= 16;
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
        // A part in another's place.
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
