//! Log page 02h: SMART and health, of the whole drive.
//!
//! ```text
//!    0   1  critical warnings                48  16  data units written
//!    1   2  temperature in kelvin           112  16  power cycles
//!    3   1  spare that is left, %           128  16  power-on hours
//!    4   1  spare below which it warns, %   144  16  unsafe shutdowns
//!    5   1  life that is used up, %         160  16  media and data integrity errors
//! ```
//!
//! Data units of this log are 1000 times 512 bytes, whatever the logical blocks are; the endurance
//! group log (09h) counts in units of 10^9 bytes.

#![deny(clippy::indexing_slicing)]

use super::le::{put, u8_at, u16_at, u128_at};

/// Bytes of the log.
pub const SMART_BYTES: usize = 512;
/// Bytes of a data unit.
const DATA_UNIT_BYTES: u128 = 512_000;

/// What the log says that is of use here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SmartLog {
    /// Critical warnings, a bit each: 0 spare, 1 temperature, 2 reliability, 3 read only, 4 backup
    /// of volatile memory, 5 persistent memory region.
    pub critical_warning: u8,
    /// Kelvin; 0 if not reported.
    pub temperature_k: u16,
    /// Spare that is left, in percent.
    pub available_spare_percent: u8,
    /// Spare below which the drive warns, in percent.
    pub spare_threshold_percent: u8,
    /// Life that is used up, in percent; may exceed 100, and stays at 255.
    pub used_percent: u8,
    /// Bytes that hosts wrote, to within a data unit.
    pub host_bytes: u128,
    /// Power cycles.
    pub power_cycles: u128,
    /// Hours under power.
    pub power_on_hours: u128,
    /// Losses of power without notice.
    pub unsafe_shutdowns: u128,
    /// Errors of media and data integrity.
    pub media_errors: u128,
}

impl SmartLog {
    /// The log; written bytes are rounded up to a data unit.
    pub fn encode(&self) -> [u8; SMART_BYTES] {
        let mut log = [0; SMART_BYTES];
        put(&mut log, 0, &[self.critical_warning]);
        put(&mut log, 1, &self.temperature_k.to_le_bytes());
        let [spare, threshold, used] =
            [self.available_spare_percent, self.spare_threshold_percent, self.used_percent];
        put(&mut log, 3, &[spare, threshold, used]);
        put(&mut log, 48, &self.host_bytes.div_ceil(DATA_UNIT_BYTES).to_le_bytes());
        put(&mut log, 112, &self.power_cycles.to_le_bytes());
        put(&mut log, 128, &self.power_on_hours.to_le_bytes());
        put(&mut log, 144, &self.unsafe_shutdowns.to_le_bytes());
        put(&mut log, 160, &self.media_errors.to_le_bytes());
        log
    }

    /// Reads the log. `None` if it is too short.
    pub fn decode(log: &[u8]) -> Option<Self> {
        Some(Self {
            critical_warning: u8_at(log, 0)?,
            temperature_k: u16_at(log, 1)?,
            available_spare_percent: u8_at(log, 3)?,
            spare_threshold_percent: u8_at(log, 4)?,
            used_percent: u8_at(log, 5)?,
            host_bytes: u128_at(log, 48)?.saturating_mul(DATA_UNIT_BYTES),
            power_cycles: u128_at(log, 112)?,
            power_on_hours: u128_at(log, 128)?,
            unsafe_shutdowns: u128_at(log, 144)?,
            media_errors: u128_at(log, 160)?,
        })
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(SmartLog::decode(expected.get(..175).unwrap()), None);
    }

    proptest! {
        #[test]
        fn hostile_logs_never_panic(log in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = SmartLog::decode(&log);
        }
    }
}
