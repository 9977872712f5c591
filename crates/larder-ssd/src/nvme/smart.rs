//! Log page 02h: SMART and health information of the whole drive.
//!
//! ```text
//!    0   1  critical warnings                48  16  data units written
//!    1   2  temperature in kelvin           112  16  power cycles
//!    3   1  spare that is left, %           128  16  power-on hours
//!    4   1  spare below which it warns, %   144  16  unsafe shutdowns
//!    5   1  life that is used up, %         160  16  media and data integrity errors
//! ```
//!
//! A data unit of this log is 1000 times 512 bytes, whatever the logical block size; the endurance group log (09h)
//! counts in units of 10^9 bytes.

#![deny(clippy::indexing_slicing)]

use zerocopy::little_endian::{U16, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute};

/// Bytes of the log.
pub const SMART_BYTES: usize = size_of::<SmartLayout>();
const _: () = assert!(SMART_BYTES == 512);
/// Bytes of a data unit.
const DATA_UNIT_BYTES: u128 = 512_000;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct SmartLayout {
    critical_warning: u8,
    temperature_k: U16,
    available_spare_percent: u8,
    spare_threshold_percent: u8,
    used_percent: u8,
    reserved: [u8; 26],
    data_units_read: U128,
    data_units_written: U128,
    commands: [U128; 2],
    busy_minutes: U128,
    power_cycles: U128,
    power_on_hours: U128,
    unsafe_shutdowns: U128,
    media_errors: U128,
    rest: [u8; 336],
}

/// The fields of the log that we use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SmartLog {
    /// Critical warnings, one bit each: 0 spare, 1 temperature, 2 reliability, 3 read only, 4 backup of volatile
    /// memory, 5 persistent memory region.
    pub critical_warning: u8,
    /// Temperature in kelvin; 0 if not reported.
    pub temperature_k: u16,
    /// Remaining spare, in percent.
    pub available_spare_percent: u8,
    /// Spare below which the drive warns, in percent.
    pub spare_threshold_percent: u8,
    /// Used life, in percent; may exceed 100, and saturates at 255.
    pub used_percent: u8,
    /// Bytes that hosts wrote, rounded to data units.
    pub host_bytes: u128,
    /// Power cycles.
    pub power_cycles: u128,
    /// Power-on hours.
    pub power_on_hours: u128,
    /// Unsafe shutdowns.
    pub unsafe_shutdowns: u128,
    /// Media and data integrity errors.
    pub media_errors: u128,
}

impl SmartLog {
    /// Encodes the log; written bytes are rounded up to a data unit.
    pub fn encode(&self) -> [u8; SMART_BYTES] {
        transmute!(SmartLayout {
            critical_warning: self.critical_warning,
            temperature_k: self.temperature_k.into(),
            available_spare_percent: self.available_spare_percent,
            spare_threshold_percent: self.spare_threshold_percent,
            used_percent: self.used_percent,
            reserved: [0; 26],
            data_units_read: 0.into(),
            data_units_written: self.host_bytes.div_ceil(DATA_UNIT_BYTES).into(),
            commands: [0.into(); 2],
            busy_minutes: 0.into(),
            power_cycles: self.power_cycles.into(),
            power_on_hours: self.power_on_hours.into(),
            unsafe_shutdowns: self.unsafe_shutdowns.into(),
            media_errors: self.media_errors.into(),
            rest: [0; 336],
        })
    }

    /// Decodes the log. `None` if it is too short.
    pub fn decode(log: &[u8]) -> Option<Self> {
        let (log, _) = SmartLayout::ref_from_prefix(log).ok()?;
        Some(Self {
            critical_warning: log.critical_warning,
            temperature_k: log.temperature_k.get(),
            available_spare_percent: log.available_spare_percent,
            spare_threshold_percent: log.spare_threshold_percent,
            used_percent: log.used_percent,
            host_bytes: log.data_units_written.get().saturating_mul(DATA_UNIT_BYTES),
            power_cycles: log.power_cycles.get(),
            power_on_hours: log.power_on_hours.get(),
            unsafe_shutdowns: log.unsafe_shutdowns.get(),
            media_errors: log.media_errors.get(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::golden::put;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_log_has_its_bytes_in_place() {
        let smart = SmartLog {
            critical_warning: 1,
            temperature_k: 0x0136,
            available_spare_percent: 99,
            spare_threshold_percent: 10,
            used_percent: 3,
            host_bytes: 0x0201 * 512_000,
            power_cycles: 7,
            power_on_hours: 0x1234,
            unsafe_shutdowns: 5,
            media_errors: 6,
        };
        let mut expected = [0; SMART_BYTES];
        put(&mut expected, 0, &[1, 0x36, 0x01, 99, 10, 3]);
        put(&mut expected, 48, &[0x01, 0x02]);
        put(&mut expected, 112, &[7]);
        put(&mut expected, 128, &[0x34, 0x12]);
        put(&mut expected, 144, &[5]);
        put(&mut expected, 160, &[6]);
        assert_eq!(smart.encode(), expected);
        assert_eq!(SmartLog::decode(&expected), Some(smart));
        assert_eq!(SmartLog::decode(expected.get(..511).unwrap()), None);
    }

    proptest! {
        #[test]
        fn hostile_logs_never_panic(log in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = SmartLog::decode(&log);
        }
    }
}
