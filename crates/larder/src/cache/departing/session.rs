//! A session: what waits is taken in batches, sorted, and sent by many futures at once.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;

use super::super::core::Core;
use super::crew::Crew;
use super::group::{Group, Unsettled};
use crate::flash::Flash;
use crate::signal::until_any;

/// At most so many records are in the sender's hands.
const BATCH: usize = 1 << 17;
/// So many large records are sent one after the other by one future.
const LARGE_RUN: usize = 32;
/// So many futures send large records: all append to the same region, and take turns to write it.
const LARGE_AT_ONCE: usize = 4;

/// Records in the sender's hands, sorted.
struct Batch<'a> {
    core: &'a Core,
    flash: &'a Flash,
    small: VecDeque<(u64, Unsettled<'a>)>,
    large: VecDeque<Unsettled<'a>>,
}

impl Core {
    /// Sends whatever leaves DRAM, until the cache is closed or it is to `stop`. `ended` is called after each
    /// session.
    pub(super) async fn send_until_closed(&self, stop: &AtomicBool, ended: impl Fn()) {
        let Some(flash) = &self.flash else { return };
        let departures = self.dram.departures();
        loop {
            let signals = [&departures.added, &self.gate.wanted];
            let is_over = || stop.load(Ordering::SeqCst) || self.gate.is_closed();
            until_any(signals, || is_over() || departures.wait()).await;
            if is_over() {
                return;
            }
            let Ok(inside) = self.gate.enter().await else { return };
            self.send_waiting(flash, stop).await;
            drop(inside);
            ended();
        }
    }

    /// One session: until nothing waits, somebody wants the gate, or it is to `stop`, which ends what is
    /// under way too.
    async fn send_waiting(&self, flash: &Flash, stop: &AtomicBool) {
        let departures = self.dram.departures();
        let large_under_way = AtomicUsize::new(0);
        let mut batch = Batch::new(self, flash);
        let mut crew = Crew::new();
        let mut added = departures.added.waiter();
        poll_fn(|context| {
            if stop.load(Ordering::SeqCst) {
                return Poll::Ready(());
            }
            // First this: for what comes from here on there may be a free slot.
            added.note(context.waker());
            crew.poll(context, || {
                let group = batch.next(&large_under_way)?;
                Some(self.send_group(flash, group, &large_under_way))
            })
        })
        .await;
    }
}

impl<'a> Batch<'a> {
    fn new(core: &'a Core, flash: &'a Flash) -> Self {
        Self { core, flash, small: VecDeque::new(), large: VecDeque::new() }
    }

    /// What the next future sends. None where the session is to end: what is left goes back to where others
    /// find it.
    fn next(&mut self, large_under_way: &AtomicUsize) -> Option<Group<'a>> {
        if self.core.gate.is_wanted() {
            self.small.clear();
            self.large.clear();
            return None;
        }
        if self.small.is_empty() && self.large.len() < LARGE_RUN {
            self.refill();
        }
        if !self.large.is_empty() && large_under_way.load(Ordering::Relaxed) < LARGE_AT_ONCE {
            large_under_way.fetch_add(1, Ordering::Relaxed);
            let run = self.large.len().min(LARGE_RUN);
            return Some(Group::Large(self.large.drain(..run).collect()));
        }
        let (bucket, first) = self.small.pop_front()?;
        let mut records = vec![first];
        while let Some((_, next)) = self.small.pop_front_if(|(other, _)| *other == bucket) {
            records.push(next);
        }
        Some(Group::Small(records))
    }

    /// Takes what waits. Of one bucket, in the order in which it left DRAM.
    fn refill(&mut self) {
        let dram = &self.core.dram;
        for _ in 0..BATCH {
            let next = dram.next_departure().or_else(|| {
                dram.is_shrinking().then(|| dram.let_go_a_little(self.core.now_s()))?;
                dram.next_departure()
            });
            let Some(departure) = next else { break };
            let bucket = self.flash.bucket_for(&departure.item(false));
            let unsettled = Unsettled::new(dram, departure);
            match bucket {
                Some(bucket) => self.small.push_back((bucket, unsettled)),
                None => self.large.push_back(unsettled),
            }
        }
        self.small.make_contiguous().sort_by_key(|(bucket, _)| *bucket);
    }
}
