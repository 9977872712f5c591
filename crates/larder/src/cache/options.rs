//! Options of a value.

use std::num::NonZeroU64;
use std::time::Duration;

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

/// The tiers that may hold a value. Without flash all of these mean DRAM.
///
/// ```
/// # use larder::{Larder, RealClock, SetOptions, Tiers, block_on};
/// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
/// let secret = SetOptions { tiers: Tiers::DramOnly, ..SetOptions::default() };
/// block_on(cache.set_with(b"token", b"rye and salt", secret))?;
/// # Ok::<(), larder::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Tiers {
    /// In DRAM first; after its eviction on flash, if the admission policy admits it.
    #[default]
    Both,
    /// In DRAM only: it is never written to flash, not by a flush or a close either. When DRAM evicts it, it is lost,
    /// and counted ([`Stats::dram_evicted_objects`](crate::Stats::dram_evicted_objects)). `touch`, `append`, `incr`
    /// and similar calls keep this setting.
    DramOnly,
    /// On flash at once, past DRAM: when the set returns, flash has it, or the admission policy has rejected it, as
    /// with every object. A read that finds it does not bring it to DRAM; its version is 0 then, which `cas` never
    /// replaces. `touch`, `append`, `incr` and similar calls keep this setting.
    FlashOnly,
}

impl Tiers {
    /// The tiers of a value on flash: `only` means for flash only.
    pub(crate) fn on_flash(only: bool) -> Self {
        if only { Self::FlashOnly } else { Self::Both }
    }
}
