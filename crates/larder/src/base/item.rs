//! A key with its value, in the form in which the tiers pass it on.

use larder_device::IoBuffer;

use crate::base::key::KeyHash;
use crate::base::tier::Tiers;

/// What an item is to the engines for large objects. Everywhere else all items are whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A key with its value.
    #[default]
    Whole,
    /// A key whose value is split into parts; the stored value lists the parts.
    Head,
    /// A part of the value of another key. No look-up of a user's key finds it.
    Part,
}

/// A reference to a key with its value, wherever they are in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ItemRef<'a> {
    pub(crate) hash: KeyHash,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    /// Second of the cache's clock at which the value expires; 0 means never.
    pub(crate) expiry_s: u32,
    /// The user's flags.
    pub(crate) flags: u32,
    /// Whether flash holds this very version (or nothing) under the key: such an item can be dropped without a trace.
    pub(crate) clean: bool,
    pub(crate) kind: Kind,
    /// The tiers that may hold it.
    pub(crate) tiers: Tiers,
    pub(crate) dram: DramFields,
}

/// Fields of an item that only DRAM keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DramFields {
    /// 0 if no version was given: the DRAM tier assigns one.
    pub(crate) version: u64,
    /// It expires this many milliseconds before `expiry_s`; at most 1000.
    pub(crate) early_ms: u16,
    /// Out of date. Such an item is for DRAM only, since flash does not store this flag.
    pub(crate) stale: bool,
    pub(crate) marks: Marks,
}

const FETCHED: u32 = 1;
const WON: u32 = 2;
const BINARY_KEY: u32 = 4;
const ACCESS_SHIFT: u32 = 3;
const ACCESS_MASK: u32 = (1 << 21) - 1;

const _: () = assert!(
    ACCESS_MASK << ACCESS_SHIFT | FETCHED | WON | BINARY_KEY == (1 << Marks::BITS) - 1,
    "marks fill their bits"
);

/// Whether an item was hit or won, and the time of its last access.
///
/// ```text
///   bits  what
///      1  fetched: it was hit since it was set
///      1  won: a client was told to bring a new value
///      1  binary key: the client that set it gave its key in base64 (this one never changes)
///     21  second of the last access, modulo 2^21 (24 days); 0 is not known
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Marks(u32);

impl Marks {
    pub(crate) const BITS: u32 = 24;
    pub(crate) const WON: Self = Self(WON);

    /// Marks of a new item, with the time of access if that is recorded.
    pub(crate) fn of_new(won: bool, now_s: Option<u32>) -> Self {
        Self(if won { WON } else { 0 }).accessed(now_s)
    }

    /// The same marks, with or without the mark for a key in base64.
    pub(crate) fn with_binary_key(self, is_binary: bool) -> Self {
        Self(self.0 & !BINARY_KEY | if is_binary { BINARY_KEY } else { 0 })
    }

    /// The marks after a hit.
    pub(crate) fn after_hit(self, now_s: Option<u32>) -> Self {
        Self(self.0 | FETCHED).accessed(now_s)
    }

    fn accessed(self, now_s: Option<u32>) -> Self {
        let Some(now_s) = now_s else { return self };
        // At least 1, because 0 means unknown.
        let second = (now_s & ACCESS_MASK).max(1);
        Self(self.0 & (FETCHED | WON | BINARY_KEY) | second << ACCESS_SHIFT)
    }

    pub(crate) fn is_fetched(self) -> bool {
        self.0 & FETCHED != 0
    }

    pub(crate) fn is_won(self) -> bool {
        self.0 & WON != 0
    }

    pub(crate) fn has_binary_key(self) -> bool {
        self.0 & BINARY_KEY != 0
    }

    /// Seconds since the last access, if it was recorded.
    pub(crate) fn idle_s(self, now_s: u32) -> Option<u32> {
        let second = self.0 >> ACCESS_SHIFT;
        (second != 0).then(|| now_s.wrapping_sub(second) & ACCESS_MASK)
    }

    /// The bits; there are [`Marks::BITS`] of them.
    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    /// Takes the marks from the lower bits and ignores the others.
    pub(crate) fn of_bits(bits: u32) -> Self {
        Self(bits & ((1 << Self::BITS) - 1))
    }
}

impl<'a> ItemRef<'a> {
    /// An item that is not on flash.
    pub(crate) fn new(hash: KeyHash, key: &'a [u8], value: &'a [u8], expiry_s: u32) -> Self {
        let (kind, tiers, dram) = (Kind::Whole, Tiers::Both, DramFields::default());
        Self { hash, key, value, expiry_s, flags: 0, clean: false, kind, tiers, dram }
    }

    /// Key and value together, in bytes.
    pub(crate) fn object_bytes(&self) -> usize {
        self.key.len() + self.value.len()
    }

    pub(crate) fn is_expired(&self, now_s: u32) -> bool {
        is_expired(self.expiry_s, now_s)
    }
}

/// An item read from flash, in its read buffer.
#[derive(Debug)]
pub(crate) struct FlashItem {
    pub(crate) buffer: IoBuffer,
    pub(crate) hash: KeyHash,
    /// Offset of the key in the buffer; the value follows it.
    pub(crate) at: usize,
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
    pub(crate) expiry_s: u32,
    pub(crate) flags: u32,
    pub(crate) kind: Kind,
    /// The tiers that may hold it: never DRAM alone.
    pub(crate) tiers: Tiers,
}

impl FlashItem {
    /// The item, marked as clean because it is on flash.
    pub(crate) fn item(&self) -> ItemRef<'_> {
        let (key, rest) = self.buffer.as_slice()[self.at..].split_at(self.key_bytes);
        let value = &rest[..self.value_bytes];
        let Self { flags, kind, tiers, .. } = *self;
        ItemRef {
            flags,
            kind,
            tiers,
            clean: true,
            ..ItemRef::new(self.hash, key, value, self.expiry_s)
        }
    }
}

/// The millisecond at which an item expires.
#[inline]
pub(crate) fn over_at_ms(expiry_s: u32, early_ms: u16) -> u64 {
    u64::from(expiry_s) * 1000 - u64::from(early_ms)
}

/// As [`is_expired`], to the millisecond.
#[inline]
pub(crate) fn is_over(expiry_s: u32, early_ms: u16, now_ms: u64) -> bool {
    expiry_s != 0 && over_at_ms(expiry_s, early_ms) <= now_ms
}

/// Whether an item that expires at `expiry_s` is dead at `now_s`. 0 never expires.
pub(crate) fn is_expired(expiry_s: u32, now_s: u32) -> bool {
    expiry_s != 0 && expiry_s <= now_s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_is_remembered_with_its_second_and_leaves_the_rest() {
        let new = Marks::of_new(true, Some(7 << 21 | 5)).with_binary_key(true);
        assert!(new.is_won() && !new.is_fetched());
        let hit = new.after_hit(Some(7 << 21 | 100));
        assert!(hit.is_won() && hit.is_fetched() && hit.has_binary_key());
        assert!(!hit.with_binary_key(false).has_binary_key());
        assert_eq!((new.idle_s(7 << 21 | 105), hit.idle_s(7 << 21 | 105)), (Some(100), Some(5)));
        assert_eq!(hit.idle_s((8 << 21) + 3), Some((1 << 21) - 97), "over the end of the count");
        assert_eq!(Marks::of_bits(hit.bits() | 0xff << 24), hit);
    }

    #[test]
    fn without_a_second_none_is_known() {
        let hit = Marks::of_new(false, None).after_hit(None);
        assert!(hit.is_fetched() && !hit.is_won());
        assert_eq!(hit.idle_s(1000), None);
        let at_zero = Marks::of_new(false, Some(3 << 22));
        assert_eq!(at_zero.idle_s((3 << 22) + 9), Some(8), "a second late, but known");
        assert_eq!(at_zero.after_hit(None).idle_s((3 << 22) + 9), Some(8));
    }
}
