//! The spare room of garbage collection, as the one number that the formulas need.

use super::{positive, refused};
use crate::error::Error;

/// Spare media per byte of live data: `α - 1`, where `α` is physical over logical capacity.
///
/// This is over-provisioning as drive makers count it (2 TiB of flash sold as 1.88 TB: 0.17), and not the "spare
/// factor" `1 - 1/α` of other texts (0.145 for that drive). We store the ratio and not `α` because `α` loses
/// significant digits at small ratios.
///
/// From [`SpareRatio::MIN`] to [`SpareRatio::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct SpareRatio(f64);

impl SpareRatio {
    /// The smallest accepted ratio. There the DLWA is already in the order of 10¹².
    pub const MIN: f64 = 1e-12;
    /// The largest accepted ratio. From 40 on the formulas give 1 to the last digit anyway.
    pub const MAX: f64 = 1e12;

    /// From the ratio itself: 0.07 for 7 % of over-provisioning.
    ///
    /// # Errors
    /// If the ratio is out of range. Without any spare room nothing can be written.
    pub fn new(ratio: f64) -> Result<Self, Error> {
        if (Self::MIN..=Self::MAX).contains(&ratio) {
            return Ok(Self(ratio));
        }
        let range = format_args!("{:e} to {:e}", Self::MIN, Self::MAX);
        Err(refused("spare media per byte of live data", ratio, range))
    }

    /// From bytes. For the small-object cache (SOC) of a cache whose large objects need no spare room, pass the bytes
    /// of the SOC and the over-provisioning of the drive.
    ///
    /// # Errors
    /// If the ratio is out of range; 0 bytes are refused too.
    pub fn from_bytes(live_bytes: u64, spare_bytes: u64) -> Result<Self, Error> {
        if live_bytes == 0 {
            return Err(refused("live bytes", 0, format_args!("above 0")));
        }
        Self::new(spare_bytes as f64 / live_bytes as f64)
    }

    /// The ratio for the SOC of a drive in full use. Over-provisioning and SOC are percentages of the logical capacity;
    /// everything else is written in order and so needs no spare room.
    ///
    /// # Errors
    /// If over-provisioning is not above 0, the SOC is not above 0 and up to 100, or their ratio is out of range.
    pub fn of_soc_percent(op_percent: f64, soc_percent: f64) -> Result<Self, Error> {
        positive("over-provisioning percentage", op_percent)?;
        positive("SOC percentage", soc_percent)?;
        if soc_percent > 100.0 {
            return Err(refused("SOC percentage", soc_percent, format_args!("at most 100")));
        }
        Self::new(op_percent / soc_percent)
    }

    /// `α - 1`.
    pub fn ratio(self) -> f64 {
        self.0
    }

    /// Physical capacity per logical capacity: `α`, the `S_P/S_SOC` of Theorem 1.
    pub fn alpha(self) -> f64 {
        1.0 + self.0
    }

    /// For formulas that change the ratio: caps it at [`SpareRatio::MAX`]. It must not be below [`SpareRatio::MIN`].
    pub(super) fn clamped(ratio: f64) -> Self {
        debug_assert!(ratio >= Self::MIN, "{ratio}");
        Self(ratio.min(Self::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_ways_to_say_the_same() {
        let expected = SpareRatio::new(0.25).unwrap();
        assert_eq!(SpareRatio::from_bytes(64 << 30, 16 << 30), Ok(expected));
        assert_eq!(SpareRatio::of_soc_percent(16.0, 64.0), Ok(expected));
        assert_eq!(expected.ratio(), 0.25);
        assert_eq!(expected.alpha(), 1.25);
    }

    #[test]
    fn what_is_no_drive_is_refused() {
        for ratio in [0.0, -0.1, 9e-13, 2e12, f64::NAN, f64::INFINITY] {
            let error = SpareRatio::new(ratio).unwrap_err().to_string();
            assert!(error.contains(&ratio.to_string()), "{error}");
        }
        assert!(SpareRatio::from_bytes(0, 1).is_err());
        assert!(SpareRatio::from_bytes(1, 0).is_err());
        let cases = [(0.0, 4.0), (7.0, 0.0), (7.0, 101.0), (f64::NAN, 4.0), (7.0, f64::NAN)];
        for (op_percent, soc_percent) in cases {
            assert!(SpareRatio::of_soc_percent(op_percent, soc_percent).is_err());
        }
    }
}
