//! Which cache wrote what lies on flash.
//!
//! Epochs and sequence numbers order what one cache wrote. They do not tell it from what another one
//! left on the same device: a cache whose superblock was lost, or of which an older image was put
//! back, counts anew from a wall clock that may be behind. So each cache that begins empty draws a UUID for its
//! label, of which this is the beginning, and everything that it writes carries it: buckets as a field, for a bucket of
//! another cache is void and no damage; everything else in its checksum.

use larder_device::label::Uuid;

/// Bytes of an identity.
pub const CACHE_ID_BYTES: usize = 6;

/// 48 random bits: bytes 0 to 6 of a UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheId(u64);

impl CacheId {
    /// For tests of single structures, and the fuzzer's.
    pub const ZERO: Self = Self(0);

    /// The one of the cache with this UUID, which the label has.
    pub fn of(uuid: Uuid) -> Self {
        Self::from_number(u64::from_le_bytes(*uuid.bytes().first_chunk().expect("8 of 16 bytes")))
    }

    /// The identity that begins with these bits of `number`.
    pub const fn from_number(number: u64) -> Self {
        Self(number & ((1 << (8 * CACHE_ID_BYTES)) - 1))
    }

    /// Its bytes, little-endian.
    pub fn bytes(self) -> [u8; CACHE_ID_BYTES] {
        *self.0.to_le_bytes().first_chunk().expect("six of eight bytes")
    }

    /// CRC-32C of the identity and of `bytes` behind it.
    pub fn checksum(self, bytes: &[u8]) -> u32 {
        larder_checksum::crc32c_append(larder_checksum::crc32c(&self.bytes()), bytes)
    }
}
