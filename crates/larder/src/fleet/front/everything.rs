//! The calls over a route that concern all caches at once.

use std::time::Duration;

use super::route::{Lead, Route};
use super::routed::Routed;
use super::walk::{self, Walk};
use crate::base::error::Error;
use crate::base::removal::RemovalListener;
use crate::base::side_by_side::together;
use crate::cache::{EstimatedItems, Flushed, Larder, ScanPage};
use crate::config::AdmissionPolicy;
use crate::observe::stats::Stats;

/// Calls that concern all caches at once.
impl<R: Route> Routed<R> {
    /// [`Larder::rebuild`] of every cache.
    pub async fn rebuild(&self) -> u64 {
        together(self.route().caches().map(Larder::rebuild)).await.into_iter().sum()
    }

    /// [`Larder::send_demotions`] of every cache, until all are closed.
    pub async fn send_demotions(&self) {
        together(self.route().caches().map(Larder::send_demotions)).await;
    }

    /// [`Larder::scan`] of every cache, one after the other. Over shards a key is returned once, wherever it is.
    pub fn scan(&self) -> impl Iterator<Item = Walk<'_>> {
        Walk::over(self.route().lead())
    }

    /// [`Larder::scan_from`] over one cache after the other: the cursor contains the number of the cache.
    ///
    /// # Errors
    /// The same.
    pub async fn scan_from(&self, cursor: u64, count: usize) -> Result<ScanPage, Error> {
        match self.route().lead() {
            Lead::One(cache) => cache.scan_from(cursor, count).await,
            Lead::Shards(shards) => walk::page(shards, cursor, count).await,
        }
    }

    /// Sum of [`Larder::memory_limit_bytes`] of all caches.
    pub fn memory_limit_bytes(&self) -> u64 {
        self.route().caches().map(Larder::memory_limit_bytes).sum()
    }

    /// Sum of [`Larder::estimated_len`] of all caches.
    pub fn estimated_len(&self) -> u64 {
        self.route().caches().map(Larder::estimated_len).sum()
    }

    /// Sum of [`Larder::estimated_items`] of all caches.
    pub fn estimated_items(&self) -> EstimatedItems {
        self.route().caches().map(Larder::estimated_items).sum()
    }

    /// Sum of [`Larder::unused_bytes`] of all caches.
    pub fn unused_bytes(&self) -> u64 {
        self.route().caches().map(Larder::unused_bytes).sum()
    }

    /// [`Larder::set_dram_bytes`]: each cache gets an equal part.
    pub fn set_dram_bytes(&self, bytes: u64) {
        let part = self.part(bytes);
        self.route().caches().for_each(|cache| cache.set_dram_bytes(part));
    }

    /// [`Larder::set_memory_bytes`]: each cache gets an equal part.
    pub fn set_memory_bytes(&self, bytes: u64) {
        let part = self.part(bytes);
        self.route().caches().for_each(|cache| cache.set_memory_bytes(part));
    }

    /// [`Larder::set_admission`] of every cache.
    ///
    /// # Errors
    /// As there; no policy has changed then.
    pub fn set_admission(&self, policy: AdmissionPolicy) -> Result<(), Error> {
        self.route().caches().try_for_each(|cache| cache.set_admission(policy))
    }

    /// [`Larder::set_removal_listener`] of every cache.
    pub fn set_removal_listener(&self, listener: Option<RemovalListener>) {
        self.route().caches().for_each(|cache| cache.set_removal_listener(listener.clone()));
    }

    fn part(&self, bytes: u64) -> u64 {
        bytes / self.route().caches().count().max(1) as u64
    }

    /// The sum of the counters of all caches, including shards that have left since the set was opened, so no total
    /// falls. The life of drives is included only if there is a single cache.
    pub fn stats(&self) -> Stats {
        match self.route().lead() {
            Lead::One(cache) => cache.stats(),
            Lead::Shards(shards) => shards.stats(),
        }
    }

    /// [`Larder::flush`] of every cache. The content of a shard without its device is not on flash afterwards, and
    /// not counted.
    ///
    /// # Errors
    /// The first one; the other caches have been flushed.
    pub async fn flush(&self) -> Result<Flushed, Error> {
        let mut all = Flushed::default();
        for flushed in self.named(together(self.route().caches().map(Larder::flush)).await) {
            all += flushed?;
        }
        Ok(all)
    }

    /// [`Larder::clear`] of every cache.
    ///
    /// # Errors
    /// The first one; the other caches have been cleared.
    pub async fn clear(&self) -> Result<(), Error> {
        match self.route().lead() {
            Lead::One(cache) => cache.clear().await,
            Lead::Shards(shards) => shards.clear().await,
        }
    }

    /// [`Larder::close`] of every cache. Returns the sum of their counters.
    ///
    /// # Errors
    /// The first one, after all were closed. Then the devices are free when this is dropped.
    pub async fn close(&self) -> Result<Stats, Error> {
        self.closing().await;
        self.closed(together(self.route().caches().map(Larder::close)).await)
    }

    /// [`Larder::close_within`] of every cache, concurrently. Returns the sum of their counters.
    ///
    /// # Errors
    /// As [`Routed::close`].
    pub async fn close_within(&self, time: Duration) -> Result<Stats, Error> {
        self.closing().await;
        let closing = self.route().caches().map(|cache| cache.close_within(time));
        self.closed(together(closing).await)
    }

    async fn closing(&self) {
        if let Lead::Shards(shards) = self.route().lead() {
            shards.closing().await;
        }
    }

    fn closed(&self, ended: Vec<Result<Stats, Error>>) -> Result<Stats, Error> {
        let mut closed = self.named(ended).collect::<Result<Vec<_>, _>>()?;
        // A single cache keeps the numbers that cannot be added up.
        let stats = if closed.len() == 1 { closed.remove(0) } else { closed.into_iter().sum() };
        let Lead::Shards(shards) = self.route().lead() else { return Ok(stats) };
        shards.release();
        Ok(shards.closed_stats(stats))
    }

    /// The answers of all caches; if there are several, errors name the shard.
    fn named<T>(&self, answers: Vec<Result<T, Error>>) -> impl Iterator<Item = Result<T, Error>> {
        let numbers = match self.route().lead() {
            Lead::One(_) => None,
            Lead::Shards(shards) => Some(shards.live_numbers()),
        };
        let named = move |(at, answer): (usize, Result<T, Error>)| match &numbers {
            None => answer,
            Some(numbers) => answer.map_err(|error| {
                error.of(&numbers.get(at).map_or_else(String::new, |it| format!("shard {it}")))
            }),
        };
        answers.into_iter().enumerate().map(named)
    }
}
