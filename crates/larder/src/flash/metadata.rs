//! The superblock and the snapshot of a clean shutdown. Little-endian.
//!
//! ```text
//!  superblock, at 0            offset  bytes  field
//!                                   0      8  magic "LARDERSB"
//!                                   8      2  version (8; 7 and 4 are the same without a seed: it is 0)
//!                                  10      2  reserved, 0
//!                                  12      4  CRC-32C of bytes 16 to 144 (136 without a seed)
//!                                  16      8  epoch: grows by 1 with each opening and clear
//!                                  24      8  oldest epoch whose buckets are valid
//!                                  32     48  layout: capacity, usable, metadata, LOC offset,
//!                                             SOC offset, buckets (8 bytes each)
//!                                  80      8  layout: regions, region bytes (4 bytes each)
//!                                  88      4  1 after a clean shutdown, else 0
//!                                  92      4  1 if the tombstone log says what a crash leaves
//!                                  96      8  layout: bytes of the tombstone log
//!                                 104      4  epoch in which the tombstone log began
//!                                 108      4  1 if the next field says something
//!                                 112      8  boot of the device in which this was written
//!                                 120      4  layout: segments of the small-object log (24
//!                                             bits), base-2 logarithm of their bytes (8 bits)
//!                                 124      4  latest second that the cache's clock has told
//!                                 128      6  identity of the cache, random
//!                                 134      2  reserved, 0
//!                                 136      8  seed of the hash of keys, random
//!  snapshot, at 4096                0      4  magic "LSNP"
//!                                   4      2  version: 7, or 8 if the tombstone log says which large
//!                                             objects are dead (4 is 7, of before values for flash only)
//!                                   6      2  reserved, 0
//!                                   8      4  CRC-32C of the cache's identity (6 bytes) and of
//!                                             bytes 16 to 32 + length
//!                                  12      4  reserved, 0
//!                                  16      8  length of what follows the header
//!                                  24      8  epoch that wrote it
//!                                  32      *  with a tombstone log: its clock (8), dead keys in
//!                                             buckets (8): n, and their n hashes (8 each);
//!                                             all buckets: filter (16 bytes), generation (2);
//!                                             then the small-object log, if there is one (see
//!                                             `soc/log/snapshot.rs`); then, with large objects,
//!                                             in version 7 the regions (see `loc/snapshot.rs`),
//!                                             in 8 the number of large objects, or ones if not all
//!                                             are known (8)
//! ```

#![deny(clippy::indexing_slicing)]

use larder_device::label;

use crate::engine::DeadRecords;
use crate::identity::CacheId;
use crate::key::KeyHasher;
use crate::layout::Layout;
use crate::le::{u16_at, u32_at, u64_at};

pub(crate) const SUPERBLOCK_MAGIC: [u8; 8] = label::SUPERBLOCK_MARK;
pub(crate) const SNAPSHOT_MAGIC: [u8; 4] = *b"LSNP";
pub(crate) const VERSION: u16 = 8;
/// Those of before keys were hashed under a seed. A flipped bit makes none of these of another: any two
/// differ in two.
const UNSEEDED_VERSION: u16 = 7;
const OLDEST_VERSION: u16 = 4;
pub(crate) const SNAPSHOT_VERSION: u16 = 7;
/// Of a snapshot that leaves it to the tombstone log to say which large objects are dead.
const BESIDE_LOG_VERSION: u16 = 8;

/// Epochs end here: sequence numbers of regions are epochs shifted left by 32 bits.
pub(crate) const EPOCH_MAX: u64 = u32::MAX as u64;
pub(crate) const SUPERBLOCK_BYTES: usize = 4096;
const SUPERBLOCK_USED_BYTES: usize = 144;
const UNSEEDED_USED_BYTES: usize = 136;
const CHECKED_FROM: usize = 16;
pub(crate) const SNAPSHOT_HEADER_BYTES: usize = 32;

/// What the first block of a device says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) clean: bool,
    /// Whether the tombstone log says what of the content a crash has made void.
    pub(crate) recoverable: bool,
    pub(crate) epoch: u64,
    pub(crate) oldest_epoch: u64,
    /// Epoch in which the tombstone log began.
    pub(crate) ring: u32,
    /// See [`larder_device::Device::boot`].
    pub(crate) boot: Option<u64>,
    /// Time went on until this second at least: see [`crate::time`].
    pub(crate) second: u32,
    pub(crate) cache: CacheId,
    /// What the cache has lies where this says.
    pub(crate) hasher: KeyHasher,
    pub(crate) layout: Layout,
}

/// What was found where a superblock should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstBlock {
    /// Nothing: the block is all zeros.
    Blank,
    /// A superblock.
    Valid(Superblock),
    /// A superblock that fails its checksum.
    Corrupt,
    /// A superblock of a version that this program does not know.
    OtherVersion(u16),
    /// Bytes of some other program.
    Foreign,
}

impl Superblock {
    /// Writes the superblock over the first block.
    pub(crate) fn encode(&self, block: &mut [u8]) {
        let layout = &self.layout;
        let mut checked = Vec::with_capacity(SUPERBLOCK_USED_BYTES - CHECKED_FROM);
        for word in [
            self.epoch,
            self.oldest_epoch,
            layout.capacity_bytes,
            layout.usable_bytes,
            layout.metadata_bytes,
            layout.loc_offset,
            layout.soc_offset,
            layout.soc_buckets,
        ] {
            checked.extend_from_slice(&word.to_le_bytes());
        }
        checked.extend_from_slice(&layout.loc_regions.to_le_bytes());
        checked.extend_from_slice(&layout.region_bytes.to_le_bytes());
        checked.extend_from_slice(&u32::from(self.clean).to_le_bytes());
        checked.extend_from_slice(&u32::from(self.recoverable).to_le_bytes());
        checked.extend_from_slice(&layout.tombstone_log_bytes.to_le_bytes());
        checked.extend_from_slice(&self.ring.to_le_bytes());
        checked.extend_from_slice(&u32::from(self.boot.is_some()).to_le_bytes());
        checked.extend_from_slice(&self.boot.unwrap_or(0).to_le_bytes());
        checked.extend_from_slice(&layout.soc_log_word().to_le_bytes());
        checked.extend_from_slice(&self.second.to_le_bytes());
        checked.extend_from_slice(&self.cache.bytes());
        checked.extend_from_slice(&[0, 0]);
        checked.extend_from_slice(&self.hasher.seed().to_le_bytes());
        debug_assert_eq!(checked.len(), SUPERBLOCK_USED_BYTES - CHECKED_FROM);
        let encoded = [
            &SUPERBLOCK_MAGIC[..],
            &VERSION.to_le_bytes(),
            &[0, 0],
            &crc32c::crc32c(&checked).to_le_bytes(),
            &checked,
        ]
        .concat();
        block.fill(0);
        if let Some(room) = block.get_mut(..encoded.len()) {
            room.copy_from_slice(&encoded);
        }
    }

    /// Reads the first block of a device.
    pub(crate) fn parse(block: &[u8]) -> FirstBlock {
        if block.iter().all(|&byte| byte == 0) {
            return FirstBlock::Blank;
        }
        if block.get(..8) != Some(&SUPERBLOCK_MAGIC[..]) {
            // A flipped bit does not make it another program's.
            return match label::begins_nearly_with(block, SUPERBLOCK_MAGIC) {
                true => FirstBlock::Corrupt,
                false => FirstBlock::Foreign,
            };
        }
        match u16_at(block, 8) {
            Some(version @ (OLDEST_VERSION | UNSEEDED_VERSION | VERSION)) => {
                let fields = Self::parse_fields(block, version == VERSION);
                fields.map_or(FirstBlock::Corrupt, FirstBlock::Valid)
            }
            Some(version) => FirstBlock::OtherVersion(version),
            None => FirstBlock::Corrupt,
        }
    }

    fn parse_fields(block: &[u8], has_seed: bool) -> Option<Self> {
        let (used_bytes, seed) = match has_seed {
            true => (SUPERBLOCK_USED_BYTES, u64_at(block, 136)?),
            false => (UNSEEDED_USED_BYTES, 0),
        };
        let checked = block.get(CHECKED_FROM..used_bytes)?;
        if u16_at(block, 10)? != 0 || u32_at(block, 12)? != crc32c::crc32c(checked) {
            return None;
        }
        // The next opening adds 1.
        let epoch = u64_at(block, 16).filter(|&epoch| epoch < EPOCH_MAX)?;
        Some(Self {
            clean: u32_at(block, 88)? == 1,
            recoverable: u32_at(block, 92)? == 1,
            epoch,
            oldest_epoch: u64_at(block, 24)?,
            ring: u32_at(block, 104)?,
            boot: if u32_at(block, 108)? == 1 { Some(u64_at(block, 112)?) } else { None },
            second: u32_at(block, 124)?,
            cache: CacheId::from_number(u64_at(block, 128)?),
            hasher: KeyHasher::from_seed(seed),
            layout: Layout {
                capacity_bytes: u64_at(block, 32)?,
                usable_bytes: u64_at(block, 40)?,
                metadata_bytes: u64_at(block, 48)?,
                tombstone_log_bytes: u64_at(block, 96)?,
                loc_offset: u64_at(block, 56)?,
                soc_offset: u64_at(block, 64)?,
                soc_buckets: u64_at(block, 72)?,
                loc_regions: u32_at(block, 80)?,
                region_bytes: u32_at(block, 84)?,
                ..Layout::with_soc_log(u32_at(block, 120)?, u64_at(block, 64)?)?
            },
        })
    }
}

/// Whether what lies behind a blank first block is blank too, or a snapshot: the user erased the
/// superblock of a cache.
pub(crate) fn is_blank_or_ours(behind: &[u8]) -> bool {
    behind.get(..4) == Some(&SNAPSHOT_MAGIC[..]) || behind.iter().all(|&byte| byte == 0)
}

/// Completes a snapshot: `bytes` begins with room for the header.
pub(crate) fn encode_snapshot(bytes: &mut [u8], records: DeadRecords, cache: CacheId, epoch: u64) {
    let length = bytes.len().saturating_sub(SNAPSHOT_HEADER_BYTES) as u64;
    let mut put = |at: usize, value: &[u8]| {
        if let Some(room) = bytes.get_mut(at..at + value.len()) {
            room.copy_from_slice(value);
        }
    };
    put(0, &SNAPSHOT_MAGIC);
    let version = match records {
        DeadRecords::Listed => SNAPSHOT_VERSION,
        DeadRecords::InLog => BESIDE_LOG_VERSION,
    };
    put(4, &version.to_le_bytes());
    put(6, &[0; 10]);
    put(16, &length.to_le_bytes());
    put(24, &epoch.to_le_bytes());
    let checksum = cache.checksum(bytes.get(CHECKED_FROM..).unwrap_or(&[]));
    if let Some(room) = bytes.get_mut(8..12) {
        room.copy_from_slice(&checksum.to_le_bytes());
    }
}

/// How long the snapshot is that begins with this header, header included. Not yet checked.
pub(crate) fn announced_snapshot_bytes(header: &[u8], room: u64) -> Option<usize> {
    let length = u64_at(header, 16)?;
    let total = length.checked_add(SNAPSHOT_HEADER_BYTES as u64)?;
    let plausible = header.get(..4) == Some(&SNAPSHOT_MAGIC[..])
        && matches!(
            u16_at(header, 4),
            Some(OLDEST_VERSION | SNAPSHOT_VERSION | BESIDE_LOG_VERSION)
        )
        && total <= room;
    if plausible { usize::try_from(total).ok() } else { None }
}

/// Checks a snapshot, and returns who says what is dead, and what follows its header.
pub(crate) fn parse_snapshot(
    bytes: &[u8],
    cache: CacheId,
    epoch: u64,
) -> Option<(DeadRecords, &[u8])> {
    let total = announced_snapshot_bytes(bytes, bytes.len() as u64)?;
    let whole = bytes.get(..total)?;
    let valid = u16_at(whole, 6)? == 0
        && u32_at(whole, 12)? == 0
        && u32_at(whole, 8)? == cache.checksum(whole.get(CHECKED_FROM..)?)
        && u64_at(whole, 24)? == epoch;
    let records = match u16_at(whole, 4)? {
        BESIDE_LOG_VERSION => DeadRecords::InLog,
        _ => DeadRecords::Listed,
    };
    if valid { Some((records, whole.get(SNAPSHOT_HEADER_BYTES..)?)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn superblock() -> Superblock {
        let layout = Layout {
            capacity_bytes: 1,
            usable_bytes: 2,
            metadata_bytes: 3,
            tombstone_log_bytes: 9,
            loc_offset: 4,
            loc_regions: 5,
            region_bytes: 6,
            soc_offset: 7 << 20,
            soc_buckets: 8,
            soc_log_offset: (7 << 20) - 5 * 8192,
            soc_log_segments: 5,
            soc_log_segment_bytes: 8192,
        };
        Superblock {
            clean: true,
            recoverable: true,
            epoch: 9,
            oldest_epoch: 7,
            ring: 6,
            boot: Some(5),
            second: 1000,
            cache: CacheId::from_number(77),
            hasher: KeyHasher::from_seed(0x1122_3344_5566_7788),
            layout,
        }
    }

    fn encoded() -> Vec<u8> {
        let mut block = vec![1; SUPERBLOCK_BYTES];
        superblock().encode(&mut block);
        block
    }

    #[test]
    fn superblocks_are_told_from_other_things() {
        assert_eq!(Superblock::parse(&encoded()), FirstBlock::Valid(superblock()));
        assert_eq!(Superblock::parse(&[0; SUPERBLOCK_BYTES]), FirstBlock::Blank);
        assert_eq!(Superblock::parse(&[7; SUPERBLOCK_BYTES]), FirstBlock::Foreign);
        let mut newer = encoded();
        newer.get_mut(8..10).unwrap().copy_from_slice(&9_u16.to_le_bytes());
        assert_eq!(Superblock::parse(&newer), FirstBlock::OtherVersion(9));
        for bit in 0..64 {
            let mut damaged = encoded();
            *damaged.get_mut(bit / 8).unwrap() ^= 1 << (bit % 8);
            assert_eq!(Superblock::parse(&damaged), FirstBlock::Corrupt, "bit {bit} of the magic");
        }
    }

    #[test]
    fn a_snapshot_belongs_to_its_cache_and_epoch() {
        let mut bytes = vec![0; SNAPSHOT_HEADER_BYTES];
        bytes.extend_from_slice(b"content");
        encode_snapshot(&mut bytes, DeadRecords::InLog, CacheId::ZERO, 4);
        bytes.resize(4096, 0xee);
        assert_eq!(announced_snapshot_bytes(&bytes, 39), Some(39));
        assert_eq!(announced_snapshot_bytes(&bytes, 38), None);
        let parsed = parse_snapshot(&bytes, CacheId::ZERO, 4);
        assert_eq!(parsed, Some((DeadRecords::InLog, &b"content"[..])));
        assert_eq!(parse_snapshot(&bytes, CacheId::ZERO, 5), None);
        assert_eq!(parse_snapshot(&bytes, CacheId::from_number(1), 4), None);
    }

    proptest! {
        #[test]
        fn no_bit_flip_passes(bit in 0..SUPERBLOCK_USED_BYTES * 8) {
            let mut block = encoded();
            if let Some(byte) = block.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
            prop_assert!(!matches!(Superblock::parse(&block), FirstBlock::Valid(_)));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut block = SUPERBLOCK_MAGIC.to_vec();
            block.extend_from_slice(&bytes);
            let _ = Superblock::parse(&block);
            let mut snapshot = SNAPSHOT_MAGIC.to_vec();
            snapshot.extend_from_slice(&bytes);
            prop_assert!(parse_snapshot(&snapshot, CacheId::ZERO, 0).is_none());
        }
    }
}
