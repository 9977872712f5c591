//! Values longer than a region: in parts, and a head that says which.
//!
//! Each part is a record of its own, and so is the head, which is appended last:
//!
//! ```text
//!          key                                            value
//!   part   hash of the key (8), number (4), stamp (8)     bytes of the value
//!   head   the key                                        length (8), parts (4), 0 (4), stamp (8)
//! ```
//!
//! A stamp is never used twice, so that parts of two versions are never put together. What a head asks
//! for and does not find makes the whole value a miss. A part is found through its head only: when the
//! head is dead, its parts are dead without a tombstone, and lie there until their regions are
//! reclaimed. So nothing is to be done about them when a set fails half way, nor when its caller
//! gives up and comes again with another stamp.
//!
//! Part and head are reclaimed, kept and found after a crash like everybody else, each for itself. A
//! hit on the value is one on each part.

use std::sync::atomic::Ordering;

use larder_log::RegionIdentity;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::index::Location;
use super::{Loc, object_bytes_max};
use crate::item::{Fetched, ItemRef, Kind};
use crate::key::{KeyHash, VALUE_BYTES_MAX};
use crate::removal::RemovalReason;
use crate::side_by_side::together;
use crate::tier::Tier;

/// So many parts fill a region. What does not fit its end stays unused: with an eighth, that is a
/// sixteenth of a region on average. Smaller parts would cost more memory of the index and reads.
const PARTS_IN_REGION: u32 = 8;
/// The longest object takes this part of the engine: its first parts must not be the next to be
/// reclaimed when its last ones come, and others have to live too.
const SHARE: u64 = 4;
const PART_KEY_BYTES: usize = size_of::<PartKey>();
const HEAD_BYTES: usize = size_of::<StoredHead>();
const _: () = assert!(PART_KEY_BYTES == 20 && HEAD_BYTES == 24);
/// Parts that are read side by side.
const READS_AT_ONCE: u32 = 16;
/// How often to look again for a part that moved while it was read.
const LOOKS: usize = 3;

/// Longest object (key and value) that so many regions of this size hold, in parts or whole.
pub(crate) fn long_object_bytes_max(regions: u32, region_bytes: u32) -> usize {
    let share = u64::from(regions) * u64::from(region_bytes) / SHARE;
    usize::try_from(share).unwrap_or(usize::MAX).max(object_bytes_max(region_bytes))
}

/// Whether the head of a long value fits a region.
pub(crate) fn has_room_for_head(key_bytes: usize, region_bytes: u32) -> bool {
    key_bytes + HEAD_BYTES <= object_bytes_max(region_bytes)
}

/// Longest value of a part.
fn part_bytes(region_bytes: u32) -> usize {
    let object_bytes = object_bytes_max(region_bytes / PARTS_IN_REGION);
    object_bytes.saturating_sub(PART_KEY_BYTES).max(1)
}

/// The key of a part.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct PartKey {
    hash: U64,
    number: U32,
    stamp: U64,
}

/// The value of a head.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct StoredHead {
    value_bytes: U64,
    parts: U32,
    reserved: U32,
    stamp: U64,
}

/// What the value of a head says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    value_bytes: usize,
    parts: u32,
    stamp: u64,
}

impl Head {
    fn encode(self) -> [u8; HEAD_BYTES] {
        debug_assert!(self.parts as usize <= self.value_bytes, "no part is empty: {self:?}");
        debug_assert!(self.value_bytes <= VALUE_BYTES_MAX, "it would not be read back: {self:?}");
        let stored = StoredHead {
            value_bytes: (self.value_bytes as u64).into(),
            parts: self.parts.into(),
            reserved: 0.into(),
            stamp: self.stamp.into(),
        };
        zerocopy::transmute!(stored)
    }

    /// `None` if there is no such value.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let stored = StoredHead::ref_from_bytes(bytes).ok()?;
        let value_bytes = usize::try_from(stored.value_bytes.get()).ok()?;
        let (parts, stamp) = (stored.parts.get(), stored.stamp.get());
        let is_possible = value_bytes <= VALUE_BYTES_MAX
            && usize::try_from(parts).is_ok_and(|parts| parts <= value_bytes);
        is_possible.then_some(Self { value_bytes, parts, stamp })
    }

    /// The key of a part.
    fn part_key(&self, hash: KeyHash, part: u32) -> [u8; PART_KEY_BYTES] {
        debug_assert!(part < self.parts, "part {part} of {}", self.parts);
        let key = PartKey { hash: hash.0.into(), number: part.into(), stamp: self.stamp.into() };
        zerocopy::transmute!(key)
    }
}

/// Who asks for parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// A hit.
    Counts,
    /// Nobody's use: nothing is counted and nothing forgotten.
    Walk,
}

/// Why there is no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lack {
    /// There never will be.
    Gone,
    /// There may be another time: the device failed, or a part moves again and again.
    Unreadable,
}

impl Loc {
    /// Stores an item in parts. Says whether it is stored; if not, no version of the key is.
    pub(super) async fn set_long(&self, item: &ItemRef<'_>, now_s: u32) -> bool {
        let chunks = item.value.chunks(part_bytes(self.region_bytes()));
        let head = Head {
            value_bytes: item.value.len(),
            parts: u32::try_from(chunks.len()).expect("values are shorter than 4 GiB"),
            stamp: self.next_stamp.fetch_add(1, Ordering::Relaxed),
        };
        debug_assert!(head.parts > 0, "what is stored in parts has some");
        for (number, chunk) in (0..).zip(chunks) {
            let key = head.part_key(item.hash, number);
            let part = ItemRef::new(self.place.hasher.hash(&key), &key, chunk, item.expiry_s);
            if !self.set_record(&ItemRef { kind: Kind::Part, ..part }, now_s).await {
                if self.tombstones().is_none() {
                    self.remove_entry(item.hash);
                }
                return false;
            }
        }
        let value = head.encode();
        self.set_record(&ItemRef { kind: Kind::Head, value: &value, ..*item }, now_s).await
    }

    /// The whole item of a head that was found there. One that lacks a part for good is forgotten.
    pub(super) async fn complete(
        &self,
        head: Fetched,
        at: Location,
        identity: RegionIdentity,
    ) -> Option<Fetched> {
        // Before the look: what is not in the index yet may come to it.
        let all_known = self.is_indexed();
        let hash = head.hash;
        match self.assemble(&head, Asked::Counts).await {
            Ok(whole) => Some(whole),
            Err(Lack::Gone) if all_known && self.log.is_filling(identity) => {
                if let Some(tombstones) = self.tombstones() {
                    let (region, sequence) = (at.region.number(), identity.sequence);
                    let receipt = tombstones.invalidate_record(region, at.offset, sequence);
                    tombstones.commit(receipt).await.ok()?;
                }
                if self.forget(hash, at, identity) {
                    self.counters().loc_incomplete_objects.add(1);
                    let (reason, tier) = (RemovalReason::Damaged, Tier::LargeObjects);
                    self.counters().removals.key(reason, tier, head.item().key, 0);
                }
                None
            }
            Err(_) => None,
        }
    }

    /// The whole item of a head, expired or not, if all of it is there. Counts no hit, and forgets
    /// nothing.
    pub(super) async fn peek_whole(&self, head: &Fetched) -> Option<Fetched> {
        self.assemble(head, Asked::Walk).await.ok()
    }

    async fn assemble(&self, fetched: &Fetched, asked: Asked) -> Result<Fetched, Lack> {
        let item = fetched.item();
        let head = Head::parse(item.value).ok_or(Lack::Gone)?;
        let key_bytes = item.key.len();
        let mut buffer = self.log.pool().take(key_bytes + head.value_bytes);
        let (key, mut rest) = buffer.as_mut_slice().split_at_mut(key_bytes);
        key.copy_from_slice(item.key);
        let mut next = 0;
        while next < head.parts {
            let end = head.parts.min(next + READS_AT_ONCE);
            let keys: Vec<_> = (next..end).map(|part| head.part_key(item.hash, part)).collect();
            for part in together(keys.iter().map(|key| self.part(key, asked))).await {
                let part = part?;
                let bytes = part.item().value;
                let (room, left) = rest.split_at_mut_checked(bytes.len()).ok_or(Lack::Gone)?;
                room.copy_from_slice(bytes);
                rest = left;
            }
            next = end;
        }
        if !rest.is_empty() {
            return Err(Lack::Gone);
        }
        let Fetched { hash, expiry_s, flags, tiers, .. } = *fetched;
        let (value_bytes, kind) = (head.value_bytes, Kind::Whole);
        Ok(Fetched { buffer, hash, at: 0, key_bytes, value_bytes, expiry_s, flags, kind, tiers })
    }

    async fn part(&self, key: &[u8], asked: Asked) -> Result<Fetched, Lack> {
        let hash = self.place.hasher.hash(key);
        for _ in 0..LOOKS {
            let before = self.place_of(hash).ok_or(Lack::Gone)?;
            let fetched = match asked {
                Asked::Counts => self.find_record(hash).await,
                Asked::Walk => self.peek_record(before.0, before.1).await,
            };
            if let Some(fetched) = fetched {
                let item = fetched.item();
                let is_it = item.kind == Kind::Part && item.key == key;
                // Another key's record has taken its entry in the index.
                return if is_it { Ok(fetched) } else { Err(Lack::Gone) };
            }
            let there = |(now, filling): (Location, RegionIdentity)| {
                (now.region, now.offset, filling) == (before.0.region, before.0.offset, before.1)
            };
            // It moves when its region is reclaimed and it has hits.
            if self.place_of(hash).is_some_and(there) {
                return Err(Lack::Unreadable);
            }
        }
        Err(Lack::Unreadable)
    }

    async fn find_record(&self, hash: KeyHash) -> Option<Fetched> {
        let (location, identity, look_up) = self.find(hash)?;
        self.fetch(hash, location, identity, look_up).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_log::RecordForm;
    use proptest::prelude::*;

    #[test]
    fn as_many_parts_as_promised_fill_a_region() {
        for region_bytes in [4096, 16 << 10, 64 << 10, 1 << 20, 32 << 20] {
            let part = PART_KEY_BYTES + part_bytes(region_bytes);
            let taken = RecordForm::PLAIN.bytes_in_region(part);
            let whole = RecordForm::PLAIN.footer_bytes(0) + PARTS_IN_REGION as usize * taken;
            assert!(whole <= region_bytes as usize, "{whole} of {region_bytes}");
            assert!(whole + PARTS_IN_REGION as usize * 64 > region_bytes as usize, "{whole}");
        }
    }

    /// Made by hand: what is on flash is read by later versions.
    #[test]
    fn heads_and_keys_of_parts_are_the_bytes_that_they_were() {
        let head = Head { value_bytes: 0x0012_3456, parts: 0x789a, stamp: 0xbcde_f012_3456_789a };
        let stamp = [0x9a, 0x78, 0x56, 0x34, 0x12, 0xf0, 0xde, 0xbc];
        let front = [0x56, 0x34, 0x12, 0, 0, 0, 0, 0, 0x9a, 0x78, 0, 0, 0, 0, 0, 0];
        assert_eq!(head.encode()[..], [&front[..], &stamp].concat());
        let key = head.part_key(KeyHash(0x1122_3344_5566_7788), 0x0102);
        let front = [0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 2, 1, 0, 0];
        assert_eq!(key[..], [&front[..], &stamp].concat());
    }

    proptest! {
        #[test]
        fn a_head_says_what_it_was_told(value_bytes in 0..=VALUE_BYTES_MAX, stamp: u64) {
            let parts = u32::try_from(value_bytes.div_ceil(100)).unwrap();
            let head = Head { value_bytes, parts, stamp };
            prop_assert_eq!(Head::parse(&head.encode()), Some(head));
            prop_assert_eq!(Head::parse(&head.encode()[1..]), None);
        }

        #[test]
        fn no_head_asks_for_the_impossible(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Some(head) = Head::parse(&bytes) {
                prop_assert!(head.value_bytes <= VALUE_BYTES_MAX);
                prop_assert!(head.parts as usize <= head.value_bytes);
            }
        }
    }
}
