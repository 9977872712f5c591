//! Which cache wrote what lies on flash.
//!
//! Epochs and sequence numbers order what one cache wrote. They do not tell it from what another one
//! left on the same device: a cache whose superblock was lost, or of which an older image was put
//! back, counts anew from a wall clock that may be behind. So each cache that begins empty draws an
//! identity, and everything that it writes carries it: buckets as a field, for a bucket of another
//! cache is void and no damage; everything else in its checksum.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Bytes of an identity.
pub(crate) const CACHE_ID_BYTES: usize = 6;

/// 48 random bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CacheId(u64);

impl CacheId {
    /// For tests of single structures, and the fuzzer's.
    pub(crate) const ZERO: Self = Self(0);

    /// One that no cache had before. It is random even where everything else follows a seed: the same
    /// test run twice on one device makes two caches. Nothing is decided by it.
    pub(crate) fn draw() -> Self {
        Self::from_number(RandomState::new().build_hasher().finish())
    }

    /// The identity that begins with these bits of `number`.
    pub(crate) fn from_number(number: u64) -> Self {
        Self(number & ((1 << (8 * CACHE_ID_BYTES)) - 1))
    }

    pub(crate) fn number(self) -> u64 {
        self.0
    }

    pub(crate) fn bytes(self) -> [u8; CACHE_ID_BYTES] {
        *self.0.to_le_bytes().first_chunk().expect("six of eight bytes")
    }

    /// CRC-32C of the identity and of `bytes` behind it.
    pub(crate) fn checksum(self, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c(&self.bytes()), bytes)
    }
}
