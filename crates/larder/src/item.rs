//! A key with its value, in the form in which the tiers pass it on.

use larder_device::IoBuffer;

use crate::cache::Tiers;
use crate::dram::Marks;
use crate::key::KeyHash;

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
pub(crate) struct Fetched {
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

impl Fetched {
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
