//! Derives the array engine's settings with which a cache was made from its layout, and finds those that have changed.

use super::{change, part, shortest};
use crate::base::layout::Layout;
use crate::base::ttl_groups::GROUPS_MAX;
use crate::config::ArrayConfig;
use crate::engine::array::place::tables_for;
use crate::engine::array::table::TABLE_ENTRIES;

/// Candidate mean sizes are multiples of these grains. Coarser grains come first, since people prefer round numbers.
const SIZE_GRAINS: [u64; 8] = [1 << 20, 1 << 14, 1 << 12, 1 << 10, 1000, 100, 10, 1];

/// Returns settings that explain `found`; those of `config` wherever they explain it. `plan` divides the device by
/// given settings.
pub(super) fn before(
    config: &ArrayConfig,
    found: &Layout,
    plan: impl Fn(ArrayConfig) -> Option<Layout>,
) -> ArrayConfig {
    if found.array_regions == 0 {
        return ArrayConfig { percent: 0.0, ..config.clone() };
    }
    let bytes = u64::from(found.array_regions) * u64::from(found.array_region_bytes);
    let before = ArrayConfig {
        ttl_groups: found.array_ttl_groups == GROUPS_MAX,
        mean_object_bytes: mean_object_bytes(config.mean_object_bytes, bytes, found.array_tables),
        // Lift the limit: it was enough for this layout, whatever it was.
        index_bytes: None,
        ..config.clone()
    };
    let regions = |layout: &Layout| (layout.array_regions, layout.array_region_bytes);
    let least = part(bytes, found.usable_bytes);
    let mut sizes = vec![config.region_bytes, None];
    // Try this last: a size that follows from the share says something about the share.
    sizes.push(Some(found.array_region_bytes));
    for region_bytes in sizes {
        let with = |percent| ArrayConfig { percent, region_bytes, ..before.clone() };
        let explains =
            |percent| plan(with(percent)).is_some_and(|it| regions(&it) == regions(found));
        let percent = shortest(config.percent, least, explains);
        if explains(percent) {
            return ArrayConfig { index_bytes: config.index_bytes, ..with(percent) };
        }
    }
    let region_bytes = Some(found.array_region_bytes);
    ArrayConfig { percent: least, region_bytes, index_bytes: config.index_bytes, ..before }
}

/// The mean size with which `bytes` get this number of `tables`: `now` if it explains them, else the roundest one.
fn mean_object_bytes(now: u32, bytes: u64, tables: u32) -> u32 {
    let explains = |mean: u32| tables_for(bytes, mean) == tables;
    let objects = u64::from(tables) * TABLE_ENTRIES as u64 * 3 / 4;
    let about = bytes / objects.max(1);
    let rounded = SIZE_GRAINS.into_iter().map(|grain| about / grain * grain);
    let mut sizes = std::iter::once(now).chain(rounded.filter_map(|size| u32::try_from(size).ok()));
    sizes.find(|&size| size > 0 && explains(size)).unwrap_or(u32::try_from(about).unwrap_or(now))
}

/// Describes the settings that differ, in words.
pub(super) fn changes(now: &ArrayConfig, before: &ArrayConfig) -> Vec<String> {
    let or_none = |bytes: Option<u32>| bytes.map_or("None".to_owned(), |bytes| bytes.to_string());
    let mut changes = Vec::new();
    if now.percent.to_bits() != before.percent.to_bits() {
        changes.push(change("array.percent", now.percent, before.percent));
    }
    // If the engine is switched on or off, the other settings do not matter.
    if !now.is_on() || !before.is_on() {
        return changes;
    }
    if now.region_bytes != before.region_bytes {
        let [now, before] = [now, before].map(|it| or_none(it.region_bytes));
        changes.push(change("array.region_bytes", now, before));
    }
    if now.mean_object_bytes != before.mean_object_bytes {
        let [now, before] = [now, before].map(|it| it.mean_object_bytes);
        changes.push(change("array.mean_object_bytes", now, before));
    }
    if now.ttl_groups != before.ttl_groups {
        changes.push(change("array.ttl_groups", now.ttl_groups, before.ttl_groups));
    }
    changes
}

#[cfg(test)]
mod tests {
    use larder_device::DeviceInfo;

    use super::*;
    use crate::config::{Config, SocConfig};
    use crate::flash::changes::reconcile;

    fn with(array: ArrayConfig) -> Config {
        let soc = SocConfig { percent: Some(4.0), ..SocConfig::default() };
        Config { array, soc, ..Config::default() }
    }

    fn array(percent: f64) -> ArrayConfig {
        ArrayConfig { percent, min_object_bytes: 641, ..ArrayConfig::default() }
    }

    /// The error text if a cache made with `before` is opened with `now`; empty if it opens.
    fn said(before: &ArrayConfig, now: &ArrayConfig) -> String {
        let info = DeviceInfo::new("test", 512 << 20, 4096, 1 << 18);
        let [found, planned] =
            [before, now].map(|array| Layout::plan(&with(array.clone()), &info).unwrap());
        reconcile(&with(now.clone()), &info, &planned, &found).err().unwrap_or_default()
    }

    #[test]
    fn each_setting_is_named_with_both_values() {
        let base = || array(50.0);
        assert_eq!(said(&base(), &base()), "");
        for (now, expected) in [
            (array(33.5), "array.percent = 33.5 (it was made with 50)"),
            (array(0.0), "array.percent = 0 (it was made with 50)"),
            (
                ArrayConfig { region_bytes: Some(4 << 20), ..base() },
                "array.region_bytes = 4194304 (it was made with None)",
            ),
            (
                ArrayConfig { mean_object_bytes: 4096, ..base() },
                "array.mean_object_bytes = 4096 (it was made with 16384)",
            ),
            (
                ArrayConfig { ttl_groups: false, ..base() },
                "array.ttl_groups = false (it was made with true)",
            ),
        ] {
            assert_eq!(said(&base(), &now), expected);
        }
        assert_eq!(said(&array(0.0), &base()), "array.percent = 50 (it was made with 0)");
        let chosen = ArrayConfig { region_bytes: Some(3 << 20), ..base() };
        assert_eq!(said(&chosen, &base()), "array.region_bytes = None (it was made with 3145728)");
    }

    #[test]
    fn what_does_not_divide_the_device_may_change() {
        let now = ArrayConfig {
            min_object_bytes: 1 << 14,
            write_bytes: 64 << 10,
            open_bytes: Some(1 << 20),
            index_bytes: Some(1 << 20),
            reinsertion: false,
            ..array(50.0)
        };
        assert_eq!(said(&array(50.0), &now), "");
    }
}
