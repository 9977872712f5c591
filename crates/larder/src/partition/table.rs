//! The partition table: who has which part of a device. It is the content of a label. Little-endian.
//!
//! ```text
//!  offset  bytes  field
//!       0      8  set: names the set of shards; 0 for tenants alone
//!       8      8  a bit for each shard that is out
//!      16      2  number of this shard
//!      18      2  shards of the set; 0: the device is no shard
//!      20      4  p: number of parts
//!      24      8  seed by which keys are divided among the shards of the set
//!      32   88 p  parts
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
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

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

const _: () = assert!(size_of::<Fixed>() == 32 && size_of::<Entry>() == 88 && PARTS_MAX == 185);

/// Who has which part of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    /// Names it, from its first writing on.
    pub(crate) uuid: Uuid,
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

impl Table {
    /// The content of a label.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let member = match self.kind {
            Kind::Tenants => Membership::NONE,
            Kind::Shard(membership) => membership,
        };
        let fixed = Fixed {
            set: member.set.into(),
            out: member.out.into(),
            number: member.number.into(),
            count: member.count.into(),
            parts: u32::try_from(self.parts.len()).expect("at most as many as fit").into(),
            seed: member.hasher.seed().into(),
        };
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

    /// Reads the content of the label with this UUID and generation. `None` if it cannot be a table.
    pub(crate) fn parse(content: &[u8], uuid: Uuid, generation: u64) -> Option<Self> {
        let (fixed, rest) = Fixed::ref_from_prefix(content).ok()?;
        let membership = Membership {
            set: fixed.set.get(),
            out: fixed.out.get(),
            number: fixed.number.get(),
            count: fixed.count.get(),
            hasher: KeyHasher::from_seed(fixed.seed.get()),
        };
        let kind = match membership {
            Membership::NONE => Kind::Tenants,
            _ if membership.number < membership.count => Kind::Shard(membership),
            _ => return None,
        };
        let count = usize::try_from(fixed.parts.get()).ok().filter(|&count| count <= PARTS_MAX)?;
        let entries = <[Entry]>::ref_from_bytes_with_elems(rest, count).ok()?;
        let parts: Vec<Part> = entries.iter().map(Part::of).collect::<Option<_>>()?;
        are_apart(&parts).then_some(Self { uuid, generation, kind, parts })
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

    fn table() -> Table {
        let part = |name: &str, start, bytes| Part {
            name: name.to_owned(),
            share_ppm: 250_000,
            start,
            bytes,
        };
        let hasher = KeyHasher::from_seed(0x1122_3344_5566_7788);
        let membership = Membership { set: 7, number: 2, count: 4, out: 0b1001, hasher };
        let parts = vec![part("photos", AREA_BYTES, 1 << 20), part("é", 2 << 20, 4096)];
        Table { uuid: UUID, generation: 3, kind: Kind::Shard(membership), parts }
    }

    fn again(table: &Table) -> Option<Table> {
        Table::parse(&table.encode(), table.uuid, table.generation)
    }

    #[test]
    fn what_was_written_is_read_again() {
        let tenants = Table { kind: Kind::Tenants, ..table() };
        for table in [table(), tenants] {
            assert_eq!(again(&table), Some(table.clone()));
            let content = table.encode();
            let short = content.get(..content.len() - 1).unwrap();
            assert_eq!(Table::parse(short, UUID, 3), None, "cut short");
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
        let table = Table { kind: Kind::Tenants, parts, ..table() };
        assert!(table.encode().len() <= CONTENT_BYTES_MAX);
        assert_eq!(again(&table), Some(table));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            crate::fuzzing::partition_table(&bytes);
        }
    }
}
