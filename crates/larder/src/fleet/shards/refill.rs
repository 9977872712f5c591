//! Refills shards that have come back: copies the values of their keys from the other shards.
//!
//! It scans all live shards. If a key is at a later place of its chain, and its first place is a shard that is being
//! refilled, it looks the key up along the chain, which copies it to the first place ([`super::calls`]). So a
//! concurrent change of the key wins.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use larder_device::label::Uuid;

use super::LiveSet;
use super::calls::View;
use super::live::EpochState;
use super::name::key_of;
use crate::cache::Larder;
use crate::fleet::partition::{ShardNumber, ShardState};

/// Bytes copied between two checks of the rate limit.
const BYTES_AT_ONCE: u64 = 1 << 20;

/// State of the rate limit.
struct Pace {
    begun: Duration,
    bytes: u64,
}

impl LiveSet {
    /// Refills the shards that need it now. Returns whether there was one.
    pub(super) async fn refill(&self) -> bool {
        let state = self.state();
        if !state.has_refilling() {
            return false;
        }
        let refilling: Vec<(ShardNumber, Uuid)> = {
            let set_record = self.set_record.lock().await;
            let all = state.numbers().filter_map(|shard| {
                let seat = set_record.seat(shard)?;
                let is_it = seat.standing.state == ShardState::Refilling;
                is_it.then_some((shard, seat.device))
            });
            all.collect()
        };
        let now = self.clock.monotonic();
        let time = self.options.refill_time_max;
        // Boxed, because the future is large.
        let copying: Pin<Box<dyn Future<Output = ()> + '_>> = Box::pin(self.copy_all(state, now));
        super::awake::with_timeout(&*self.clock, time, copying).await;
        for (shard, device) in refilling {
            if self.refilled(shard, device).await.is_err() {
                return false;
            }
        }
        self.refilled_permille.store(0, Ordering::Relaxed);
        true
    }

    async fn copy_all(&self, state: &EpochState, begun: Duration) {
        let mut pace = Pace { begun, bytes: 0 };
        let mut walks = Vec::new();
        for shard in state.numbers() {
            let caches = state.shard(shard).caches.iter().flat_map(|caches| caches.iter());
            walks.extend(caches.enumerate().map(|(tenant, cache)| (shard, tenant, cache)));
        }
        let count = walks.len().max(1);
        for (number, (shard, tenant, cache)) in walks.into_iter().enumerate() {
            self.copy_from((shard, tenant), cache, &mut pace).await;
            let permille = u64::try_from(1000 * (number + 1) / count).unwrap_or(1000);
            self.refilled_permille.store(permille, Ordering::Relaxed);
        }
    }

    async fn copy_from(
        &self,
        (shard, tenant): (ShardNumber, usize),
        cache: &Arc<Larder>,
        pace: &mut Pace,
    ) {
        let mut scan = cache.scan();
        // The scan ends if the shard is taken out.
        while let Some(Some(items)) = self.while_there((shard, tenant), cache, scan.next()).await {
            for item in items {
                let (key, since) = key_of(item.name());
                if self.copy((shard, tenant), (key, since)).await {
                    let bytes = (key.len() + item.value().len()) as u64;
                    self.counts.refilled_bytes.fetch_add(bytes, Ordering::Relaxed);
                    pace.bytes += bytes;
                }
                self.keep_pace(pace).await;
            }
        }
    }

    /// Copies a key to its first place, if it was found at a later one. Returns whether it was copied.
    async fn copy(
        &self,
        (shard, tenant): (ShardNumber, usize),
        (key, since): (&[u8], u32),
    ) -> bool {
        let Ok(_inside) = self.gate.enter().await else { return false };
        let state = self.state();
        let chain = state.chain(self.hasher.hash(key), key);
        let is_later = chain.later.iter().any(|it| (it.shard, it.since) == (shard, since));
        is_later
            && chain.is_refilling
            && View { set: self, tenant }.copy_home(state, &chain, key).await
    }

    async fn keep_pace(&self, pace: &mut Pace) {
        if pace.bytes < BYTES_AT_ONCE.min(self.options.refill_bytes_per_s) {
            return;
        }
        let nanoseconds =
            u128::from(pace.bytes) * 1_000_000_000 / u128::from(self.options.refill_bytes_per_s);
        let takes = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        let until = pace.begun.saturating_add(takes);
        self.clock.sleep_until(until).await;
        (pace.begun, pace.bytes) = (self.clock.monotonic(), 0);
    }
}
