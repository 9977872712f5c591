//! What sysfs says of zones, in the `queue` of a block device.

use std::path::Path;

use super::ZoneLimits;

/// `host-managed` or `host-aware`; `None` if it has no zones.
pub(crate) fn model(queue: &Path) -> Option<String> {
    let said = std::fs::read_to_string(queue.join("zoned")).ok()?;
    let said = said.trim();
    (!said.is_empty() && said != "none").then(|| said.to_owned())
}

/// How many may be in use.
pub(crate) fn limits(queue: &Path) -> ZoneLimits {
    let most = |name| number(queue, name).and_then(|most| u32::try_from(most).ok());
    // 0 is no limit.
    let [open, active] = ["max_open_zones", "max_active_zones"].map(most);
    ZoneLimits { open: open.filter(|&most| most > 0), active: active.filter(|&most| most > 0) }
}

/// A number that stands there under this name.
pub(crate) fn number(queue: &Path, name: &str) -> Option<u64> {
    std::fs::read_to_string(queue.join(name)).ok()?.trim().parse().ok()
}
