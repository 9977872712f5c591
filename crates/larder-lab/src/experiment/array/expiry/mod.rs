//! Caches whose objects expire: how much of the flash holds live objects.

mod log;

pub(super) use log::RegionLog;

/// Bounds of 32 groups in seconds, as in BigKV's artifact: minutes to 100 days.
pub(super) const GROUP_BOUNDS_S: [u64; 32] = [
    60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 2400, 3000, 3600, 7200, 10_800,
    14_400, 18_000, 21_600, 43_200, 86_400, 172_800, 259_200, 345_600, 432_000, 518_400, 604_800,
    1_209_600, 2_592_000, 5_184_000, 8_640_000,
];

/// The outcome of a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Found,
    /// The object was read, only to find that it had expired.
    Expired,
    Absent,
}

/// The objects on flash, and counts of what happened to them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Flash {
    /// Objects that the flash has room for.
    pub(super) slots: u64,
    /// Objects that were written and not freed.
    pub(super) taken: u64,
    /// Taken objects that may still be returned.
    pub(super) live: u64,
    pub(super) written: u64,
    /// Regions freed because all of their objects had expired.
    pub(super) freed_whole: u64,
    /// Regions freed because room was needed.
    pub(super) reclaimed: u64,
    pub(super) reads_of_expired: u64,
}

/// A cache of objects of one length that expire.
pub(super) trait ExpiringCache {
    fn get(&mut self, key: u64, now_s: u64) -> Answer;
    /// A `ttl_s` of 0 means no expiry.
    fn set(&mut self, key: u64, ttl_s: u32, now_s: u64);
    /// Inspects all of the flash.
    fn flash(&mut self, now_s: u64) -> Flash;
}
