//! The layout of an item in a segment. In memory only; flash has other formats.
//!
//! ```text
//!  offset  bytes  field
//!       0      4  lowest 8 bits of the key's length, marks (24 bits): changed while others read, see `segment`
//!       4      4  value length (25 bits; all of them set: see below), what is optional (4 bits), tiers or stale (2
//!                 bits), version's bit 48
//!       8      6  version, its lowest 48 bits
//!      14      4  value length, if it has no room above
//!       *      1  the key's length divided by 256, if that is not 0
//!       *      2  version, from its bit 49 on, if that is not 0
//!       *      6  expiry, if it has one: second (4 bytes), and by how many milliseconds it is earlier
//!       *      4  flags, if they are not 0
//!       *      *  key, value, padding to a multiple of 4
//! ```
//!
//! An item's [`Marks`] may change while it stays in place.
//! A hit writes the marks only if it changes them: once for each item if access times are not recorded, otherwise at
//! most once a second.

use crate::base::item::{DramFields, ItemRef, Marks, is_over};
use crate::base::key::{KEY_BYTES_MAX, KeyHash, VALUE_BYTES_MAX};
use crate::base::tier::Tiers;

/// Records begin at multiples of this.
pub(crate) const UNIT_BYTES: usize = 4;
/// The first word of a record, the only one that changes while others read.
pub(crate) const WORD_BYTES: usize = 4;
const LENGTH_BYTES: usize = 4;
const KEY_MORE_BYTES: usize = 1;
/// Bytes after the first word that determine the length of a record with a long key or value.
pub(crate) const LONG_BYTES: usize = FIXED_BYTES - WORD_BYTES + LENGTH_BYTES + KEY_MORE_BYTES;
/// Fixed fields at the start of each record: two words, and the lower bits of the version.
pub(crate) const FIXED_BYTES: usize = 14;

const KEY_BITS: u32 = u32::BITS - Marks::BITS;
const VALUE_BITS: u32 = 25;
/// Instead of a value's length: the length has a field of its own, from this value on.
const LONG_VALUE: u32 = (1 << VALUE_BITS) - 1;
const LONG_KEY: u32 = 1 << VALUE_BITS;
const WIDE_VERSION: u32 = 2 << VALUE_BITS;
const HAS_EXPIRY: u32 = 4 << VALUE_BITS;
const HAS_FLAGS: u32 = 8 << VALUE_BITS;
const OPTIONAL: u32 = LONG_KEY | WIDE_VERSION | HAS_EXPIRY | HAS_FLAGS;
const TIERS: u32 = 0x30 << VALUE_BITS;
const DRAM_ONLY: u32 = 0x10 << VALUE_BITS;
const FLASH_ONLY: u32 = 0x20 << VALUE_BITS;
/// Stale; for DRAM only, too.
const STALE: u32 = 0x30 << VALUE_BITS;
const VERSION_BIT: u32 = 0x40 << VALUE_BITS;
const LOW_VERSION_BITS: u32 = 48;
/// Smaller versions need no optional bytes.
const WIDE_BITS: u32 = LOW_VERSION_BITS + 1;

const _: () = {
    assert!(VALUE_BYTES_MAX <= u32::MAX as usize, "four bytes are enough for a value's length");
    assert!(
        KEY_BYTES_MAX >> KEY_BITS <= u8::MAX as usize,
        "one byte more is enough for a key's length"
    );
    assert!(FIXED_BYTES == 2 * WORD_BYTES + LOW_VERSION_BITS as usize / 8);
    assert!(LONG_VALUE | OPTIONAL | TIERS | VERSION_BIT == u32::MAX, "no bit is without a meaning");
    assert!(OPTIONAL & TIERS == 0 && (OPTIONAL | TIERS) & VERSION_BIT == 0 && STALE == TIERS);
    assert!(UNIT_BYTES.is_multiple_of(WORD_BYTES), "the first word of each record is aligned");
};

/// The fields of a record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ItemView<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    pub(crate) version: u64,
    pub(crate) expiry_s: u32,
    /// It expires this many milliseconds before `expiry_s`.
    pub(crate) early_ms: u16,
    pub(crate) flags: u32,
    pub(crate) tiers: Tiers,
    pub(crate) stale: bool,
    pub(crate) marks: Marks,
}

impl<'a> ItemView<'a> {
    pub(crate) fn item(&self, hash: KeyHash, clean: bool) -> ItemRef<'a> {
        let ItemView { key, value, version, expiry_s, early_ms, flags, tiers, stale, marks } =
            *self;
        let dram = DramFields { version, early_ms, stale, marks };
        ItemRef { flags, clean, tiers, dram, ..ItemRef::new(hash, key, value, expiry_s) }
    }

    /// Whether it has expired, to the millisecond.
    #[inline]
    pub(crate) fn is_over(&self, now_ms: u64) -> bool {
        is_over(self.expiry_s, self.early_ms, now_ms)
    }
}

/// Bytes that `item` takes in a segment.
pub(crate) fn record_bytes(item: &ItemRef<'_>) -> usize {
    bytes_of(item.key.len(), item.value.len(), length_of(item) | optional_of(item))
}

/// The value length as stored in the second word.
fn length_of(item: &ItemRef<'_>) -> u32 {
    u32::try_from(item.value.len()).map_or(LONG_VALUE, |bytes| bytes.min(LONG_VALUE))
}

#[inline]
fn has_long_value(head: u32) -> bool {
    head & LONG_VALUE == LONG_VALUE
}

/// The optional fields that `item` needs.
fn optional_of(item: &ItemRef<'_>) -> u32 {
    let there = |bit: u32, there: bool| if there { bit } else { 0 };
    there(LONG_KEY, item.key.len() >> KEY_BITS != 0)
        | there(WIDE_VERSION, item.dram.version >> WIDE_BITS != 0)
        | there(HAS_EXPIRY, item.expiry_s != 0)
        | there(HAS_FLAGS, item.flags != 0)
}

#[inline]
fn optional_bytes(head: u32) -> usize {
    let length = if has_long_value(head) { LENGTH_BYTES } else { 0 };
    if head & OPTIONAL == 0 {
        return length; // the usual case
    }
    let bytes = |bit: u32, bytes: usize| if head & bit == 0 { 0 } else { bytes };
    let others = bytes(WIDE_VERSION, 2) + bytes(HAS_EXPIRY, 6) + bytes(HAS_FLAGS, 4);
    length + bytes(LONG_KEY, KEY_MORE_BYTES) + others
}

#[inline]
fn bytes_of(key_bytes: usize, value_bytes: usize, head: u32) -> usize {
    (FIXED_BYTES + optional_bytes(head) + key_bytes + value_bytes).next_multiple_of(UNIT_BYTES)
}

/// Bytes of the record that begins with this word and these bytes. `None` if its key or value is long, so that more
/// bytes are needed.
#[inline]
pub(crate) fn bytes_of_record(word: u32, fixed: &[u8; FIXED_BYTES - WORD_BYTES]) -> Option<usize> {
    let head = u32::from_le_bytes([fixed[0], fixed[1], fixed[2], fixed[3]]);
    let is_long = head & LONG_KEY != 0 || has_long_value(head);
    (!is_long).then(|| bytes_of(key_bytes_of(word, 0), (head & LONG_VALUE) as usize, head))
}

/// The same for a long key or value, whose length continues in these bytes. Such a record has at least that many.
#[cold]
pub(crate) fn bytes_of_long(word: u32, bytes: &[u8; LONG_BYTES]) -> usize {
    let head = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let (mut rest, mut long, mut value_bytes) =
        (&bytes[FIXED_BYTES - WORD_BYTES..], 0, head & LONG_VALUE);
    if has_long_value(head) {
        value_bytes = u32::from_le_bytes(*taken(&mut rest));
    }
    if head & LONG_KEY != 0 {
        [long] = *taken(&mut rest);
    }
    bytes_of(key_bytes_of(word, long), value_bytes as usize, head)
}

#[inline]
fn key_bytes_of(word: u32, long: u8) -> usize {
    (word & ((1 << KEY_BITS) - 1)) as usize | usize::from(long) << KEY_BITS
}

/// The marks in the first word of a record.
#[inline]
pub(crate) fn marks_in(word: u32) -> Marks {
    Marks::of_bits(word >> KEY_BITS)
}

/// The first word of a record with other marks.
#[inline]
pub(crate) fn with_marks(word: u32, marks: Marks) -> u32 {
    word & ((1 << KEY_BITS) - 1) | marks.bits() << KEY_BITS
}

/// Writes `item` into `room`, which is [`record_bytes`] long.
pub(crate) fn encode(room: &mut [u8], item: &ItemRef<'_>) {
    let length = u32::try_from(item.value.len()).expect("values are checked before they come here");
    let key_bytes = u16::try_from(item.key.len()).expect("keys are checked before they come here");
    debug_assert_eq!(room.len(), record_bytes(item), "the room is the record's");
    debug_assert!(item.dram.early_ms < 1000, "it expires in its second");
    let DramFields { version, early_ms, stale, marks } = item.dram;
    let tiers = match item.tiers {
        _ if stale => STALE,
        Tiers::Both => 0,
        Tiers::DramOnly => DRAM_ONLY,
        Tiers::FlashOnly => FLASH_ONLY,
    };
    let optional = optional_of(item);
    let version_bit = if version >> LOW_VERSION_BITS & 1 == 0 { 0 } else { VERSION_BIT };
    let head = length_of(item) | optional | tiers | version_bit;
    let [key_low, key_high] = key_bytes.to_le_bytes();
    let wide = (version >> WIDE_BITS).to_le_bytes();
    let expiry = item.expiry_s.to_le_bytes();
    let mut at = FIXED_BYTES;
    if has_long_value(head) {
        room[at..at + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
        at += LENGTH_BYTES;
    }
    let mut put = |bit: u32, bytes: &[u8]| {
        if optional & bit != 0 {
            room[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        }
    };
    put(LONG_KEY, &[key_high]);
    put(WIDE_VERSION, &wide[..2]);
    put(HAS_EXPIRY, &expiry);
    put(HAS_EXPIRY, &early_ms.to_le_bytes());
    put(HAS_FLAGS, &item.flags.to_le_bytes());
    room[0..4].copy_from_slice(&with_marks(u32::from(key_low), marks).to_le_bytes());
    room[4..8].copy_from_slice(&head.to_le_bytes());
    room[8..14].copy_from_slice(&version.to_le_bytes()[..6]);
    let (key, value) = room[at..].split_at_mut(item.key.len());
    key.copy_from_slice(item.key);
    value[..item.value.len()].copy_from_slice(item.value);
}

/// Bytes of the key of the record that begins with this word and these bytes, if the key lies right behind them. `None`
/// if optional fields lie between, so that the whole record must be decoded.
#[inline]
pub(crate) fn bytes_of_near_key(
    word: u32,
    fixed: &[u8; FIXED_BYTES - WORD_BYTES],
) -> Option<usize> {
    let head = u32::from_le_bytes([fixed[0], fixed[1], fixed[2], fixed[3]]);
    let is_usual = head & OPTIONAL == 0 && !has_long_value(head);
    is_usual.then(|| key_bytes_of(word, 0))
}

/// Decodes the record with this first word and the bytes after it. They come from a segment, so the record is whole.
// Most callers need one or two of the fields: inlined, the others cost nothing.
#[inline(always)]
pub(crate) fn record_of(word: u32, bytes: &[u8]) -> ItemView<'_> {
    let fixed: &[u8; FIXED_BYTES - WORD_BYTES] =
        bytes.first_chunk().expect("a segment's record is whole");
    let head = u32::from_le_bytes([fixed[0], fixed[1], fixed[2], fixed[3]]);
    let low = [fixed[4], fixed[5], fixed[6], fixed[7], fixed[8], fixed[9], 0, 0];
    let mut version = u64::from_le_bytes(low);
    if head & VERSION_BIT != 0 {
        version |= 1 << LOW_VERSION_BITS;
    }
    let mut rest = &bytes[FIXED_BYTES - WORD_BYTES..];
    let (mut long, mut expiry_s, mut early_ms, mut flags) = (0, 0, 0, 0);
    let mut value_bytes = head & LONG_VALUE;
    if has_long_value(head) {
        value_bytes = u32::from_le_bytes(*taken(&mut rest));
    }
    if head & OPTIONAL != 0 {
        if head & LONG_KEY != 0 {
            [long] = *taken(&mut rest);
        }
        if head & WIDE_VERSION != 0 {
            version |= u64::from(u16::from_le_bytes(*taken(&mut rest))) << WIDE_BITS;
        }
        if head & HAS_EXPIRY != 0 {
            expiry_s = u32::from_le_bytes(*taken(&mut rest));
            early_ms = u16::from_le_bytes(*taken(&mut rest));
        }
        if head & HAS_FLAGS != 0 {
            flags = u32::from_le_bytes(*taken(&mut rest));
        }
    }
    let (key, rest) = rest.split_at(key_bytes_of(word, long));
    let value = &rest[..value_bytes as usize];
    let tiers = match head & TIERS {
        DRAM_ONLY | STALE => Tiers::DramOnly,
        FLASH_ONLY => Tiers::FlashOnly,
        _ => Tiers::Both,
    };
    let (stale, marks) = (head & TIERS == STALE, marks_in(word));
    ItemView { key, value, version, expiry_s, early_ms, flags, tiers, stale, marks }
}

/// Takes the next `BYTES` bytes of a record.
#[inline]
fn taken<'a, const BYTES: usize>(rest: &mut &'a [u8]) -> &'a [u8; BYTES] {
    let (taken, others) = rest.split_first_chunk().expect("a segment's record is whole");
    *rest = others;
    taken
}

/// Decodes the record in `bytes`, to which the caller has exclusive access.
pub(crate) fn record_in(bytes: &[u8]) -> ItemView<'_> {
    let (word, rest) = bytes.split_first_chunk().expect("a segment's record is whole");
    record_of(u32::from_le_bytes(*word), rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tiers_of(version: u64) -> Tiers {
        [Tiers::Both, Tiers::DramOnly, Tiers::FlashOnly][usize::try_from(version % 3).unwrap()]
    }

    fn fields() -> impl Strategy<Value = DramFields> {
        let version = prop_oneof![any::<u64>(), 0..1_u64 << 50, Just(u64::MAX)];
        let marks = any::<u32>().prop_map(Marks::of_bits);
        (version, 0..1000_u16, any::<bool>(), marks).prop_map(
            |(version, early_ms, stale, marks)| DramFields { version, early_ms, stale, marks },
        )
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_read_back(
            key in prop_oneof![
                prop::collection::vec(any::<u8>(), 1..40),
                prop::collection::vec(any::<u8>(), 250..600),
            ],
            value in prop::collection::vec(any::<u8>(), 0..90),
            expiry_s in prop_oneof![Just(0), any::<u32>()],
            flags in prop_oneof![Just(0), any::<u32>()],
            dram in fields(),
        ) {
            let hash = KeyHash::of(&key);
            let dram = if expiry_s == 0 { DramFields { early_ms: 0, ..dram } } else { dram };
            let tiers = if dram.stale { Tiers::DramOnly } else { tiers_of(dram.version) };
            let item = ItemRef { flags, tiers, dram, ..ItemRef::new(hash, &key, &value, expiry_s) };
            let mut bytes = vec![0xee; record_bytes(&item)];
            encode(&mut bytes, &item);
            let record = record_in(&bytes);
            prop_assert_eq!((record.key, record.value), (&key[..], &value[..]));
            prop_assert_eq!((record.expiry_s, record.flags), (expiry_s, flags));
            prop_assert_eq!((record.tiers, record.item(hash, false).dram), (tiers, dram));
            let word = u32::from_le_bytes(*bytes.first_chunk().unwrap());
            let long = || bytes_of_long(word, bytes[4..].first_chunk().unwrap());
            let length = bytes_of_record(word, bytes[4..].first_chunk().unwrap()).unwrap_or_else(long);
            prop_assert_eq!(length, bytes.len());
            let other = Marks::of_bits(!dram.marks.bits());
            let word = with_marks(word, other);
            prop_assert_eq!((record_of(word, &bytes[4..]).key, marks_in(word)), (&key[..], other));
        }
    }

    #[test]
    fn most_records_need_14_bytes_without_key_and_value() {
        let item = |expiry_s, version| {
            let dram = DramFields { version, ..DramFields::default() };
            let key = KeyHash::of(b"ab");
            record_bytes(&ItemRef { dram, ..ItemRef::new(key, b"ab", b"", expiry_s) })
        };
        assert_eq!([item(0, (1 << 49) - 1), item(0, 1 << 49)], [16, 20]);
        assert_eq!([item(1, 1), item(1, u64::MAX)], [24, 24]);
    }

    #[test]
    fn a_value_that_25_bits_cannot_tell_the_length_of_has_bytes_for_that() {
        let longest_short = LONG_VALUE as usize - 1;
        let mut value = vec![7; longest_short + 40];
        *value.last_mut().unwrap() = 8;
        let mut bytes = Vec::new();
        for (key, length) in [(3, longest_short), (300, longest_short), (3, longest_short + 1)] {
            bytes.push((key, length));
        }
        bytes.extend([(300, longest_short + 1), (300, longest_short + 40)]);
        for (key_bytes, value_bytes) in bytes {
            let (key, value) = (vec![5; key_bytes], &value[..value_bytes]);
            let item = ItemRef { flags: 9, ..ItemRef::new(KeyHash::of(&key), &key, value, 77) };
            let more = if value_bytes > longest_short { 4 } else { 0 };
            let expected = FIXED_BYTES + 10 + key_bytes / 256 + more + key_bytes + value_bytes;
            assert_eq!(record_bytes(&item), expected.next_multiple_of(UNIT_BYTES));
            let mut bytes = vec![0xee; record_bytes(&item)];
            encode(&mut bytes, &item);
            let record = record_in(&bytes);
            assert!(record.key == key && record.value == value, "{key_bytes}, {value_bytes}");
            assert_eq!((record.expiry_s, record.flags), (77, 9));
            let word = u32::from_le_bytes(*bytes.first_chunk().unwrap());
            let long = || bytes_of_long(word, bytes[4..].first_chunk().unwrap());
            let length = bytes_of_record(word, bytes[4..].first_chunk().unwrap());
            assert_eq!(length.unwrap_or_else(long), bytes.len());
        }
    }
}
