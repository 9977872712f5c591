//! Options of a value.

use std::num::NonZeroU64;
use std::time::Duration;

use crate::base::tier::Tiers;

/// How a value is stored.
///
/// ```
/// use std::time::Duration;
/// use larder::{SetOptions, Tiers};
///
/// let options = SetOptions { ttl: Some(Duration::from_secs(60)), flags: 7, ..SetOptions::default() };
/// let plain = SetOptions { ttl: None, flags: 0, tiers: Tiers::Both, ..SetOptions::default() };
/// assert!(SetOptions::default() == plain && options != plain);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetOptions {
    /// Time to live, rounded up to milliseconds, and on flash to whole seconds; `None` means for ever. A value with a
    /// TTL of zero is never found.
    pub ttl: Option<Duration>,
    /// The value's [`Value::flags`](crate::Value::flags).
    pub flags: u32,
    /// The tiers that may hold it.
    pub tiers: Tiers,
    /// The value's [`Value::version`](crate::Value::version) while it is in DRAM; `None` assigns a version larger
    /// than all before. A given version need not be larger. If it is below 2^63, later versions of this key, and of
    /// some others, are larger than it.
    pub version: Option<NonZeroU64>,
    /// Whether it is out of date from the start ([`ValueMeta::stale`](crate::ValueMeta::stale)). Such a value is in
    /// DRAM only, whatever `tiers` says.
    pub stale: bool,
    /// Whether a caller already has the right to bring a better value ([`ValueMeta::won`](crate::ValueMeta::won)), as
    /// if by [`Larder::win`](crate::Larder::win). Such a value is in DRAM only, whatever `tiers` says.
    pub won: bool,
    /// Whether the client sent the key in base64, as memcached's meta commands do with `b`: for
    /// [`ValueMeta::binary_key`](crate::ValueMeta::binary_key), while the value is in DRAM. It does not change which
    /// key it is.
    pub binary_key: bool,
}

impl SetOptions {
    /// The tiers that may hold it after all: flash does not store the stale and won marks.
    pub(crate) fn tiers_allowed(&self) -> Tiers {
        if self.stale || self.won { Tiers::DramOnly } else { self.tiers }
    }
}
