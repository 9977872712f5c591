//! Records that go to flash together: those of one bucket, or a run of large ones.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_lock::MutexGuard;

use super::super::core::Core;
use crate::dram::{Departure, DramTier};
use crate::flash::Flash;
use crate::item::ItemRef;

/// A record that is being sent to flash. If the sender is dropped on the way, the next one takes
/// over.
pub(in crate::cache) struct Unsettled<'a> {
    dram: &'a DramTier,
    departure: Option<Departure>,
}

impl<'a> Unsettled<'a> {
    pub(in crate::cache) fn new(dram: &'a DramTier, departure: Departure) -> Self {
        Self { dram, departure: Some(departure) }
    }

    /// The item, if it is still the newest of its key.
    pub(in crate::cache) fn item(&self) -> Option<ItemRef<'_>> {
        self.dram.departing(self.departure.as_ref()?)
    }

    pub(in crate::cache) fn departed(&mut self) {
        if let Some(departure) = self.departure.take() {
            self.dram.departed(departure);
        }
    }

    fn departure(&self) -> &Departure {
        self.departure.as_ref().expect("it is taken by its end alone")
    }
}

impl Drop for Unsettled<'_> {
    fn drop(&mut self) {
        if let Some(departure) = self.departure.take() {
            self.dram.requeue_departure(departure);
        }
    }
}

/// What one future sends.
pub(super) enum Group<'a> {
    /// All of one bucket: one write of it for all.
    Small(Vec<Unsettled<'a>>),
    /// One after the other.
    Large(Vec<Unsettled<'a>>),
}

impl Core {
    /// Sends one record. Afterwards flash has this version of its key or none.
    pub(in crate::cache) async fn send_one(&self, mut unsettled: Unsettled<'_>) {
        let turn = self.turn(unsettled.departure().hash).await;
        if let (Some(item), Some(flash)) = (unsettled.item(), &self.flash) {
            flash.settle(&item, self.now_s()).await;
        }
        unsettled.departed();
        drop(turn);
    }

    /// Sends a group. `large` counts those of large records.
    pub(super) async fn send_group(&self, flash: &Flash, group: Group<'_>, large: &AtomicUsize) {
        match group {
            Group::Small(records) => self.send_together(flash, records).await,
            Group::Large(records) => {
                for record in records {
                    self.send_one(record).await;
                }
                large.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.keep_memory_budget();
    }

    /// Sends what DRAM has evicted to flash, one record after the other: at least `bytes` of it, or all.
    /// Says whether there was any.
    pub(in crate::cache) async fn settle_departures(&self, bytes: usize) -> bool {
        let mut settled_bytes = 0;
        while settled_bytes < bytes {
            let next = self.dram.next_departure().or_else(|| {
                let more = self.dram.is_shrinking();
                more.then(|| self.dram.let_go_a_little(self.now_s()))?;
                self.dram.next_departure()
            });
            let Some(departure) = next else { break };
            settled_bytes += departure.item(false).object_bytes();
            self.send_one(Unsettled::new(&self.dram, departure)).await;
            self.keep_memory_budget();
        }
        settled_bytes > 0
    }

    /// Sends records of one bucket with one write of it. The lock of the first key is waited for while no
    /// other is held (rule 4); of the others those go along whose locks are free. The rest follow alone.
    async fn send_together(&self, flash: &Flash, mut records: Vec<Unsettled<'_>>) {
        let Some(first) = records.first() else { return };
        let stripe = self.stripe(first.departure().hash);
        let mut turns: Vec<(usize, MutexGuard<'_, ()>)> = Vec::with_capacity(records.len());
        turns.push((stripe, self.stripes[stripe].lock().await));
        let left_out: Vec<_> = records
            .extract_if(.., |record| {
                let stripe = self.stripe(record.departure().hash);
                if turns.iter().any(|(held, _)| *held == stripe) {
                    return false;
                }
                match self.stripes[stripe].try_lock() {
                    Some(turn) => {
                        turns.push((stripe, turn));
                        false
                    }
                    None => true,
                }
            })
            .collect();
        let items: Vec<_> = records.iter().filter_map(Unsettled::item).collect();
        flash.settle_together(&items, self.now_s()).await;
        drop(items);
        records.iter_mut().for_each(Unsettled::departed);
        drop(turns);
        for record in left_out {
            self.send_one(record).await;
        }
    }
}
