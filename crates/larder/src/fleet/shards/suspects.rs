//! Which shards are suspected of failing, and why.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::fleet::partition::ShardNumber;
use crate::observe::events;

/// What the detector has last said of the shards.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    /// Time of the last judgement.
    judged: Mutex<Option<Duration>>,
    /// For each shard, why the detector suspects it.
    reasons: Mutex<Vec<Option<Arc<str>>>>,
    /// Number of times that a shard was suspected.
    count: AtomicU64,
}

impl Suspects {
    /// The time of the last judgement; `now` becomes that of the next one. At first it is `now` itself.
    pub(super) fn judge_at(&self, now: Duration) -> Duration {
        let mut judged = self.judged.lock().unwrap_or_else(PoisonError::into_inner);
        judged.replace(now).unwrap_or(now)
    }

    /// Records what the detector says of a shard: `None` if it is well.
    pub(super) fn note(&self, shard: ShardNumber, why: Option<String>) {
        let mut all = self.reasons();
        if all.len() <= shard.index() {
            all.resize(shard.index() + 1, None);
        }
        let there = &mut all[shard.index()];
        if there.is_none() && why.is_some() {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        match (&*there, &why) {
            (None, Some(why)) => events::shard_suspected(shard.index(), why),
            (Some(_), None) => events::shard_is_well(shard.index()),
            _ => {}
        }
        *there = why.map(Arc::from);
    }

    /// Why a shard is suspected, if it is.
    pub(super) fn reason(&self, shard: ShardNumber) -> Option<Arc<str>> {
        self.reasons().get(shard.index()).cloned().flatten()
    }

    /// Whether each shard is suspected, by number. Shards behind the end are not.
    pub(super) fn suspected(&self) -> Vec<bool> {
        self.reasons().iter().map(Option::is_some).collect()
    }

    /// Number of times that a shard was suspected.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    fn reasons(&self) -> MutexGuard<'_, Vec<Option<Arc<str>>>> {
        self.reasons.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
