//! What can be said about a value beside the value.

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
    /// How long it lives, rounded up to milliseconds, and on flash to whole seconds; `None` is for ever. Nobody sees
    /// what lives for no time.
    pub ttl: Option<Duration>,
    /// What [`Value::flags`](crate::Value::flags) shall say of it.
    pub flags: u32,
    /// Which tiers it may be in.
    pub tiers: Tiers,
    /// What [`Value::version`](crate::Value::version) shall say of it as long as it is in DRAM; `None` is a
    /// version larger than those before. What is given need not be larger. Below 2^63 it makes later versions of
    /// this key, and of some others, larger still.
    pub version: Option<NonZeroU64>,
    /// Whether it is out of date from the start ([`ValueMeta::stale`](crate::ValueMeta::stale)). Such a value is in
    /// DRAM only, whatever `tiers` says.
    pub stale: bool,
    /// Whether somebody has won the right to bring a better value already
    /// ([`ValueMeta::won`](crate::ValueMeta::won)), as if by [`Larder::win`](crate::Larder::win). Such a value is in
    /// DRAM only, whatever `tiers` says.
    pub won: bool,
    /// Whether the client named the key in base64, as memcached's meta commands do with `b`: for
    /// [`ValueMeta::binary_key`](crate::ValueMeta::binary_key), as long as it is in DRAM. It is of the same key all the
    /// same.
    pub binary_key: bool,
}

impl SetOptions {
    /// The tiers that it may be in after all: flash knows neither of stale values nor of won ones.
    pub(crate) fn tiers_allowed(&self) -> Tiers {
        if self.stale || self.won { Tiers::DramOnly } else { self.tiers }
    }
}

/// Which tiers a value may be in. Without flash all of them mean DRAM.
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
    /// In DRAM first; when it is evicted there, on flash if the admission policy agrees.
    #[default]
    Both,
    /// In DRAM only: it is never written to flash, not by a flush nor by a close either. When DRAM evicts it
    /// it is gone, and counted ([`Stats::dram_evicted_objects`](crate::Stats::dram_evicted_objects)).
    /// `touch`, `append`, `incr` and the like leave it so.
    DramOnly,
    /// On flash at once, past DRAM: when the set returns, flash has it or has turned it away, as the
    /// admission policy decides over it as over all. A read that finds it does not bring it to DRAM; it
    /// has version 0 then, which `cas` never stores over. `touch`, `append`, `incr` and the like leave it
    /// so.
    FlashOnly,
}

impl Tiers {
    /// What flash says of a value: whether it is for flash only.
    pub(crate) fn on_flash(only: bool) -> Self {
        if only { Self::FlashOnly } else { Self::Both }
    }
}
