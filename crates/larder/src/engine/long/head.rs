//! The format on flash of long values, apart from the bytes of the value: the key of a part, and the value of a head.
//! docs/formats.md describes both.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::base::key::{KeyHash, VALUE_BYTES_MAX};

pub(super) const PART_KEY_BYTES: usize = size_of::<PartKey>();
pub(super) const HEAD_BYTES: usize = size_of::<StoredHead>();
const _: () = assert!(PART_KEY_BYTES == 20 && HEAD_BYTES == 24);

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

/// The parsed value of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) value_bytes: usize,
    pub(super) parts: u32,
    pub(super) stamp: u64,
}

impl Head {
    pub(super) fn encode(self) -> [u8; HEAD_BYTES] {
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

    /// `None` if the numbers are impossible.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let stored = StoredHead::ref_from_bytes(bytes).ok()?;
        let value_bytes = usize::try_from(stored.value_bytes.get()).ok()?;
        let (parts, stamp) = (stored.parts.get(), stored.stamp.get());
        let is_possible = value_bytes <= VALUE_BYTES_MAX
            && usize::try_from(parts).is_ok_and(|parts| parts <= value_bytes);
        is_possible.then_some(Self { value_bytes, parts, stamp })
    }

    /// The key of a part.
    pub(super) fn part_key(&self, hash: KeyHash, part: u32) -> [u8; PART_KEY_BYTES] {
        debug_assert!(part < self.parts, "part {part} of {}", self.parts);
        let key = PartKey { hash: hash.0.into(), number: part.into(), stamp: self.stamp.into() };
        zerocopy::transmute!(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Expected bytes are written by hand: later versions must be able to read this format.
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
