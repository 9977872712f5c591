//! Caches whose objects expire, as flash sees them: how much of it is alive.

mod log;

pub(super) use log::RegionLog;

/// Bounds of 32 groups in seconds, as BigKV's artifact has them: minutes to 100 days.
pub(super) const GROUP_BOUNDS_S: [u64; 32] = [
    60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 2400, 3000, 3600, 7200, 10_800,
    14_400, 18_000, 21_600, 43_200, 86_400, 172_800, 259_200, 345_600, 432_000, 518_400, 604_800,
    1_209_600, 2_592_000, 5_184_000, 8_640_000,
];

/// What a look-up comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Found,
    /// It was read to learn that it had expired.
    Expired,
    Absent,
}

/// What is on flash, in objects, and what became of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Flash {
    /// Room for objects.
    pub(super) slots: u64,
    /// Those that were written and not freed.
    pub(super) taken: u64,
    /// Of these, those that can still be returned.
    pub(super) live: u64,
    pub(super) written: u64,
    /// Regions that were freed because all in them had expired.
    pub(super) freed_whole: u64,
    /// Regions that were freed because room was needed.
    pub(super) reclaimed: u64,
    pub(super) reads_of_expired: u64,
}

/// A cache of objects of one length, with lifetimes.
pub(super) trait ExpiringCache {
    fn get(&mut self, key: u64, now_s: u64) -> Answer;
    /// `ttl_s` 0 is without an end.
    fn set(&mut self, key: u64, ttl_s: u32, now_s: u64);
    /// Looks at all of flash.
    fn flash(&mut self, now_s: u64) -> Flash;
}
