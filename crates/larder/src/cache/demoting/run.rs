//! A run: takes waiting records, sorts them by bucket, and sends them with many futures at a time.
//!
//! The bucket whose record has waited longest is next, with all other records that have come for it since. The slower
//! flash is, the more records are in hand, and the more of them share a bucket write. Segments of DRAM become free
//! one by one, in the order in which they were filled: a caller that waits for room waits for the oldest of them.

use std::collections::{HashMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Poll, ready};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use larder_device::plugged;

use super::super::core::Core;
use super::group::{BeingDemoted, Group};
use crate::base::side_by_side::AT_ONCE;
use crate::base::signal::until_any;
use crate::flash::Flash;

/// Maximum number of large records that one future sends, one after the other.
const LARGE_RUN: usize = 32;
/// Maximum number of futures that send large records: all append to the same region, and take turns to write it.
const LARGE_AT_ONCE: usize = 4;
/// Maximum number of large records in hand, and of all records. Each takes memory besides its bytes, which are still
/// in DRAM; for very short records that would be more than their bytes.
const LARGE_IN_HAND_MAX: usize = 8 * LARGE_RUN * LARGE_AT_ONCE;
const IN_HAND_MAX: usize = 1 << 16;
/// Number of futures while there is plenty of room. Reads would wait behind more of them at the drive, and the longer
/// a record is in hand, the more records come for its bucket.
const AT_ONCE_MIN: usize = 4;
const _: () = assert!(LARGE_RUN > 0 && LARGE_AT_ONCE > 0);
const _: () = assert!(0 < AT_ONCE_MIN && AT_ONCE_MIN <= AT_ONCE, "they are polled side by side");

/// The records that the sender has taken.
struct InHand<'a> {
    core: &'a Core,
    flash: &'a Flash,
    /// Number of small records.
    small_records: usize,
    /// Small records by bucket, in the order in which they left DRAM.
    small: HashMap<u64, Vec<BeingDemoted<'a>>>,
    /// Their buckets, in the order of each bucket's oldest record.
    buckets: VecDeque<u64>,
    large: VecDeque<BeingDemoted<'a>>,
}

impl Core {
    /// Sends all evicted records, until the cache is closed or `stop` is set. Calls `ended` after each run.
    pub(super) async fn send_until_closed(&self, stop: &AtomicBool, ended: impl Fn()) {
        let Some(flash) = &self.flash else { return };
        let demotions = self.dram.demotions();
        loop {
            let events = [&demotions.added, &self.gate.wanted];
            let is_over = || stop.load(Ordering::SeqCst) || self.gate.is_closed();
            until_any(events, || is_over() || demotions.wait()).await;
            if is_over() {
                return;
            }
            let Ok(inside) = self.gate.enter().await else { return };
            self.send_waiting(flash, stop).await;
            drop(inside);
            ended();
        }
    }

    /// One run: until nothing waits, another task wants the gate, or `stop` is set, which also drops the futures in
    /// flight.
    async fn send_waiting(&self, flash: &Flash, stop: &AtomicBool) {
        let demotions = self.dram.demotions();
        let large_under_way = AtomicUsize::new(0);
        let mut in_hand = InHand::new(self, flash);
        let mut under_way = FuturesUnordered::new();
        let attends = demotions.attend();
        let mut added = demotions.added.listen();
        poll_fn(|context| {
            if stop.load(Ordering::SeqCst) {
                return Poll::Ready(());
            }
            // First drain the listener: additions from here on wake this task.
            while Pin::new(&mut added).poll(context).is_ready() {
                added = demotions.added.listen();
            }
            plugged(|| {
                loop {
                    let at_once =
                        AT_ONCE_MIN + self.dram.urgency_of_demotions(AT_ONCE - AT_ONCE_MIN);
                    while under_way.len() < at_once
                        && let Some(group) = in_hand.next(&large_under_way)
                    {
                        under_way.push(self.send_group(flash, group, &large_under_way));
                    }
                    if ready!(under_way.poll_next_unpin(context)).is_none() {
                        return Poll::Ready(());
                    }
                }
            })
        })
        .await;
        drop(attends);
    }
}

impl<'a> InHand<'a> {
    fn new(core: &'a Core, flash: &'a Flash) -> Self {
        let (buckets, large) = (VecDeque::new(), VecDeque::new());
        Self { core, flash, small_records: 0, small: HashMap::new(), buckets, large }
    }

    /// The records for the next future. `None` if the run is to end: then all records in hand go back to the queue.
    fn next(&mut self, large_under_way: &AtomicUsize) -> Option<Group<'a>> {
        // A clear or a close waits until the sender is out, and must find all demoted records in their usual place.
        if self.core.gate.is_wanted() {
            self.give_back();
            return None;
        }
        self.take_what_waits();
        debug_assert!(
            large_under_way.load(Ordering::Relaxed) <= LARGE_AT_ONCE,
            "they take turns to write"
        );
        if !self.large.is_empty() && large_under_way.load(Ordering::Relaxed) < LARGE_AT_ONCE {
            large_under_way.fetch_add(1, Ordering::Relaxed);
            let run = self.large.len().min(LARGE_RUN);
            return Some(Group::Large(self.large.drain(..run).collect()));
        }
        let bucket = self.buckets.pop_front()?;
        let records = self.small.remove(&bucket);
        debug_assert!(
            records.as_ref().is_some_and(|records| !records.is_empty()),
            "a bucket in the queue has what is to be written to it"
        );
        self.small_records -= records.as_ref().map_or(0, Vec::len);
        records.map(Group::Small)
    }

    /// Returns the records in hand, bucket by bucket in the order in which they would have been sent. A hash map's
    /// order differs each time, and a run would not be a function of its seed.
    fn give_back(&mut self) {
        for bucket in self.buckets.drain(..) {
            drop(self.small.remove(&bucket));
        }
        debug_assert!(self.small.is_empty(), "whatever is in hand has its bucket in the queue");
        self.small_records = 0;
        self.large.clear();
    }

    fn take_what_waits(&mut self) {
        let dram = &self.core.dram;
        if dram.is_shrinking() && !dram.demotions().wait() {
            dram.shrink_by_segment(self.core.now_s());
        }
        while self.large.len() < LARGE_IN_HAND_MAX
            && self.small_records + self.large.len() < IN_HAND_MAX
            && let Some(demotion) = dram.next_demotion()
        {
            let bucket = self.flash.group_of(&demotion.item(false));
            let demoting = BeingDemoted::new(dram, demotion);
            match bucket {
                Some(bucket) => {
                    let records = self.small.entry(bucket).or_default();
                    if records.is_empty() {
                        self.buckets.push_back(bucket);
                    }
                    records.push(demoting);
                    self.small_records += 1;
                }
                None => self.large.push_back(demoting),
            }
        }
        debug_assert_eq!(self.buckets.len(), self.small.len(), "each bucket is in the queue once");
    }
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}
