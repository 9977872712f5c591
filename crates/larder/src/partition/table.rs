//! The partition table: who has which part of a device. See `docs/formats.md`.

#![deny(clippy::indexing_slicing)]

use std::ops::Range;

use larder_device::label;

use crate::key::KeyHasher;
use crate::le::{u16_at, u32_at, u64_at};

pub(crate) const TABLE_MAGIC: [u8; 8] = label::PARTITION_TABLE_MARK;
pub(crate) const VERSION: u16 = 2;
/// Of before keys were divided among shards under a seed.
const UNSEEDED_VERSION: u16 = 1;
pub(crate) const TABLE_BYTES: usize = 4096;
/// Where the copies are.
pub(crate) const COPIES: [u64; 2] = [0, TABLE_BYTES as u64];
pub(crate) const PARTS_MAX: usize = (TABLE_BYTES - HEADER_BYTES) / PART_BYTES;
pub(crate) const NAME_BYTES_MAX: usize = 64;

const HEADER_BYTES: usize = 64;
const PART_BYTES: usize = 24 + NAME_BYTES_MAX;
const CHECKED_FROM: usize = 16;
const TENANTS: u16 = 1;
const SHARD: u16 = 2;

/// Who has which part of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    /// Grows with each writing.
    pub(crate) generation: u64,
    pub(crate) kind: Kind,
    /// They do not overlap, and have names of their own.
    pub(crate) parts: Vec<Part>,
}

/// What the parts are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Tenants,
    Shard(Membership),
}

/// Which shard of which set a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Membership {
    /// Names the set.
    pub(crate) set: u64,
    pub(crate) number: u16,
    /// Shards of the set.
    pub(crate) count: u16,
    /// A bit for each shard that was not there when the set was last in use.
    pub(crate) out: u64,
    /// Which key belongs to which shard follows from this. All shards of a set have the same.
    pub(crate) hasher: KeyHasher,
}

impl Membership {
    /// Of a device that is no shard.
    const NONE: Self =
        Self { set: 0, number: 0, count: 0, out: 0, hasher: KeyHasher::from_seed(0) };
}

/// One part of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) name: String,
    /// What was asked for, in millionths of the device.
    pub(crate) share_ppm: u32,
    pub(crate) start: u64,
    pub(crate) bytes: u64,
}

impl Part {
    pub(crate) fn range(&self) -> Range<u64> {
        self.start..self.start + self.bytes
    }
}

/// What was found where a table may be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Valid(Table),
    Corrupt,
    OtherVersion(u16),
    /// No table.
    Other,
}

impl Table {
    /// The copy that is to be written at `offset`.
    pub(crate) fn encode(&self, offset: u64) -> Vec<u8> {
        let (kind, membership) = match self.kind {
            Kind::Tenants => (TENANTS, Membership::NONE),
            Kind::Shard(membership) => (SHARD, membership),
        };
        let count = u16::try_from(self.parts.len()).expect("at most as many as fit");
        let mut checked = Vec::with_capacity(TABLE_BYTES - CHECKED_FROM);
        checked.extend_from_slice(&self.generation.to_le_bytes());
        checked.extend_from_slice(&offset.to_le_bytes());
        checked.extend_from_slice(&membership.set.to_le_bytes());
        checked.extend_from_slice(&membership.out.to_le_bytes());
        for number in [membership.number, membership.count, count, kind] {
            checked.extend_from_slice(&number.to_le_bytes());
        }
        checked.extend_from_slice(&membership.hasher.seed().to_le_bytes());
        for part in &self.parts {
            let length = u16::try_from(part.name.len()).expect("names are checked");
            checked.extend_from_slice(&part.start.to_le_bytes());
            checked.extend_from_slice(&part.bytes.to_le_bytes());
            checked.extend_from_slice(&part.share_ppm.to_le_bytes());
            checked.extend_from_slice(&length.to_le_bytes());
            checked.extend_from_slice(&[0; 2]);
            checked.extend_from_slice(part.name.as_bytes());
            checked.resize(checked.len() + NAME_BYTES_MAX - part.name.len(), 0);
        }
        checked.resize(TABLE_BYTES - CHECKED_FROM, 0);
        [
            &TABLE_MAGIC[..],
            &VERSION.to_le_bytes(),
            &[0, 0],
            &crc32c::crc32c(&checked).to_le_bytes(),
            &checked,
        ]
        .concat()
    }

    /// Reads the copy that was found at `offset` of a device.
    pub(crate) fn parse(block: &[u8], offset: u64) -> Found {
        if block.get(..8) != Some(&TABLE_MAGIC[..]) {
            return match label::begins_nearly_with(block, TABLE_MAGIC) {
                true => Found::Corrupt,
                false => Found::Other,
            };
        }
        match u16_at(block, 8) {
            Some(version @ (UNSEEDED_VERSION | VERSION)) => {
                let table = Self::parse_fields(block, offset, version == VERSION);
                table.map_or(Found::Corrupt, Found::Valid)
            }
            Some(version) => Found::OtherVersion(version),
            None => Found::Corrupt,
        }
    }

    fn parse_fields(block: &[u8], offset: u64, has_seed: bool) -> Option<Self> {
        let checked = block.get(CHECKED_FROM..TABLE_BYTES)?;
        let identity = (u16_at(block, 10)?, u32_at(block, 12)?, u64_at(block, 24)?);
        if identity != (0, crc32c::crc32c(checked), offset) {
            return None;
        }
        let membership = Membership {
            set: u64_at(block, 32)?,
            out: u64_at(block, 40)?,
            number: u16_at(block, 48)?,
            count: u16_at(block, 50)?,
            hasher: KeyHasher::from_seed(if has_seed { u64_at(block, 56)? } else { 0 }),
        };
        let kind = match u16_at(block, 54)? {
            TENANTS => Kind::Tenants,
            SHARD if membership.number < membership.count => Kind::Shard(membership),
            _ => return None,
        };
        let count = usize::from(u16_at(block, 52)?);
        if count > PARTS_MAX {
            return None;
        }
        let entries = block.get(HEADER_BYTES..)?.chunks_exact(PART_BYTES).take(count);
        let parts: Vec<Part> = entries.map(Part::parse).collect::<Option<_>>()?;
        are_apart(&parts).then_some(Self { generation: u64_at(block, 16)?, kind, parts })
    }
}

impl Part {
    fn parse(entry: &[u8]) -> Option<Self> {
        let length = usize::from(u16_at(entry, 20)?);
        let name = entry.get(24..24_usize.checked_add(length)?)?;
        let (start, bytes) = (u64_at(entry, 0)?, u64_at(entry, 8)?);
        let behind_table = start >= (COPIES.len() * TABLE_BYTES) as u64;
        let whole = start.is_multiple_of(4096) && bytes.is_multiple_of(4096) && bytes > 0;
        start.checked_add(bytes).filter(|_| behind_table && whole)?;
        Some(Self {
            name: String::from_utf8(name.to_vec()).ok()?,
            share_ppm: u32_at(entry, 16)?,
            start,
            bytes,
        })
    }
}

/// Whether no two overlap or have the same name.
fn are_apart(parts: &[Part]) -> bool {
    parts.iter().enumerate().all(|(i, a)| {
        let mut others = parts.iter().skip(i + 1);
        others.all(|b| {
            let apart = a.range().end <= b.start || b.range().end <= a.start;
            apart && a.name != b.name
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table() -> Table {
        let part = |name: &str, start, bytes| Part {
            name: name.to_owned(),
            share_ppm: 250_000,
            start,
            bytes,
        };
        let hasher = KeyHasher::from_seed(0x1122_3344_5566_7788);
        let membership = Membership { set: 7, number: 2, count: 4, out: 0b1001, hasher };
        let parts = vec![part("photos", 8192, 1 << 20), part("é", 2 << 20, 4096)];
        Table { generation: 3, kind: Kind::Shard(membership), parts }
    }

    #[test]
    fn what_was_written_is_read_again_where_it_was_written() {
        for offset in COPIES {
            let bytes = table().encode(offset);
            assert_eq!(bytes.len(), TABLE_BYTES);
            assert_eq!(Table::parse(&bytes, offset), Found::Valid(table()));
            assert_eq!(Table::parse(&bytes, 4096 - offset), Found::Corrupt, "another place");
        }
        let tenants = Table { kind: Kind::Tenants, ..table() };
        assert_eq!(Table::parse(&tenants.encode(0), 0), Found::Valid(tenants));
        let mut older = table().encode(0);
        older.splice(8..10, 1_u16.to_le_bytes());
        let checksum = crc32c::crc32c(older.get(16..).unwrap());
        older.splice(12..16, checksum.to_le_bytes());
        let Found::Valid(Table { kind: Kind::Shard(unseeded), .. }) = Table::parse(&older, 0)
        else {
            panic!("a table of before seeds")
        };
        assert_eq!((unseeded.set, unseeded.hasher), (7, KeyHasher::UNSEEDED));
        let mut newer = table().encode(0);
        newer.splice(8..10, 9_u16.to_le_bytes());
        assert_eq!(Table::parse(&newer, 0), Found::OtherVersion(9));
        assert_eq!(Table::parse(&[0; TABLE_BYTES], 0), Found::Other);
    }

    #[test]
    fn a_right_checksum_does_not_excuse_parts_that_cannot_be() {
        let refused = |change: &dyn Fn(&mut Vec<Part>)| {
            let mut table = table();
            change(&mut table.parts);
            Table::parse(&table.encode(0), 0) == Found::Corrupt
        };
        assert!(!refused(&|_| {}));
        assert!(refused(&|parts| parts.iter_mut().for_each(|part| part.start = 4096)));
        assert!(refused(&|parts| parts.iter_mut().for_each(|part| part.name = "a".to_owned())));
        assert!(refused(&|parts| parts.iter_mut().for_each(|part| part.start = 1 << 20)));
        assert!(refused(&|parts| parts.iter_mut().for_each(|part| part.bytes = 0)));
        let last = u64::MAX / 4096 * 4096;
        assert!(refused(&|parts| parts.iter_mut().for_each(|part| part.start = last)));
    }

    #[test]
    fn a_full_table_fits() {
        let part = |i: u64| Part {
            name: format!("{i:064}"),
            share_ppm: 0,
            start: (i + 2) * 4096,
            bytes: 4096,
        };
        let parts: Vec<Part> = (0..PARTS_MAX as u64).map(part).collect();
        let table = Table { generation: 1, kind: Kind::Tenants, parts };
        assert_eq!(Table::parse(&table.encode(0), 0), Found::Valid(table));
    }

    proptest! {
        #[test]
        fn no_bit_flip_passes(bit in 0..TABLE_BYTES * 8) {
            let mut block = table().encode(0);
            if let Some(byte) = block.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
            prop_assert!(!matches!(Table::parse(&block, 0), Found::Valid(_)));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            crate::fuzzing::partition_table(&bytes);
        }
    }
}
