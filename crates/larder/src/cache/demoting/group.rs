//! Records that go to flash together: those of one bucket, or a run of large ones.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_lock::MutexGuard;

use super::super::core::Core;
use crate::base::item::ItemRef;
use crate::dram::{Demotion, DramTier};
use crate::flash::Flash;

/// A record that is being sent to flash. If the sender is dropped before the end, the record goes back to the queue.
pub(in crate::cache) struct BeingDemoted<'a> {
    dram: &'a DramTier,
    demotion: Option<Demotion>,
}

impl<'a> BeingDemoted<'a> {
    pub(in crate::cache) fn new(dram: &'a DramTier, demotion: Demotion) -> Self {
        Self { dram, demotion: Some(demotion) }
    }

    /// The item, if it is still the newest version of its key.
    pub(in crate::cache) fn item(&self) -> Option<ItemRef<'_>> {
        self.dram.demoting(self.demotion.as_ref()?)
    }

    pub(in crate::cache) fn demoted(&mut self) {
        debug_assert!(self.demotion.is_some(), "a record is demoted once");
        if let Some(demotion) = self.demotion.take() {
            self.dram.demoted(demotion);
        }
    }

    fn demotion(&self) -> &Demotion {
        self.demotion.as_ref().expect("it is taken by its end alone")
    }
}

impl Drop for BeingDemoted<'_> {
    fn drop(&mut self) {
        if let Some(demotion) = self.demotion.take() {
            self.dram.requeue_demotion(demotion);
        }
    }
}

/// The records that one future sends.
pub(super) enum Group<'a> {
    /// Records of one bucket, for a single write of that bucket.
    Small(Vec<BeingDemoted<'a>>),
    /// Large records, sent one after the other.
    Large(Vec<BeingDemoted<'a>>),
}

impl Core {
    /// Sends one record. Afterwards flash has this version of its key, or none.
    pub(in crate::cache) async fn send_one(&self, mut demoting: BeingDemoted<'_>) {
        // Lock first, then check: a set or a delete that held the lock may have made this record void.
        let key_lock = self.lock_key(demoting.demotion().hash).await;
        debug_assert!(
            self.is_key_locked(demoting.demotion().hash),
            "rule 1: a caller that sends a key to flash holds its lock"
        );
        if let (Some(item), Some(flash)) = (demoting.item(), &self.flash) {
            flash.demote(&item, self.now_s()).await;
        }
        // Only after flash has the item: until then look-ups find it only here.
        demoting.demoted();
        drop(key_lock);
    }

    /// Sends a group. `large` counts the groups of large records in flight.
    pub(super) async fn send_group(&self, flash: &Flash, group: Group<'_>, large: &AtomicUsize) {
        match group {
            Group::Small(records) => self.send_together(flash, records).await,
            Group::Large(records) => {
                for record in records {
                    self.send_one(record).await;
                }
                let before = large.fetch_sub(1, Ordering::Relaxed);
                debug_assert!(before > 0, "a group of large records is counted when it is made");
            }
        }
        self.keep_memory_budget();
    }

    /// Sends evicted records to flash, one after the other: at least `bytes`, or all. Returns whether there were any.
    pub(in crate::cache) async fn demote_bytes(&self, bytes: usize) -> bool {
        let mut demoted_bytes = 0;
        while demoted_bytes < bytes {
            let next = self.dram.next_demotion().or_else(|| {
                let more = self.dram.is_shrinking();
                more.then(|| self.dram.shrink_by_segment(self.now_s()))?;
                self.dram.next_demotion()
            });
            let Some(demotion) = next else { break };
            demoted_bytes += demotion.item(false).object_bytes();
            self.send_one(BeingDemoted::new(&self.dram, demotion)).await;
            self.keep_memory_budget();
        }
        demoted_bytes > 0
    }

    /// Sends records of one bucket with one write of it. Waits for the lock of the first key while it holds no other
    /// (rule 4), and takes along those records whose locks are free. The others follow one by one.
    async fn send_together(&self, flash: &Flash, mut records: Vec<BeingDemoted<'_>>) {
        let Some(first) = records.first() else { return };
        let stripe = self.stripe(first.demotion().hash);
        let mut key_locks: Vec<(usize, MutexGuard<'_, ()>)> = Vec::with_capacity(records.len());
        key_locks.push((stripe, self.stripes[stripe].lock().await));
        let left_out: Vec<_> = records
            .extract_if(.., |record| {
                let stripe = self.stripe(record.demotion().hash);
                if key_locks.iter().any(|(held, _)| *held == stripe) {
                    return false;
                }
                match self.stripes[stripe].try_lock() {
                    Some(key_lock) => {
                        key_locks.push((stripe, key_lock));
                        false
                    }
                    None => true,
                }
            })
            .collect();
        let is_locked = |record: &BeingDemoted<'_>| {
            key_locks.iter().any(|(held, _)| *held == self.stripe(record.demotion().hash))
        };
        debug_assert!(
            records.iter().all(is_locked),
            "rule 1: a caller that sends a key to flash holds its lock"
        );
        let items: Vec<_> = records.iter().filter_map(BeingDemoted::item).collect();
        flash.demote_together(&items, self.now_s()).await;
        drop(items);
        records.iter_mut().for_each(BeingDemoted::demoted);
        drop(key_locks);
        // Only now, with no key lock held (rule 4): two senders that wait for each other's locks would deadlock.
        for record in left_out {
            self.send_one(record).await;
        }
    }
}
