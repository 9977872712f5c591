//! Special topics of some seeds: faults that show only under a special load.
//!
//! A seed without a theme mixes everything, so rare combinations hardly occur. For example, a tombstone log that wraps
//! around while it holds a record that is still needed, followed by a crash before the key is rewritten, requires a
//! minimal log, small objects in the large-object engine, and more deletes than usual.

use std::time::Duration;

/// The topic of a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Theme {
    /// A mix of everything.
    None,
    /// The tombstone log wraps around with records whose regions live long.
    Wrapping,
    /// Between crash and opening, a block of the tombstone log is damaged.
    Rot,
    /// Writes of buckets and regions are executed but reported as failed.
    FailedWrites,
    /// The wall clock is set back beyond the expiry of many stored values.
    Setbacks,
    /// Power losses that lose any unflushed sectors, with a cache that must survive them: flushed data is present.
    Power,
}

/// Deviations from the usual mix of requests.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Leaning {
    /// Percentage of requests that are deletes, in addition to the usual ones.
    pub(super) deletes_percent: u32,
    /// Percentage of requests that are flushes, in addition to the usual few.
    pub(super) flush_percent: u32,
    /// No client flushes.
    pub(super) never_flushes: bool,
    /// Most requests are for this number of first keys, the others for any; 0: the usual mix.
    pub(super) hot_keys: u32,
    /// Nothing larger than 600 bytes is stored.
    pub(super) small: bool,
    /// A fifth of the stored values are longer than the smallest region.
    pub(super) long: bool,
    /// Most stored values expire, at the latest after this time.
    pub(super) ttl_max: Option<Duration>,
}

impl Theme {
    pub(super) fn of(rng: &mut fastrand::Rng) -> Self {
        match rng.u32(..32) {
            0..2 => Self::Wrapping,
            2..5 => Self::Rot,
            5..8 => Self::FailedWrites,
            8..10 => Self::Setbacks,
            10..13 => Self::Power,
            _ => Self::None,
        }
    }
}
