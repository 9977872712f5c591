//! Log page 09h: endurance group information.
//!
//! ```text
//!    0   1  critical warnings                48  16  data units read
//!    3   1  spare that is left, %            64  16  data units written
//!    4   1  spare below which it warns, %    80  16  data units written to media
//!    5   1  life that is used up, %         160  16  capacity in bytes
//!   32  16  endurance estimate              176  16  bytes that no namespace has taken
//! ```
//!
//! Data units of this log are billions of bytes, rounded up.

use zerocopy::little_endian::U128;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned, transmute};

/// Bytes of the log.
pub const ENDURANCE_LOG_BYTES: usize = size_of::<EnduranceLogLayout>();
const _: () = assert!(ENDURANCE_LOG_BYTES == 512);
/// Bytes of a data unit.
const DATA_UNIT_BYTES: u128 = 1_000_000_000;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct EnduranceLogLayout {
    critical_warning: u8,
    features: u8,
    reserved: u8,
    available_spare_percent: u8,
    spare_threshold_percent: u8,
    used_percent: u8,
    reserved_6: [u8; 26],
    endurance_estimate: U128,
    data_units_read: U128,
    data_units_written: U128,
    media_units_written: U128,
    reserved_96: [u8; 64],
    capacity_bytes: U128,
    unallocated_bytes: U128,
    reserved_192: [u8; 320],
}

/// The fields of the log that we use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EnduranceLog {
    /// Remaining spare, in percent.
    pub available_spare_percent: u8,
    /// Used life, in percent; may exceed 100.
    pub used_percent: u8,
    /// Bytes that can be written over the drive's life, as estimated by its maker; 0 if not reported.
    pub endurance_bytes: u128,
    /// Bytes that hosts wrote.
    pub host_bytes: u128,
    /// Bytes that were written to media; 0 if not reported.
    pub media_bytes: u128,
    /// Bytes of the group; 0 if not reported.
    pub capacity_bytes: u128,
    /// Bytes of the group that no namespace uses.
    pub unallocated_bytes: u128,
}

impl EnduranceLog {
    /// Encodes the log; byte counts are rounded up to its units.
    pub fn encode(&self) -> [u8; ENDURANCE_LOG_BYTES] {
        let units = |bytes: u128| U128::new(bytes.div_ceil(DATA_UNIT_BYTES));
        transmute!(EnduranceLogLayout {
            available_spare_percent: self.available_spare_percent,
            used_percent: self.used_percent,
            endurance_estimate: units(self.endurance_bytes),
            data_units_written: units(self.host_bytes),
            media_units_written: units(self.media_bytes),
            capacity_bytes: self.capacity_bytes.into(),
            unallocated_bytes: self.unallocated_bytes.into(),
            ..EnduranceLogLayout::new_zeroed()
        })
    }

    /// Decodes the log. `None` if it is too short.
    pub fn decode(log: &[u8]) -> Option<Self> {
        let (log, _) = EnduranceLogLayout::ref_from_prefix(log).ok()?;
        let bytes = |units: U128| units.get().saturating_mul(DATA_UNIT_BYTES);
        Some(Self {
            available_spare_percent: log.available_spare_percent,
            used_percent: log.used_percent,
            endurance_bytes: bytes(log.endurance_estimate),
            host_bytes: bytes(log.data_units_written),
            media_bytes: bytes(log.media_units_written),
            capacity_bytes: log.capacity_bytes.get(),
            unallocated_bytes: log.unallocated_bytes.get(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::golden::put;
    use super::*;

    #[test]
    fn the_log_has_its_bytes_in_place() {
        let log = EnduranceLog {
            available_spare_percent: 99,
            used_percent: 3,
            endurance_bytes: 0x0708 * DATA_UNIT_BYTES,
            host_bytes: 0x0201 * DATA_UNIT_BYTES,
            media_bytes: 0x0403 * DATA_UNIT_BYTES,
            capacity_bytes: 0x0605,
            unallocated_bytes: 7,
        };
        let mut expected = [0; ENDURANCE_LOG_BYTES];
        put(&mut expected, 3, &[99, 0, 3]);
        put(&mut expected, 32, &[8, 7]);
        put(&mut expected, 64, &[1, 2]);
        put(&mut expected, 80, &[3, 4]);
        put(&mut expected, 160, &[5, 6]);
        put(&mut expected, 176, &[7]);
        assert_eq!(log.encode(), expected);
        assert_eq!(EnduranceLog::decode(&expected), Some(log));
        let begun = EnduranceLog { host_bytes: 1, ..EnduranceLog::default() };
        assert_eq!(begun.encode()[64], 1, "a unit that has begun counts");
        assert_eq!(EnduranceLog::decode(&expected[..511]), None);
    }
}
