//! Keys: their lengths, and the one hash that everything derives from.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::error::{Error, ErrorKind};

/// Longest key, in bytes: lengths are stored in 16 bits.
pub(crate) const KEY_BYTES_MAX: usize = 65_535;

/// Longest value, in bytes.
pub(crate) const VALUE_BYTES_MAX: usize = 16 << 20;

/// Hash of a key (XXH3, 64 bits). It picks bucket, filter bits and stripe; it never stands in for
/// the key itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KeyHash(pub(crate) u64);

impl KeyHash {
    pub(crate) fn of(key: &[u8]) -> Self {
        Self(xxh3_64(key))
    }

    /// A number below `count`, from the upper bits.
    pub(crate) fn spread_over(self, count: u64) -> u64 {
        let product = u128::from(self.0) * u128::from(count);
        u64::try_from(product >> 64).expect("the upper half of a 64 x 64 bit product")
    }

    /// With a second hash of the same key, which tells keys of one hash apart where the keys
    /// themselves would take too much memory.
    pub(crate) fn with_mark(self, key: &[u8]) -> (u64, u64) {
        (self.0, xxh3_64_with_seed(key, 1))
    }

    /// A short mark for stored entries, from the lower bits: independent of
    /// [`KeyHash::spread_over`] for any real count.
    pub(crate) fn tag(self) -> u16 {
        #[allow(clippy::cast_possible_truncation)] // the lower bits are what is wanted
        let tag = self.0 as u16;
        tag
    }
}

pub(crate) fn check_key(key: &[u8]) -> Result<(), Error> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        let message = format!("key of {} bytes: must be 1 to {KEY_BYTES_MAX}", key.len());
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    Ok(())
}

pub(crate) fn check_value(value: &[u8]) -> Result<(), Error> {
    if value.len() > VALUE_BYTES_MAX {
        let message = format!("value of {} bytes: must be at most {VALUE_BYTES_MAX}", value.len());
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_one_hash_are_told_apart() {
        let [one, other] = [1, 2].map(twin);
        assert_eq!(KeyHash::of(&one), KeyHash::of(&other));
        assert_ne!(KeyHash::of(&one).with_mark(&one), KeyHash::of(&other).with_mark(&other));
    }

    /// Keys of 32 bytes whose first eight are those of XXH3's secret: what follows is multiplied by 0.
    fn twin(which: u8) -> Vec<u8> {
        let mut key = vec![0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe];
        key.extend_from_slice(&[which; 8]);
        key.extend_from_slice(b"sixteen others..");
        key
    }

    #[test]
    fn spreading_covers_the_range() {
        assert_eq!(KeyHash(0).spread_over(10), 0);
        assert_eq!(KeyHash(u64::MAX).spread_over(10), 9);
        assert_eq!(KeyHash(u64::MAX / 2).spread_over(10), 4);
    }
}
