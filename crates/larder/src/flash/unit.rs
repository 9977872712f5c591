//! Matches regions with the device's reclaim units, for a large-object engine that evicts by whole units (FDP paper,
//! EuroSys'25, section 5.5).
//!
//! Either regions divide a unit evenly, or each region is a whole number of units. Otherwise units and groups of
//! regions would drift apart, and no group would be the content of exactly one unit.

use larder_device::DeviceInfo;

use crate::base::error::Error;
use crate::config::LocConfig;

const BLOCK: u64 = 4096;
/// A region size chosen to fit the unit is at least `1 / SMALLEST_PART` of the size it would have had otherwise: much
/// smaller regions could not hold the same objects.
const SMALLEST_PART: u64 = 4;

/// How many regions of this size a reclaim unit holds; 1 if a region is one or several units. `None` if the
/// configuration does not ask for it.
pub(super) fn regions_per_unit(
    config: &LocConfig,
    info: &DeviceInfo,
    region_bytes: u32,
) -> Result<Option<u32>, Error> {
    if !config.ru_aware_eviction {
        return Ok(None);
    }
    let unit_bytes = unit_bytes(info)?;
    let region_bytes = u64::from(region_bytes);
    if region_bytes.is_multiple_of(unit_bytes) {
        return Ok(Some(1));
    }
    let regions = unit_bytes / region_bytes;
    match u32::try_from(regions) {
        Ok(regions) if unit_bytes.is_multiple_of(region_bytes) => Ok(Some(regions)),
        _ => Err(Error::config(format!(
            "loc.ru_aware_eviction = true: regions of {region_bytes} bytes and the reclaim units of \
             {} of {unit_bytes} bytes, one must be a multiple of the other; set loc.region_bytes so",
            info.name
        ))),
    }
}

/// The largest region size of at most `wanted_bytes` that fits the device's units.
pub(super) fn fitting_region_bytes(wanted_bytes: u32, info: &DeviceInfo) -> Result<u32, Error> {
    let unit_bytes = unit_bytes(info)?;
    let wanted = u64::from(wanted_bytes);
    let fitting = if unit_bytes <= wanted {
        wanted / unit_bytes * unit_bytes
    } else {
        let mut parts = unit_bytes.div_ceil(wanted)..=unit_bytes / (wanted / SMALLEST_PART);
        parts
            .find(|parts| unit_bytes.is_multiple_of(parts * BLOCK))
            .map_or(0, |parts| unit_bytes / parts)
    };
    match u32::try_from(fitting) {
        Ok(bytes) if bytes > 0 && u64::from(bytes).is_multiple_of(BLOCK) => Ok(bytes),
        _ => Err(Error::config(format!(
            "loc.ru_aware_eviction = true: no region of about {wanted_bytes} bytes divides the reclaim \
             units of {} of {unit_bytes} bytes; set loc.region_bytes to a size that does",
            info.name
        ))),
    }
}

fn unit_bytes(info: &DeviceInfo) -> Result<u64, Error> {
    info.placement.reclaim_unit_bytes.filter(|bytes| *bytes > 0).ok_or_else(|| {
        Error::config(format!(
            "loc.ru_aware_eviction = true: {} does not say how large its reclaim units are; set it to \
             false",
            info.name
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_device::PlacementInfo;
    use proptest::prelude::*;

    fn info(unit_bytes: Option<u64>) -> DeviceInfo {
        let placement = PlacementInfo { reclaim_unit_bytes: unit_bytes, ..PlacementInfo::none() };
        DeviceInfo { placement, ..DeviceInfo::new("test", 1 << 30, 4096, 1 << 18) }
    }

    fn count(unit_bytes: Option<u64>, region_bytes: u32) -> Result<Option<u32>, String> {
        let config = LocConfig { ru_aware_eviction: true, ..LocConfig::default() };
        let count = regions_per_unit(&config, &info(unit_bytes), region_bytes);
        count.map_err(|error| error.to_string())
    }

    #[test]
    fn regions_divide_units_or_are_made_of_them() {
        assert_eq!(count(Some(1 << 20), 1 << 18), Ok(Some(4)));
        assert_eq!(count(Some(1 << 20), 1 << 20), Ok(Some(1)));
        assert_eq!(count(Some(1 << 20), 3 << 20), Ok(Some(1)));
        let drifting = count(Some(1 << 20), 3 << 18).unwrap_err();
        assert!(drifting.contains("set loc.region_bytes so"), "{drifting}");
        for unknown in [None, Some(0)] {
            let unknown = count(unknown, 1 << 20).unwrap_err();
            assert!(unknown.contains("test does not say how large"), "{unknown}");
        }
        let off = regions_per_unit(&LocConfig::default(), &info(None), 1 << 20);
        assert_eq!(off.unwrap(), None, "a config without the option is not refused");
    }

    #[test]
    fn a_unit_of_the_field_finds_its_region() {
        // The reclaim unit of a real drive: 13,079,937,024 bytes.
        let bytes = fitting_region_bytes(32 << 20, &info(Some(13_079_937_024))).unwrap();
        assert!(bytes > 30 << 20 && 13_079_937_024 % u64::from(bytes) == 0, "{bytes}");
        let prime = fitting_region_bytes(1 << 20, &info(Some(100_003 * 4096))).unwrap_err();
        assert!(prime.to_string().contains("set loc.region_bytes"), "{prime}");
        assert!(fitting_region_bytes(1 << 20, &info(Some(1000))).is_err(), "not of whole blocks");
    }

    proptest! {
        #[test]
        fn what_fits_is_accepted(pages in 1..50_000_u64, wanted_pages in 1..5_000_u32) {
            let info = info(Some(pages * 4096));
            if let Ok(bytes) = fitting_region_bytes(wanted_pages * 4096, &info) {
                prop_assert!(bytes <= wanted_pages * 4096 && bytes >= wanted_pages * 1024);
                prop_assert!(count(Some(pages * 4096), bytes).is_ok());
            }
        }
    }
}
