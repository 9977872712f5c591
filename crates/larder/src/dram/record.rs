//! One item as it lies in a segment. In memory only: nothing of this goes to flash.
//!
//! ```text
//!  offset  bytes  field
//!       0      4  value length (25 bits), what is optional (2 bits), tiers (2 bits)
//!       4      4  version
//!       8      2  key length
//!      10      4  expiry, if it has one
//!       *      4  flags, if they are not 0
//!       *      *  key, value, padding to a multiple of 4
//! ```

use crate::cache::Tiers;
use crate::key::KeyHash;
use crate::value::ItemRef;

/// Records begin at multiples of this.
pub(crate) const UNIT_BYTES: usize = 4;

/// What each record begins with.
pub(crate) const FIXED_BYTES: usize = 10;
const OPTIONAL_BYTES: usize = 4;
const VALUE_BITS: u32 = 25;
const HAS_EXPIRY: u32 = 1 << VALUE_BITS;
const HAS_FLAGS: u32 = 2 << VALUE_BITS;
const DRAM_ONLY: u32 = 4 << VALUE_BITS;
const FLASH_ONLY: u32 = 8 << VALUE_BITS;

/// A record, in parts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    pub(crate) version: u32,
    pub(crate) expiry_s: u32,
    pub(crate) flags: u32,
    pub(crate) tiers: Tiers,
}

impl<'a> Record<'a> {
    pub(crate) fn item(&self, hash: KeyHash, clean: bool) -> ItemRef<'a> {
        let Record { key, value, expiry_s, flags, tiers, .. } = *self;
        ItemRef { flags, clean, tiers, ..ItemRef::new(hash, key, value, expiry_s) }
    }

    /// Bytes that it takes in its segment.
    pub(crate) fn bytes(&self) -> usize {
        bytes_of(self.key.len(), self.value.len(), self.expiry_s, self.flags)
    }
}

/// Bytes that `item` takes in a segment.
pub(crate) fn record_bytes(item: &ItemRef<'_>) -> usize {
    bytes_of(item.key.len(), item.value.len(), item.expiry_s, item.flags)
}

fn bytes_of(key_bytes: usize, value_bytes: usize, expiry_s: u32, flags: u32) -> usize {
    let optional = usize::from(expiry_s != 0) + usize::from(flags != 0);
    (FIXED_BYTES + optional * OPTIONAL_BYTES + key_bytes + value_bytes).next_multiple_of(UNIT_BYTES)
}

/// Bytes of the record that begins with these.
pub(crate) fn bytes_of_record(fixed: &[u8; FIXED_BYTES]) -> usize {
    let head = u32::from_le_bytes([fixed[0], fixed[1], fixed[2], fixed[3]]);
    let key_bytes = usize::from(u16::from_le_bytes([fixed[8], fixed[9]]));
    let value_bytes = (head & (HAS_EXPIRY - 1)) as usize;
    bytes_of(key_bytes, value_bytes, head & HAS_EXPIRY, head & HAS_FLAGS)
}

/// Writes `item` into `room`, which is [`record_bytes`] long.
pub(crate) fn encode(room: &mut [u8], item: &ItemRef<'_>, version: u32) {
    let value_bytes = u32::try_from(item.value.len()).expect("values are checked at the door");
    let key_bytes = u16::try_from(item.key.len()).expect("keys are checked at the door");
    debug_assert!(value_bytes < HAS_EXPIRY);
    let mut head = value_bytes
        | match item.tiers {
            Tiers::Both => 0,
            Tiers::DramOnly => DRAM_ONLY,
            Tiers::FlashOnly => FLASH_ONLY,
        };
    let mut at = FIXED_BYTES;
    for (optional, bit) in [(item.expiry_s, HAS_EXPIRY), (item.flags, HAS_FLAGS)] {
        if optional != 0 {
            head |= bit;
            room[at..at + OPTIONAL_BYTES].copy_from_slice(&optional.to_le_bytes());
            at += OPTIONAL_BYTES;
        }
    }
    room[0..4].copy_from_slice(&head.to_le_bytes());
    room[4..8].copy_from_slice(&version.to_le_bytes());
    room[8..10].copy_from_slice(&key_bytes.to_le_bytes());
    let (key, value) = room[at..].split_at_mut(item.key.len());
    key.copy_from_slice(item.key);
    value[..item.value.len()].copy_from_slice(item.value);
}

/// The record that begins at `at`. `bytes` are a segment's, so it is whole.
pub(crate) fn record_at(bytes: &[u8], at: usize) -> Record<'_> {
    let bytes = &bytes[at..];
    let word = |at: usize| {
        let (word, _) = bytes[at..].split_first_chunk().expect("a segment's record is whole");
        u32::from_le_bytes(*word)
    };
    let head = word(0);
    let key_bytes = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let value_bytes = (head & (HAS_EXPIRY - 1)) as usize;
    let mut at = FIXED_BYTES;
    let mut optional = |bit: u32| {
        if head & bit == 0 {
            return 0;
        }
        at += OPTIONAL_BYTES;
        word(at - OPTIONAL_BYTES)
    };
    let (expiry_s, flags) = (optional(HAS_EXPIRY), optional(HAS_FLAGS));
    let (key, rest) = bytes[at..].split_at(key_bytes);
    let tiers = match head & (DRAM_ONLY | FLASH_ONLY) {
        DRAM_ONLY => Tiers::DramOnly,
        FLASH_ONLY => Tiers::FlashOnly,
        _ => Tiers::Both,
    };
    Record { key, value: &rest[..value_bytes], version: word(4), expiry_s, flags, tiers }
}

/// The records of a segment with their offsets, in the order in which they were written.
pub(crate) fn records(bytes: &[u8]) -> impl Iterator<Item = (usize, Record<'_>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= bytes.len() {
            return None;
        }
        let record = record_at(bytes, at);
        let found = (at, record);
        at += record.bytes();
        Some(found)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tiers_of(version: u32) -> Tiers {
        [Tiers::Both, Tiers::DramOnly, Tiers::FlashOnly][version as usize % 3]
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_read_back(
            items in prop::collection::vec(
                (prop::collection::vec(any::<u8>(), 1..40), prop::collection::vec(any::<u8>(), 0..90),
                 prop_oneof![Just(0), any::<u32>()], prop_oneof![Just(0), any::<u32>()], any::<u32>()),
                1..20,
            ),
        ) {
            let mut bytes = Vec::new();
            for (key, value, expiry_s, flags, version) in &items {
                let hash = KeyHash::of(key);
                let item =
                    ItemRef { flags: *flags, tiers: tiers_of(*version), ..ItemRef::new(hash, key, value, *expiry_s) };
                let at = bytes.len();
                bytes.resize(at + record_bytes(&item), 0xee);
                encode(&mut bytes[at..], &item, *version);
            }
            let read: Vec<_> = records(&bytes).map(|(_, record)| record).collect();
            prop_assert_eq!(read.len(), items.len());
            for (record, (key, value, expiry_s, flags, version)) in read.iter().zip(&items) {
                prop_assert_eq!((record.key, record.value), (&key[..], &value[..]));
                prop_assert_eq!((record.expiry_s, record.flags), (*expiry_s, *flags));
                prop_assert_eq!((record.version, record.tiers), (*version, tiers_of(*version)));
            }
        }
    }
}
