//! Values that contain their key and are otherwise zeros, so that a device that does not store zeros has room for many.

use crate::Error;

/// Bytes of a record in addition to its value: header and stamp (40), and key (8).
pub(super) const BESIDE_VALUE_BYTES: usize = 48;
const MARK_BYTES: usize = 8;

/// Values of one length.
#[derive(Debug, Clone, Copy)]
pub(in crate::experiment::array) struct Values {
    bytes: usize,
}

impl Values {
    /// The values of records of `record_bytes` bytes.
    pub(in crate::experiment::array) fn of_records(record_bytes: usize) -> Self {
        assert!(
            record_bytes >= BESIDE_VALUE_BYTES + 2 * MARK_BYTES,
            "{record_bytes}: a value has a mark"
        );
        Self { bytes: record_bytes - BESIDE_VALUE_BYTES }
    }

    /// The value of a key.
    pub(in crate::experiment::array) fn of(self, key: u64) -> Vec<u8> {
        let mut value = vec![0; self.bytes];
        value[..MARK_BYTES].copy_from_slice(&key.to_le_bytes());
        value
    }

    /// Returns the value of a key in a version.
    pub(in crate::experiment::array) fn of_version(self, key: u64, version: u64) -> Vec<u8> {
        let mut value = self.of(key);
        value[MARK_BYTES..2 * MARK_BYTES].copy_from_slice(&version.to_le_bytes());
        value
    }

    /// Returns the version of a value, or 0 if it has none.
    pub(in crate::experiment::array) fn version(self, value: &[u8]) -> u64 {
        let version = value.get(MARK_BYTES..2 * MARK_BYTES).and_then(|it| it.try_into().ok());
        version.map_or(0, u64::from_le_bytes)
    }

    /// Fails if the value does not belong to this key.
    pub(in crate::experiment::array) fn check(self, key: u64, value: &[u8]) -> Result<(), Error> {
        if value.len() == self.bytes && value.starts_with(&key.to_le_bytes()) {
            return Ok(());
        }
        Err(Error::run(format!("key {key:#x}: the cache returned a value of another key")))
    }
}
