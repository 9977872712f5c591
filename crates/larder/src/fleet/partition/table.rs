//! The partition table: which tenant or shard has which part of a device. It is the content of a label. Little-endian.
//!
//! ```text
//!    offset  bytes  field
//!         0      8  set: names the set of shards; 0: the device belongs to none, and all but p are 0
//!         8      4  epoch of the set, from 1
//!        12      2  number of this shard; 65535: a spare
//!        14      2  s: shards of the set, at most 128
//!        16      4  p: number of parts
//!        20      2  m: entries of moved keys, at most 64
//!        22      2  reserved, 0
//!        24      8  seed by which keys are divided among the shards of the set
//!        32   28 s  shards of the set
//! 32 + 28 s   24 m  entries of moved keys
//! then        88 p  parts: one for each tenant, or one that is called "shard"
//!
//!  shard
//!         0     16  UUID of the table of the device that served as it last, zeros for none
//!        16      4  weight, from 1
//!        20      4  epoch in which it failed or was retired the last time, 0 for never
//!        24      1  state: 1 healthy, 2 failed, 3 refilling, 4 retired
//!        25      3  reserved, 0
//!
//!  moved keys
//!         0      1  number of the shard that has the keys by their hash
//!         1      1  number of the other shard that has, or had, a range of them
//!         2      2  first part of the range, of 10,000
//!         4      2  part after the last one, at most 10,000
//!         6      1  0: the keys are at home at the other shard, 1: they are back
//!         7      1  reserved, 0
//!         8      4  epoch in the names of the keys at the other shard
//!        12      4  reserved, 0
//!        16      8  when keys of the entry were moved the last time, in seconds since 1970
//!
//!  part
//!         0      8  start, from the beginning of the device
//!         8      8  bytes, more than 0
//!        16      4  what was asked for, in millionths of the device
//!        20      2  n: bytes of the name, at most 64
//!        22      2  reserved, 0
//!        24      n  name, UTF-8, and zeros up to 64 bytes
//! ```

#![deny(clippy::indexing_slicing)]

use std::ops::Range;

use larder_device::label::{AREA_BYTES, CONTENT_BYTES_MAX, Uuid};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::membership::{Membership, Role, Seat, ShardStanding, ShardState};
use super::moved::{MOVED_MAX, MovedKeys};
use super::shard_number::{SHARDS_MAX, ShardNumber};
use crate::base::key::KeyHasher;

pub(crate) const PARTS_MAX: usize = 173;
pub(crate) const NAME_BYTES_MAX: usize = 64;

/// The number of a device that is not a shard yet.
const SPARE: u16 = u16::MAX;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct FixedPart {
    set: U64,
    epoch: U32,
    number: U16,
    seats: U16,
    parts: U32,
    moved: U16,
    reserved: U16,
    seed: U64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct SeatEntry {
    device: [u8; 16],
    weight: U32,
    since: U32,
    state: u8,
    reserved: [u8; 3],
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct MovedEntry {
    from: u8,
    to: u8,
    begin: U16,
    end: U16,
    is_back: u8,
    reserved: u8,
    since: U32,
    reserved2: U32,
    moved_at_s: U64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct MemberEntry {
    start: U64,
    bytes: U64,
    share_ppm: U32,
    name_bytes: U16,
    reserved: U16,
    name: [u8; NAME_BYTES_MAX],
}

const _: () = assert!(size_of::<FixedPart>() == 32 && size_of::<SeatEntry>() == 28);
const _: () = assert!(size_of::<MovedEntry>() == 24);
const _: () =
    assert!(size_of::<FixedPart>() + PARTS_MAX * size_of::<MemberEntry>() <= CONTENT_BYTES_MAX);

/// The parts of a device, and which shard of a set the device is, if it is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartitionTable {
    /// Identifies the table; constant from its first write on.
    pub(crate) uuid: Uuid,
    /// Grows with each write.
    pub(crate) generation: u64,
    pub(crate) membership: Option<Membership>,
    /// They do not overlap, and have different names.
    pub(crate) parts: Vec<Part>,
}

/// One part of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) name: String,
    /// The requested share, in millionths of the device.
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
    /// Encodes the content of a label.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let parts = u32::try_from(self.parts.len()).expect("at most as many as fit").into();
        let fixed = FixedPart { parts, ..FixedPart::of(self.membership.as_ref()) };
        let mut content = fixed.as_bytes().to_vec();
        for seat in self.seats() {
            content.extend_from_slice(SeatEntry::of(seat).as_bytes());
        }
        for moved in self.moved() {
            content.extend_from_slice(MovedEntry::of(moved).as_bytes());
        }
        for part in &self.parts {
            let mut name = [0; NAME_BYTES_MAX];
            let room = name.get_mut(..part.name.len()).expect("names are checked");
            room.copy_from_slice(part.name.as_bytes());
            let entry = MemberEntry {
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

    fn seats(&self) -> &[Seat] {
        self.membership.as_ref().map_or(&[], |member| &member.seats)
    }

    fn moved(&self) -> &[MovedKeys] {
        self.membership.as_ref().map_or(&[], |member| &member.moved)
    }

    /// Whether it would be accepted as a table when it is read again.
    pub(crate) fn is_possible(&self) -> bool {
        let bytes = size_of::<FixedPart>()
            + self.seats().len() * size_of::<SeatEntry>()
            + self.moved().len() * size_of::<MovedEntry>()
            + self.parts.len() * size_of::<MemberEntry>();
        let is_itself = |member: &Membership| match member.role {
            Role::Shard(number) => {
                member.seats.get(number.index()).is_some_and(|seat| seat.device == self.uuid)
            }
            Role::Spare => self.parts.is_empty(),
        };
        bytes <= CONTENT_BYTES_MAX
            && are_apart(&self.parts)
            && self.membership.as_ref().is_none_or(|it| it.is_possible() && is_itself(it))
    }

    /// Parses the content of the label with this UUID and generation. `None` if it is not a valid table.
    pub(crate) fn parse(content: &[u8], uuid: Uuid, generation: u64) -> Option<Self> {
        let (fixed, rest) = FixedPart::ref_from_prefix(content).ok()?;
        let seats = usize::from(fixed.seats.get());
        let (seats, rest) = <[SeatEntry]>::ref_from_prefix_with_elems(rest, seats).ok()?;
        let moved = usize::from(fixed.moved.get());
        let (moved, rest) = <[MovedEntry]>::ref_from_prefix_with_elems(rest, moved).ok()?;
        let membership = fixed.membership(seats, moved)?;
        let count = usize::try_from(fixed.parts.get()).ok().filter(|&count| count <= PARTS_MAX)?;
        let entries = <[MemberEntry]>::ref_from_bytes_with_elems(rest, count).ok()?;
        let parts: Vec<Part> = entries.iter().map(Part::of).collect::<Option<_>>()?;
        Some(Self { uuid, generation, membership, parts }).filter(Self::is_possible)
    }
}

impl FixedPart {
    /// The fixed fields, without any part.
    fn of(membership: Option<&Membership>) -> Self {
        let nothing = Self::new_zeroed();
        let Some(member) = membership else { return nothing };
        let number = match member.role {
            Role::Shard(number) => u16::try_from(number.index()).expect("below 128"),
            Role::Spare => SPARE,
        };
        Self {
            set: member.set.into(),
            epoch: member.epoch.into(),
            number: number.into(),
            seats: u16::try_from(member.seats.len()).expect("at most 128").into(),
            moved: u16::try_from(member.moved.len()).expect("at most 64").into(),
            seed: member.hasher.seed().into(),
            ..nothing
        }
    }

    /// `None` if it is invalid; `Some(None)` for a device that belongs to no set.
    fn membership(&self, seats: &[SeatEntry], moved: &[MovedEntry]) -> Option<Option<Membership>> {
        let numbers = [self.set.get(), self.epoch.get().into(), self.seed.get()];
        if numbers == [0; 3] && self.number.get() == 0 && seats.len() + moved.len() == 0 {
            return Some(None);
        }
        let role = match self.number.get() {
            SPARE => Role::Spare,
            number => Role::Shard(ShardNumber::new(usize::from(number))?),
        };
        if seats.len() > SHARDS_MAX || moved.len() > MOVED_MAX {
            return None;
        }
        let member = Membership {
            set: self.set.get(),
            role,
            epoch: self.epoch.get(),
            hasher: KeyHasher::from_seed(self.seed.get()),
            seats: seats.iter().map(SeatEntry::seat).collect::<Option<_>>()?,
            moved: moved.iter().map(MovedEntry::moved).collect::<Option<_>>()?,
        };
        member.is_possible().then_some(Some(member))
    }
}

impl SeatEntry {
    fn of(seat: &Seat) -> Self {
        let ShardStanding { state, weight, since } = seat.standing;
        let state = match state {
            ShardState::Healthy => 1,
            ShardState::Failed => 2,
            ShardState::Refilling => 3,
            ShardState::Retired => 4,
        };
        Self {
            device: seat.device.bytes(),
            weight: weight.into(),
            since: since.into(),
            state,
            reserved: [0; 3],
        }
    }

    fn seat(&self) -> Option<Seat> {
        let state = ShardState::ALL.get(usize::from(self.state).checked_sub(1)?)?;
        let (weight, since) = (self.weight.get(), self.since.get());
        let standing = ShardStanding { state: *state, weight, since };
        Some(Seat { device: Uuid::from_bytes(self.device), standing })
    }
}

impl MovedEntry {
    fn of(moved: &MovedKeys) -> Self {
        let number = |shard: ShardNumber| u8::try_from(shard.index()).expect("below 128");
        Self {
            from: number(moved.from),
            to: number(moved.to),
            begin: moved.begin.into(),
            end: moved.end.into(),
            is_back: u8::from(moved.is_back),
            reserved: 0,
            since: moved.since.into(),
            reserved2: 0.into(),
            moved_at_s: moved.moved_at_s.into(),
        }
    }

    fn moved(&self) -> Option<MovedKeys> {
        Some(MovedKeys {
            from: ShardNumber::new(self.from.into())?,
            to: ShardNumber::new(self.to.into())?,
            begin: self.begin.get(),
            end: self.end.get(),
            is_back: match self.is_back {
                0 => false,
                1 => true,
                _ => return None,
            },
            since: self.since.get(),
            moved_at_s: self.moved_at_s.get(),
        })
    }
}

impl Part {
    fn of(entry: &MemberEntry) -> Option<Self> {
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

/// Whether no two parts overlap or have the same name.
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

    fn moved(from: usize, to: usize, parts: Range<u16>) -> MovedKeys {
        let shard = |number| ShardNumber::new(number).unwrap();
        let (from, to, is_back) = (shard(from), shard(to), from == 3);
        let (begin, end) = (parts.start, parts.end);
        MovedKeys { from, to, begin, end, is_back, since: 8, moved_at_s: 1 << 40 }
    }

    fn table() -> PartitionTable {
        let part = |name: &str, start, bytes| Part {
            name: name.to_owned(),
            share_ppm: 250_000,
            start,
            bytes,
        };
        let hasher = KeyHasher::from_seed(0x1122_3344_5566_7788);
        let seat = |device, state, since| Seat {
            device: Uuid::from_bytes([device; 16]),
            standing: ShardStanding { state, weight: 5, since },
        };
        let seats = vec![
            seat(1, ShardState::Failed, 9),
            seat(0, ShardState::Retired, 4),
            seat(7, ShardState::Refilling, 3),
            seat(3, ShardState::Healthy, 0),
        ];
        let role = Role::Shard(ShardNumber::new(2).unwrap());
        let moved = vec![moved(0, 3, 0..300), moved(0, 2, 300..310), moved(3, 0, 0..10_000)];
        let membership = Some(Membership { set: 7, role, epoch: 9, hasher, seats, moved });
        let parts = vec![part("photos", AREA_BYTES, 1 << 20), part("é", 2 << 20, 4096)];
        PartitionTable { uuid: UUID, generation: 3, membership, parts }
    }

    fn again(table: &PartitionTable) -> Option<PartitionTable> {
        PartitionTable::parse(&table.encode(), table.uuid, table.generation)
    }

    #[test]
    fn what_was_written_is_read_again() {
        let tenants = PartitionTable { membership: None, ..table() };
        let member = table().membership.map(|member| Membership { role: Role::Spare, ..member });
        let spare = PartitionTable { membership: member, parts: Vec::new(), ..table() };
        for table in [table(), tenants, spare] {
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
        let table = PartitionTable { membership: None, parts, ..table() };
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
        let seat = |number: usize, at: usize| 32 + 28 * number + at;
        assert!(changed(8, 8).is_none(), "a shard failed in an epoch to come");
        assert!(changed(12, 3).is_none(), "a number that is not this device's");
        assert!(changed(12, 4).is_none(), "a number that the set has not");
        assert!(changed(14, 3).is_none(), "fewer shards than there are");
        assert!(changed(seat(0, 0), 9).is_some(), "another device is another shard");
        assert!(changed(seat(2, 0), 9).is_none(), "another device is this shard");
        assert!(changed(seat(0, 16), 0).is_none(), "a shard without a weight");
        assert!(changed(seat(1, 20), 0).is_none(), "a shard that was retired in no epoch");
        assert!(changed(seat(0, 24), 0).is_none() && changed(seat(0, 24), 5).is_none());
        assert!(changed(seat(3, 24), 3).is_some(), "an added one refills, and never failed");
        let moved = |number: usize, at: usize| seat(4, 24 * number + at);
        assert!(changed(moved(0, 0), 9).is_none(), "keys of a shard that the set has not");
        assert!(changed(moved(0, 1), 0).is_none(), "keys that moved to their own shard");
        assert!(changed(moved(1, 2), 0).is_none(), "ranges overlap: 256 is in both");
        assert!(changed(moved(2, 5), 255).is_none(), "more parts than there are");
        assert!(changed(moved(0, 6), 1).is_some() && changed(moved(0, 6), 2).is_none());
        assert!(changed(moved(0, 8), 10).is_none() && changed(moved(0, 8), 0).is_none());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            crate::fuzzing::partition_table(&bytes);
        }
    }
}
