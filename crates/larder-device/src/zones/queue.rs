//! The zone attributes in sysfs, in the `queue` directory of a block device.

use std::path::Path;

use super::ZoneLimits;

/// `host-managed` or `host-aware`; `None` if the device has no zones.
pub fn model(queue: &Path) -> Option<String> {
    let said = std::fs::read_to_string(queue.join("zoned")).ok()?;
    let said = said.trim();
    (!said.is_empty() && said != "none").then(|| said.to_owned())
}

/// The limits on zones in use.
pub fn limits(queue: &Path) -> ZoneLimits {
    let most = |name| number(queue, name).and_then(|most| u32::try_from(most).ok());
    // 0 means no limit.
    let [open, active] = ["max_open_zones", "max_active_zones"].map(most);
    ZoneLimits { open: open.filter(|&most| most > 0), active: active.filter(|&most| most > 0) }
}

/// The number in the attribute `name`.
pub fn number(queue: &Path, name: &str) -> Option<u64> {
    std::fs::read_to_string(queue.join(name)).ok()?.trim().parse().ok()
}
