//! What a flush has returned for: it must be found after a loss of power, unless somebody has touched it since, or
//! flash has dropped it to make room.
//!
//! For the oracle a cache may lose anything. Here only keys count of which all is known: the last call that could
//! change them was a set without a time to live, alone and answered, before the flush began. And only lives in which
//! nothing was evicted since that set: what the cache counts as evicted says so for all keys.

use std::collections::BTreeMap;

use larder::{Config, CrashSafety, Stats};

use super::plan::{Plan, Trouble};
use super::request::{Request, Verb};
use super::value::{Content, key_of};

/// Longest value that is followed: any engine takes it.
const BYTES_MAX: usize = 16_000;

/// What is known of a key that nobody changes now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settled {
    pub(super) content: Content,
    /// What this incarnation had evicted when it was set.
    evicted: u64,
}

/// What has been set, and what flushes have returned for.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Whether anything is promised.
    follows: bool,
    /// Small objects may be lost: they wait in a log, or the drive tears what is being written.
    large_only: bool,
    small_bytes_max: usize,
    /// Changes of each key that have begun, and those under way.
    changes: BTreeMap<u32, (u64, u64)>,
    settled: BTreeMap<u32, Settled>,
    /// What flushes cover that have not returned.
    flushes: BTreeMap<usize, Vec<u32>>,
    /// What must be there.
    owed: BTreeMap<u32, Settled>,
}

/// How a change began.
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
            large_only: soc.log_percent > 0.0 || plan.atomic_write_bytes.is_none(),
            small_bytes_max: soc.max_object_bytes as usize,
            ..Self::default()
        }
    }

    /// Whether it is worth asking what was evicted.
    pub(super) fn follows(&self) -> bool {
        self.follows
    }

    /// A call that may change a key begins.
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

    /// It has ended; `set`: it was a set that was done.
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

    /// A client begins a flush.
    pub(super) fn begin_flush(&mut self, client: usize) {
        self.flushes.insert(client, self.settled.keys().copied().collect());
    }

    /// Its flush has returned, or was given up.
    pub(super) fn end_flush(&mut self, client: usize, is_done: bool) {
        let covered = self.flushes.remove(&client).unwrap_or_default();
        if is_done {
            let covered = covered.into_iter();
            self.owed
                .extend(covered.filter_map(|key| Some((key, self.settled.get(&key)?.clone()))));
        }
    }

    /// An incarnation is over that has evicted as much. What is in DRAM alone is gone.
    pub(super) fn end_life(&mut self, evicted: u64) {
        self.owed.retain(|_, kept| kept.evicted == evicted);
        self.owed.values_mut().for_each(|kept| kept.evicted = 0);
        self.settled = self.owed.clone();
        self.flushes.clear();
        self.changes.clear();
    }

    /// Nothing is owed any more.
    pub(super) fn forget(&mut self) {
        self.owed.clear();
        self.end_life(0);
    }

    /// What must be there, by key.
    pub(super) fn owed(&self, key: u32) -> Option<&Content> {
        self.owed.get(&key).map(|kept| &kept.content)
    }
}

/// Objects that flash has dropped for whatever reason, in one number that grows with each.
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
