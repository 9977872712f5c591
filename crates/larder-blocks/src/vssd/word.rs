//! The word of a page: the slot of its bytes, and their checksum.
//!
//! ```text
//!  63               32 31                0
//!  ├─────────────────┼───────────────────┤
//!  │ CRC-32C         │ slot + 1          │
//! ```
//!
//! The checksum covers the number of the logical block, the number of the page in it, and the bytes. So the content of
//! a page's slot is verified to be its own, and not an older page's or another tenant's.

use larder_vssd::LogicalBlock;

/// The checksum of `bytes`, which are page `page` of `block`.
pub(super) fn checksum(block: LogicalBlock, page: u64, bytes: &[u8]) -> u32 {
    let of = larder_checksum::crc32c(&block.number().to_le_bytes());
    larder_checksum::crc32c_append(larder_checksum::crc32c_append(of, &page.to_le_bytes()), bytes)
}

/// The word of a page whose bytes are in `slot`. It is never 0.
pub(super) fn pack(slot: u32, checksum: u32) -> u64 {
    debug_assert!(slot < u32::MAX, "slots are numbered below 2^32 - 1");
    u64::from(checksum) << 32 | (u64::from(slot) + 1)
}

/// Slot and checksum; `None` if no page has such a word.
#[allow(clippy::cast_possible_truncation)] // the halves of a word
pub(super) fn unpack(word: u64) -> Option<(u32, u32)> {
    let slot = (word as u32).checked_sub(1)?;
    Some((slot, (word >> 32) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_has_both_and_is_not_0() {
        for (slot, checksum) in [(0, 0), (7, u32::MAX), (u32::MAX - 1, 5)] {
            assert_ne!(pack(slot, checksum), 0);
            assert_eq!(unpack(pack(slot, checksum)), Some((slot, checksum)));
        }
        assert_eq!((unpack(0), unpack(5 << 32)), (None, None));
    }

    #[test]
    fn a_checksum_is_of_a_place() {
        let [a, b] = [1, 2].map(LogicalBlock::from_number);
        assert_ne!(checksum(a, 0, b"bread"), checksum(b, 0, b"bread"));
        assert_ne!(checksum(a, 0, b"bread"), checksum(a, 1, b"bread"));
    }
}
