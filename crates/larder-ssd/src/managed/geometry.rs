//! Size and division of the drive.

use crate::error::{Error, ErrorKind};

/// Bytes of one mapped page, the unit of mapping and of host I/O.
pub const PAGE_BYTES: u64 = 4096;

/// Size and division of the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Pages that the host can address.
    pub logical_pages: u64,
    /// Pages of one reclaim unit (on real drives a superblock: one block per plane per die).
    pub pages_per_unit: u32,
    /// Reclaim units of the media, including over-provisioning.
    pub units: u32,
}

impl Geometry {
    /// A drive that sells `logical_bytes` and has `op_percent` more media than that. Over-provisioning is a share of
    /// the logical capacity, as drive makers count it (2 TiB of flash sold as 1.88 TB: 17 %).
    ///
    /// # Errors
    /// If the sizes are not whole pages, or exceed the range of 32-bit page numbers.
    pub fn with_overprovisioning(
        logical_bytes: u64,
        unit_bytes: u64,
        op_percent: f64,
    ) -> Result<Self, Error> {
        let config = |message: String| Error::new(ErrorKind::Config, message);
        if logical_bytes == 0 || !logical_bytes.is_multiple_of(PAGE_BYTES) {
            return Err(config(format!(
                "capacity of {logical_bytes} bytes: must be a positive multiple of the \
                 {PAGE_BYTES}-byte page"
            )));
        }
        if unit_bytes == 0 || !unit_bytes.is_multiple_of(PAGE_BYTES) {
            return Err(config(format!(
                "reclaim unit of {unit_bytes} bytes: must be a positive multiple of the \
                 {PAGE_BYTES}-byte page"
            )));
        }
        if !op_percent.is_finite() || !(0.0..=1000.0).contains(&op_percent) {
            return Err(config(format!("over-provisioning of {op_percent} %: must be 0 to 1000")));
        }
        let units = units_for(logical_bytes, unit_bytes, op_percent);
        let too_large = || {
            config(format!(
                "a drive of {logical_bytes} bytes in units of {unit_bytes} bytes has more pages \
                 than 32-bit page numbers can hold"
            ))
        };
        Ok(Self {
            logical_pages: logical_bytes / PAGE_BYTES,
            pages_per_unit: u32::try_from(unit_bytes / PAGE_BYTES).map_err(|_| too_large())?,
            units: u32::try_from(units).map_err(|_| too_large())?,
        })
    }

    /// Pages of the media.
    pub fn physical_pages(&self) -> u64 {
        u64::from(self.units) * u64::from(self.pages_per_unit)
    }

    /// Bytes of one reclaim unit.
    pub fn unit_bytes(&self) -> u64 {
        u64::from(self.pages_per_unit) * PAGE_BYTES
    }

    /// Bytes that the host can address.
    pub fn logical_bytes(&self) -> u64 {
        self.logical_pages * PAGE_BYTES
    }
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn units_for(logical_bytes: u64, unit_bytes: u64, op_percent: f64) -> u64 {
    // Saturates far above what a caller accepts. The sign was checked.
    (logical_bytes as f64 * (1.0 + op_percent / 100.0) / unit_bytes as f64).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overprovisioning_is_a_share_of_the_logical_capacity() {
        let geometry = Geometry::with_overprovisioning(100 << 20, 1 << 20, 17.0).unwrap();
        assert_eq!(geometry.units, 117);
        assert_eq!(geometry.pages_per_unit, 256);
        assert_eq!(geometry.logical_pages, 25_600);
    }

    #[test]
    fn impossible_drives_are_refused_by_name() {
        let refuse = |logical, unit, op| {
            Geometry::with_overprovisioning(logical, unit, op).unwrap_err().to_string()
        };
        assert!(refuse(0, 1 << 20, 7.0).contains("capacity of 0 bytes"));
        assert!(refuse(1 << 20, 1000, 7.0).contains("reclaim unit of 1000 bytes"));
        assert!(refuse(1 << 20, 1 << 20, f64::NAN).contains("over-provisioning"));
        assert!(refuse(1 << 62, 4096 * 2, 7.0).contains("32-bit"));
    }
}
