//! Objects covered by a completed flush: each must be found after a power loss, unless it was changed since, or flash
//! has dropped it to make room.
//!
//! For the oracle a cache may lose anything. Here only keys with a completely known state count: the last call that
//! could change the key was a set without a time to live, with no other call at the same time, and it completed before
//! the flush began. A key also counts only if nothing was evicted since that set, according to the cache's eviction
//! counters, which cover all keys.

use std::collections::BTreeMap;

use larder::{Config, CrashSafety, Stats};

use super::plan::{Plan, Trouble};
use super::request::{Request, Verb};
use super::value::{Content, key_of};

/// Maximum length of a tracked value: every engine accepts it.
const BYTES_MAX: usize = 16_000;

/// The state of a key that is not being changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settled {
    pub(super) content: Content,
    /// The eviction count of this incarnation when it was set.
    evicted: u64,
}

/// Completed sets, and those covered by completed flushes.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Whether the configuration guarantees anything.
    follows: bool,
    /// Small objects may be lost: they wait in a log, or the drive tears interrupted writes.
    large_only: bool,
    small_bytes_max: usize,
    /// Per key: the number of changes begun, and of those in flight.
    changes: BTreeMap<u32, (u64, u64)>,
    settled: BTreeMap<u32, Settled>,
    /// Keys covered by flushes in progress.
    flushes: BTreeMap<usize, Vec<u32>>,
    /// Objects that must be present.
    owed: BTreeMap<u32, Settled>,
}

/// State at the begin of a change.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun {
    number: u64,
    alone: bool,
    evicted: u64,
}

impl Kept {
    pub(super) fn new(plan: &Plan) -> Self {
        let Config { crash_safety, soc, .. } = &plan.config;
        Self {
            follows: *crash_safety == CrashSafety::Power
                && plan.on_flash
                && plan.trouble == Trouble::None
                && !plan.changing
                && plan.shards.is_none()
                && plan.config.admission == larder::AdmissionPolicy::All,
            large_only: soc.log_percent.is_some_and(|it| it > 0.0)
                || plan.atomic_write_bytes.is_none(),
            small_bytes_max: soc.max_object_bytes as usize,
            ..Self::default()
        }
    }

    /// Whether the eviction count is needed.
    pub(super) fn follows(&self) -> bool {
        self.follows
    }

    /// Records the begin of a call that may change a key.
    pub(super) fn begin(&mut self, key: u32, evicted: u64) -> Begun {
        let (number, open) = self.changes.entry(key).or_default();
        *number += 1;
        *open += 1;
        let begun = Begun { number: *number, alone: *open == 1, evicted };
        self.settled.remove(&key);
        self.owed.remove(&key);
        self.flushes.values_mut().for_each(|keys| keys.retain(|other| *other != key));
        begun
    }

    /// Records its end; `set` is present if it was a completed set.
    pub(super) fn end(&mut self, key: u32, begun: Begun, set: Option<&Request>) {
        let (number, open) = self.changes.entry(key).or_default();
        *open -= 1;
        let was_alone = begun.alone && *number == begun.number;
        let Some(Request::Store(_, Verb::Set, write)) = set else { return };
        let bytes = key_of(key).len() + write.stored_bytes();
        let is_small = bytes <= self.small_bytes_max;
        let counts = write.ttl.is_none() && bytes <= BYTES_MAX && !(is_small && self.large_only);
        if was_alone && counts && self.follows {
            let content = write.content.clone();
            self.settled.insert(key, Settled { content, evicted: begun.evicted });
        }
    }

    /// Records that a client begins a flush.
    pub(super) fn begin_flush(&mut self, client: usize) {
        self.flushes.insert(client, self.settled.keys().copied().collect());
    }

    /// Records that its flush has completed, or was given up.
    pub(super) fn end_flush(&mut self, client: usize, is_done: bool) {
        let covered = self.flushes.remove(&client).unwrap_or_default();
        if is_done {
            let covered = covered.into_iter();
            self.owed
                .extend(covered.filter_map(|key| Some((key, self.settled.get(&key)?.clone()))));
        }
    }

    /// Ends an incarnation with this eviction count. Data that was only in DRAM is gone.
    pub(super) fn end_life(&mut self, evicted: u64) {
        self.owed.retain(|_, kept| kept.evicted == evicted);
        self.owed.values_mut().for_each(|kept| kept.evicted = 0);
        self.settled = self.owed.clone();
        self.flushes.clear();
        self.changes.clear();
    }

    /// Drops all obligations.
    pub(super) fn forget(&mut self) {
        self.owed.clear();
        self.end_life(0);
    }

    /// The required content of a key, if any.
    pub(super) fn owed(&self, key: u32) -> Option<&Content> {
        self.owed.get(&key).map(|kept| &kept.content)
    }
}

/// The number of objects that flash has dropped for any reason, as one increasing number.
pub(super) fn evicted(stats: &Stats) -> u64 {
    stats.soc_evicted_objects
        + stats.loc_evicted_objects
        + (stats.array_reclaimed_regions - stats.array_emptied_regions)
        + stats.array_table_overflows
        + stats.array_lost_entries
        + stats.loc_reclaimed_regions
        + stats.loc_given_up_regions
        + stats.lost_to_device_errors_objects
        + stats.rejected_demotions_objects
        + stats.dram_evicted_objects
}
