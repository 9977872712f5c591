//! Items and values: one shared allocation holds key and value.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::key::KeyHash;

/// A value that the cache returned. Cheap to clone; it keeps its bytes alive after the cache has
/// let go of them.
#[derive(Clone)]
pub struct Value {
    bytes: Arc<[u8]>,
    key_bytes: usize,
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.key_bytes..]
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Value {}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value({} bytes)", self.len())
    }
}

/// A key with its value, as it travels between the tiers.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    bytes: Arc<[u8]>,
    pub(crate) hash: KeyHash,
    pub(crate) key_bytes: u16,
    /// Second of the cache's clock at which the value expires; 0 is never.
    pub(crate) expiry_s: u32,
    /// Whether flash holds this very version (or nothing) under the key: such an item can be
    /// dropped without a trace.
    pub(crate) clean: bool,
}

impl Item {
    /// An item that only DRAM knows.
    pub(crate) fn new(hash: KeyHash, key: &[u8], value: &[u8], expiry_s: u32) -> Self {
        let mut joined = Vec::with_capacity(key.len() + value.len());
        joined.extend_from_slice(key);
        joined.extend_from_slice(value);
        Self::joined(hash, joined.into(), key.len(), expiry_s)
    }

    /// The same, from key and value in one piece.
    pub(crate) fn joined(hash: KeyHash, bytes: Arc<[u8]>, key_bytes: usize, expiry_s: u32) -> Self {
        debug_assert!(key_bytes <= bytes.len());
        let key_bytes = u16::try_from(key_bytes).expect("key lengths are checked at the door");
        Self { bytes, hash, key_bytes, expiry_s, clean: false }
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.bytes[..usize::from(self.key_bytes)]
    }

    pub(crate) fn value(&self) -> &[u8] {
        &self.bytes[usize::from(self.key_bytes)..]
    }

    /// Key and value together, in bytes.
    pub(crate) fn object_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn is_expired(&self, now_s: u32) -> bool {
        is_expired(self.expiry_s, now_s)
    }

    /// Whether `other` is the same version of the same item, not merely an equal one.
    pub(crate) fn is_same_version(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.bytes, &other.bytes)
    }

    pub(crate) fn to_value(&self) -> Value {
        Value { bytes: Arc::clone(&self.bytes), key_bytes: usize::from(self.key_bytes) }
    }
}

/// Whether something that expires at `expiry_s` is dead at `now_s`. 0 never expires.
pub(crate) fn is_expired(expiry_s: u32, now_s: u32) -> bool {
    expiry_s != 0 && expiry_s <= now_s
}

/// Bytes of memory that belong to an item besides key and value, for the DRAM budget: the two
/// counts in front of a shared allocation.
pub(crate) const ALLOCATION_BYTES: usize = 16;
