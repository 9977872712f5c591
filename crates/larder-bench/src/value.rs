//! The bytes of keys and values. A value contains its key, and all of its bytes follow from that, so each value that
//! comes back can be checked.

use std::io::Write;

/// Size of the pool that values are cut from; small enough for the CPU cache.
const POOL: usize = 1 << 15;
/// Key, length and version. Shorter values consist of the pool's bytes alone.
const HEAD: usize = 16;

/// Makes values and checks them.
#[derive(Debug)]
pub(crate) struct Values {
    pool: Box<[u8]>,
}

impl Values {
    /// The bytes depend on the seed, so a value of another run is recognised as wrong.
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut pool = vec![0; POOL].into_boxed_slice();
        rng.fill(&mut pool);
        Self { pool }
    }

    /// Appends the value of a key; another `version` changes all its bytes.
    pub(crate) fn put(&self, key: u64, bytes: u32, version: u32, out: &mut Vec<u8>) {
        let mut left = bytes as usize;
        if left >= HEAD {
            out.extend_from_slice(&key.to_le_bytes());
            out.extend_from_slice(&bytes.to_le_bytes());
            out.extend_from_slice(&version.to_le_bytes());
            left -= HEAD;
        }
        let mut at = start(key, version);
        while left > 0 {
            let piece = left.min(POOL - at);
            out.extend_from_slice(&self.pool[at..at + piece]);
            (left, at) = (left - piece, 0);
        }
    }

    /// Whether these are the bytes of a value of this key. A value shorter than the head cannot be checked.
    pub(crate) fn is_right(&self, key: u64, value: &[u8]) -> bool {
        let Some((head, mut rest)) = value.split_at_checked(HEAD) else { return true };
        let word = |at: usize| head.get(at..at + 4).and_then(|word| <[u8; 4]>::try_from(word).ok());
        let number = |at| word(at).map(u32::from_le_bytes);
        if head.get(..8) != Some(&key.to_le_bytes())
            || number(8).map(|length| length as usize) != Some(value.len())
        {
            return false;
        }
        let Some(version) = number(12) else { return false };
        let mut at = start(key, version);
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(rest.len().min(POOL - at));
            if piece != &self.pool[at..at + piece.len()] {
                return false;
            }
            (rest, at) = (behind, 0);
        }
        true
    }
}

/// Where in the pool a value begins.
fn start(key: u64, version: u32) -> usize {
    let mixed = (key ^ u64::from(version) << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    usize::try_from(mixed >> 40).unwrap_or(0) % POOL
}

/// Appends a key's text: its number in hexadecimal, padded with zeros to `bytes` digits.
pub(crate) fn put_key(key: u64, bytes: u32, out: &mut Vec<u8>) {
    let width = bytes as usize;
    write!(out, "{key:0width$x}").expect("memory takes it");
}

/// Length of a key's text. A number with more than `bytes` digits keeps them all; otherwise two keys could become one.
pub(crate) fn key_bytes(key: u64, bytes: u32) -> usize {
    (64 - key.leading_zeros()).div_ceil(4).max(1).max(bytes) as usize
}

/// The number of a key's text. `None` if it is not such a text.
pub(crate) fn key_of(text: &[u8]) -> Option<u64> {
    let digits = text.get(text.len().saturating_sub(16)..)?;
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_right_for_its_key_alone() {
        let values = Values::new(7);
        for bytes in [17, 100, 70_000] {
            let mut value = Vec::new();
            values.put(5, bytes, 3, &mut value);
            assert_eq!(value.len(), bytes as usize);
            assert!(values.is_right(5, &value));
            assert!(!values.is_right(6, &value), "another key's");
            assert!(!values.is_right(5, &value[..value.len() - 1]), "cut off");
            let (last, other) = (value.len() - 1, Values::new(8));
            assert!(!other.is_right(5, &value), "of another run");
            value[last] ^= 1;
            assert!(!values.is_right(5, &value), "its last byte, of {bytes}");
        }
        assert!(values.is_right(5, b"short"));
    }

    #[test]
    fn a_key_is_as_long_as_was_asked() {
        for (key, bytes, length) in [(0xbeef, 32, 32), (u64::MAX, 4, 16), (0, 1, 1)] {
            let mut text = Vec::new();
            put_key(key, bytes, &mut text);
            assert_eq!((text.len(), key_of(&text)), (length, Some(key)));
            assert_eq!(key_bytes(key, bytes), length);
        }
        assert_eq!(key_of(b"zz"), None);
    }
}
