//! The identity of the cache that wrote the data on flash.
//!
//! Epochs and sequence numbers order the data of one cache. They do not tell it from the data that another cache left
//! on the same device: a cache whose superblock was lost, or whose older image was restored, starts to count again from
//! a wall clock that may be behind. So each cache that begins empty draws a UUID for its label. The identity is the
//! beginning of this UUID, and everything that the cache writes includes it. Buckets have it as a field, because a
//! bucket of another cache is void and not damaged; all other structures have it in their checksum.

use larder_device::label::Uuid;

/// Bytes of an identity.
pub const CACHE_ID_BYTES: usize = 6;

/// 48 random bits: bytes 0 to 6 of a UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheId(u64);

impl CacheId {
    /// For tests of single structures, and for the fuzzer.
    pub const ZERO: Self = Self(0);

    /// The identity of the cache with this UUID, which is in the label.
    pub fn of(uuid: Uuid) -> Self {
        Self::from_number(u64::from_le_bytes(*uuid.bytes().first_chunk().expect("8 of 16 bytes")))
    }

    /// The identity made of the lowest 48 bits of `number`.
    pub const fn from_number(number: u64) -> Self {
        Self(number & ((1 << (8 * CACHE_ID_BYTES)) - 1))
    }

    /// The bytes of the identity, little-endian.
    pub fn bytes(self) -> [u8; CACHE_ID_BYTES] {
        *self.0.to_le_bytes().first_chunk().expect("six of eight bytes")
    }

    /// CRC-32C of the identity followed by `bytes`.
    pub fn checksum(self, bytes: &[u8]) -> u32 {
        larder_checksum::crc32c_append(larder_checksum::crc32c(&self.bytes()), bytes)
    }
}
