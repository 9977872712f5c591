//! Keys and values. Every value contains its key, so that a wrong answer cannot count as a hit.

use std::hash::{Hash, Hasher};
use std::io::{Read, Write};

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Bytes of a key.
pub(crate) const KEY_BYTES: usize = 16;

/// A key. It is hashed as one byte string, which is cheapest for every system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key(pub(crate) [u8; KEY_BYTES]);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.0);
    }
}

impl foyer::Code for Key {
    fn encode(&self, writer: &mut impl Write) -> foyer::Result<()> {
        writer.write_all(&self.0).map_err(foyer::Error::io_error)
    }

    fn decode(reader: &mut impl Read) -> foyer::Result<Self> {
        let mut bytes = [0; KEY_BYTES];
        reader.read_exact(&mut bytes).map_err(foyer::Error::io_error)?;
        Ok(Self(bytes))
    }

    fn estimated_size(&self) -> usize {
        KEY_BYTES
    }
}

/// A key and the length of its value, which never changes, so that a hit can be checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) key: Key,
    pub(crate) value_bytes: usize,
}

impl Item {
    /// The item with this number.
    pub(crate) fn new(number: u64, value_bytes: usize) -> Self {
        let mut key = [0; KEY_BYTES];
        key[..8].copy_from_slice(&mix(number).to_le_bytes());
        key[8..].copy_from_slice(&number.to_le_bytes());
        Self { key: Key(key), value_bytes: value_bytes.max(KEY_BYTES) }
    }

    /// Key and value together.
    pub(crate) fn bytes(&self) -> u64 {
        (KEY_BYTES + self.value_bytes) as u64
    }

    /// Its value, written into `room`, which is extended as needed.
    pub(crate) fn value<'a>(&self, room: &'a mut Vec<u8>) -> &'a [u8] {
        if room.len() < self.value_bytes {
            room.resize(self.value_bytes, 0x5a);
        }
        room[..KEY_BYTES].copy_from_slice(&self.key.0);
        &room[..self.value_bytes]
    }

    /// Checks that `value` is that of this item.
    pub(crate) fn check(&self, value: &[u8]) -> Result<(), String> {
        if value.len() == self.value_bytes && value.starts_with(&self.key.0) {
            return Ok(());
        }
        Err(format!(
            "a wrong value: for key {:02x?} of {} bytes came {} bytes that begin with {:02x?}",
            self.key.0,
            self.value_bytes,
            value.len(),
            &value[..value.len().min(KEY_BYTES)]
        ))
    }
}

/// Scatters numbers: the first output of SplitMix64 with this seed, which is different for each number.
pub(crate) fn mix(number: u64) -> u64 {
    SplitMix64::seed_from_u64(number).next_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_or_shortened_value_is_refused() {
        let item = Item::new(7, 100);
        let mut room = Vec::new();
        let value = item.value(&mut room).to_vec();
        assert_eq!(item.check(&value), Ok(()));
        assert!(item.check(&value[..99]).is_err());
        assert!(Item::new(8, 100).check(&value).unwrap_err().contains("wrong value"));
        assert!(item.check(&[]).is_err());
    }
}
