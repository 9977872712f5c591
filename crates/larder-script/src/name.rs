//! The names of scripts: SHA-1 of their sources.

use sha1::{Digest as _, Sha1};

/// SHA-1 of `bytes`, in hexadecimal digits.
pub fn sha1_hex(bytes: &[u8]) -> [u8; 40] {
    let digest: [u8; 20] = Sha1::digest(bytes).into();
    let mut digits = [0; 40];
    for (two, byte) in digits.chunks_exact_mut(2).zip(digest) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        two[0] = DIGITS[usize::from(byte >> 4)];
        two[1] = DIGITS[usize::from(byte & 15)];
    }
    digits
}
