//! CRC-32C (Castagnoli; RFC 3720, appendix B.4; CRC-32/ISCSI in catalogues): the checksum of everything on flash,
//! computed with the CPU's instructions for it.

use crc_fast::{CrcAlgorithm, Digest};

/// CRC-32C of `bytes`.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// Extends the CRC-32C `before` of earlier bytes by `bytes`.
#[inline]
pub fn crc32c_append(before: u32, bytes: &[u8]) -> u32 {
    // The state of a digest is the complement of its checksum.
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!before));
    digest.update(bytes);
    u32::try_from(digest.finalize()).expect("32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 3720, appendix B.4.
    #[test]
    fn it_is_the_checksum_of_rfc_3720() {
        let up: Vec<u8> = (0..32).collect();
        let down: Vec<u8> = (0..32).rev().collect();
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&up), 0x46dd_794e);
        assert_eq!(crc32c(&down), 0x113f_db5c);
        assert_eq!((crc32c(b"123456789"), crc32c(b"")), (0xe306_9283, 0));
    }

    /// For all lengths and alignments, since each takes a different path through the instructions.
    #[test]
    fn any_bytes_have_the_checksum_that_bit_by_bit_division_gives() {
        let mut rng = fastrand::Rng::with_seed(1);
        let bytes: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(5000).collect();
        for length in (0..300).chain([511, 512, 513, 1024, 4032, 4095, 4096, 4900]) {
            let from = rng.usize(0..64);
            let part = &bytes[from..from + length];
            assert_eq!(crc32c(part), bit_by_bit(part), "{length} bytes");
            let middle = rng.usize(0..=length);
            let parts = crc32c_append(crc32c(&part[..middle]), &part[middle..]);
            assert_eq!(parts, bit_by_bit(part), "{middle} of {length} bytes, and the rest");
        }
    }

    fn bit_by_bit(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0_u32, |before, byte| {
            (0..8).fold(before ^ u32::from(*byte), |state, _| {
                (state >> 1) ^ (0x82f6_3b78 & 0_u32.wrapping_sub(state & 1))
            })
        })
    }
}
