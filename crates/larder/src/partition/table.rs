//! The partition table: who has which part of a device. It is the content of a label. Little-endian.
//!
//! ```text
//!  offset  bytes  field
//!       0      8  set: names the set of shards; 0: the device is no shard, and all up to 20 and the seed are 0
//!       8      8  a bit for each shard that is out
//!      16      2  number of this shard
//!      18      2  shards of the set, at most 64
//!      20      4  p: number of parts
//!      24      8  seed by which keys are divided among the shards of the set
//!      32  64·16  UUID of the table of each shard's device, zeros for none; all zeros too if the device is no shard
//!    1056   88 p  parts: one for each tenant, or one that is called "shard"
//!
//!  part
//!       0      8  start, from the beginning of the device
//!       8      8  bytes, more than 0
//!      16      4  what was asked for, in millionths of the device
//!      20      2  n: bytes of the name, at most 64
//!      22      2  reserved, 0
//!      24      n  name, UTF-8, and zeros up to 64 bytes
//! ```

#![deny(clippy::indexing_slicing)]

use std::ops::Range;

use larder_device::label::{AREA_BYTES, CONTENT_BYTES_MAX, Uuid};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::membership::{Membership, Roster, SHARDS_MAX, ShardMask, ShardNumber};
use crate::key::KeyHasher;

pub(crate) const PARTS_MAX: usize = (CONTENT_BYTES_MAX - size_of::<Fixed>()) / size_of::<Entry>();
pub(crate) const NAME_BYTES_MAX: usize = 64;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Fixed {
    set: U64,
    out: U64,
    number: U16,
    count: U16,
    parts: U32,
    seed: U64,
    roster: [[u8; 16]; SHARDS_MAX],
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Entry {
    start: U64,
    bytes: U64,
    share_ppm: U32,
    name_bytes: U16,
    reserved: U16,
    name: [u8; NAME_BYTES_MAX],
}

const _: () = assert!(size_of::<Fixed>() == 1056 && size_of::<Entry>() == 88 && PARTS_MAX == 173);

/// Who has which part of a device, and which shard of a set the device is, if it is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartitionTable {
    /// Names it, from its first writing on.
    pub(crate) uuid: Uuid,
    /// Grows with each writing.
    pub(crate) generation: u64,
    pub(crate) membership: Option<Membership>,
    /// They do not overlap, and have names of their own.
    pub(crate) parts: Vec<Part>,
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

impl PartitionTable {
    /// The content of a label.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let parts = u32::try_from(self.parts.len()).expect("at most as many as fit").into();
        let fixed = Fixed { parts, ..Fixed::of(self.membership) };
        let mut content = fixed.as_bytes().to_vec();
        for part in &self.parts {
            let mut name = [0; NAME_BYTES_MAX];
            let room = name.get_mut(..part.name.len()).expect("names are checked");
            room.copy_from_slice(part.name.as_bytes());
            let entry = Entry {
                start: part.start.into(),
                bytes: part.bytes.into(),
                share_ppm: part.share_ppm.into(),
                name_bytes: u16::try_from(part.name.len()).expect("names are checked").into(),
                reserved: 0.into(),
                name,
            };
            content.extend_from_slice(entry.as_bytes());
        }
        content
    }

    /// Whether it would be taken for a table when it is read again.
    pub(super) fn is_possible(&self) -> bool {
        let fits = self.parts.len() <= PARTS_MAX && are_apart(&self.parts);
        let is_itself = |member: &Membership| member.roster.has(member.number, self.uuid);
        fits && self.membership.is_none_or(|member| member.is_possible() && is_itself(&member))
    }

    /// Reads the content of the label with this UUID and generation. `None` if it cannot be a table.
    pub(crate) fn parse(content: &[u8], uuid: Uuid, generation: u64) -> Option<Self> {
        let (fixed, rest) = Fixed::ref_from_prefix(content).ok()?;
        let membership = fixed.membership()?;
        let count = usize::try_from(fixed.parts.get()).ok().filter(|&count| count <= PARTS_MAX)?;
        let entries = <[Entry]>::ref_from_bytes_with_elems(rest, count).ok()?;
        let parts: Vec<Part> = entries.iter().map(Part::of).collect::<Option<_>>()?;
        Some(Self { uuid, generation, membership, parts }).filter(Self::is_possible)
    }
}

impl Fixed {
    /// With no part yet.
    fn of(membership: Option<Membership>) -> Self {
        let nothing = Self::new_zeroed();
        let Some(member) = membership else { return nothing };
        let number = u16::try_from(member.number.index()).expect("below 64");
        Self {
            set: member.set.into(),
            out: member.out.bits().into(),
            number: number.into(),
            count: member.count.into(),
            seed: member.hasher.seed().into(),
            roster: member.roster.uuids(),
            ..nothing
        }
    }

    /// `None` if it cannot be; `Some(None)` of a device that is no shard.
    fn membership(&self) -> Option<Option<Membership>> {
        let numbers = [self.set.get(), self.out.get(), self.seed.get()];
        if numbers == [0; 3] && self.number.get() == 0 && self.count.get() == 0 {
            return Some(None);
        }
        let member = Membership {
            set: self.set.get(),
            number: ShardNumber::new(usize::from(self.number.get()))?,
            count: self.count.get(),
            out: ShardMask::from_bits(self.out.get()),
            roster: Roster::from_uuids(self.roster),
            hasher: KeyHasher::from_seed(self.seed.get()),
        };
        member.is_possible().then_some(Some(member))
    }
}

impl Part {
    fn of(entry: &Entry) -> Option<Self> {
        let name = entry.name.get(..usize::from(entry.name_bytes.get()))?;
        let (start, bytes) = (entry.start.get(), entry.bytes.get());
        let behind_label = start >= AREA_BYTES;
        let whole = start.is_multiple_of(4096) && bytes.is_multiple_of(4096) && bytes > 0;
        start.checked_add(bytes).filter(|_| behind_label && whole)?;
        Some(Self {
            name: String::from_utf8(name.to_vec()).ok()?,
            share_ppm: entry.share_ppm.get(),
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

    const UUID: Uuid = Uuid::from_bytes([7; 16]);

    fn table() -> PartitionTable {
        let part = |name: &str, start, bytes| Part {
            name: name.to_owned(),
            share_ppm: 250_000,
            start,
            bytes,
        };
        let hasher = KeyHasher::from_seed(0x1122_3344_5566_7788);
        let number = ShardNumber::new(2).unwrap();
        let out = ShardMask::from_bits(0b1001);
        let roster = Roster::EMPTY.with(number, UUID);
        let membership = Some(Membership { set: 7, number, count: 4, out, roster, hasher });
        let parts = vec![part("photos", AREA_BYTES, 1 << 20), part("é", 2 << 20, 4096)];
        PartitionTable { uuid: UUID, generation: 3, membership, parts }
    }

    fn again(table: &PartitionTable) -> Option<PartitionTable> {
        PartitionTable::parse(&table.encode(), table.uuid, table.generation)
    }

    #[test]
    fn what_was_written_is_read_again() {
        let tenants = PartitionTable { membership: None, ..table() };
        for table in [table(), tenants] {
            assert_eq!(again(&table), Some(table.clone()));
            let content = table.encode();
            let short = content.get(..content.len() - 1).unwrap();
            assert_eq!(PartitionTable::parse(short, UUID, 3), None, "cut short");
        }
    }

    #[test]
    fn a_right_checksum_does_not_excuse_parts_that_cannot_be() {
        let refused = |change: &dyn Fn(&mut Vec<Part>)| {
            let mut table = table();
            change(&mut table.parts);
            again(&table).is_none()
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
            start: AREA_BYTES + i * 4096,
            bytes: 4096,
        };
        let parts: Vec<Part> = (0..PARTS_MAX as u64).map(part).collect();
        let table = PartitionTable { parts, ..table() };
        assert!(table.encode().len() <= CONTENT_BYTES_MAX);
        assert_eq!(again(&table), Some(table));
    }

    #[test]
    fn a_right_checksum_does_not_excuse_a_set_that_cannot_be() {
        let changed = |at: usize, value: u8| {
            let mut content = table().encode();
            *content.get_mut(at).unwrap() = value;
            PartitionTable::parse(&content, UUID, 3)
        };
        assert!(changed(16, 3).is_none(), "a number that is not this device's");
        assert!(changed(16, 4).is_none(), "a number that the set has not");
        assert!(changed(18, 65).is_none(), "more shards than a set has");
        assert!(changed(8, 0b1_0001).is_none(), "a shard is out that the set has not");
        assert!(changed(18, 64).is_some());
        assert!(changed(32, 1).is_some(), "another device is another shard");
        assert!(changed(32 + 16 * 2, 1).is_none(), "another device is this shard");
        assert!(changed(32 + 16 * 4, 1).is_none(), "a device is a shard that the set has not");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            crate::fuzzing::partition_table(&bytes);
        }
    }
}
