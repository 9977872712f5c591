//! Sends the content of DRAM to flash when the cache is closed.
//!
//! No call is inside any more, so no key is locked: the content of DRAM goes to flash in its order in memory
//! (`flash/close.rs`). Items that cannot be written in order go to buckets, several at a time. If the close is
//! dropped, unsent items stay in DRAM for the next one.

use std::time::Duration;

use super::core::Core;
use super::demoting::BeingDemoted;
use crate::base::error::Error;
use crate::base::side_by_side::together;
use crate::dram::Together;
use crate::flash::{Admitted, Flash};

/// Items that are sent to buckets concurrently.
const SENT_AT_ONCE: usize = 32;
/// Items sent between two readings of the clock.
const SENT_PER_LOOK: usize = 256;
const _: () =
    assert!(SENT_AT_ONCE <= SENT_PER_LOOK, "no more goes to buckets than between two looks");
/// Time to leave an item out, if each one must be visited.
const LEAVING_OUT: Duration = Duration::from_nanos(500);

/// The content of DRAM on its way to flash.
pub(super) struct Closing<'a> {
    pub(super) core: &'a Core,
    pub(super) flash: &'a Flash,
    /// When the close must have ended.
    pub(super) by: Option<Duration>,
}

impl<'a> Closing<'a> {
    /// Sends what DRAM holds, as far as there is time, and closes flash.
    pub(super) async fn run(&self) -> Result<(), Error> {
        let Self { flash, by, .. } = *self;
        let looks_at_each = flash.voids_what_is_left_out() || self.core.counters.removals.wanted();
        let is_over = || {
            by.is_some_and(|by| {
                let left = if looks_at_each { self.core.dram.len() } else { 0 };
                let leaving_out = LEAVING_OUT * u32::try_from(left).unwrap_or(u32::MAX);
                self.core.clock.monotonic().saturating_add(leaving_out) >= by
            })
        };
        if by.is_none() {
            flash.expect_in_order(self.core.dram.dirty());
        }
        let all_sent = self.send_all(&is_over).await;
        debug_assert!(
            !all_sent || self.core.dram.len() == 0,
            "what DRAM held is on flash, or was refused there"
        );
        if !all_sent && looks_at_each {
            self.leave_out().await;
        }
        flash.close(&|| by.is_some_and(|by| self.core.clock.monotonic() >= by)).await?;
        if !all_sent && !looks_at_each {
            self.core.counters.left_out_objects.add(self.core.dram.dirty());
        }
        Ok(())
    }

    /// Sends the content of DRAM to flash. `false` if the time was over first.
    async fn send_all(&self, is_over: &(dyn Fn() -> bool + Sync)) -> bool {
        let flash = self.flash;
        let mut for_buckets: Vec<BeingDemoted<'a>> = Vec::with_capacity(SENT_AT_ONCE);
        let mut sent = SENT_PER_LOOK;
        loop {
            if sent >= SENT_PER_LOOK {
                if is_over() {
                    return false;
                }
                sent = 0;
            }
            let (step, admitted) = self.send_together();
            let demotion = match step {
                Together::Went(records) => {
                    sent += records;
                    flash.write_in_order().await;
                    continue;
                }
                Together::Refused(demotion) => demotion,
                Together::Nothing => match self.core.dram.next_demotion() {
                    Some(demotion) => demotion,
                    None => break,
                },
            };
            // Create this before any wait: if the close is dropped, it returns the record to DRAM.
            let mut demoting = BeingDemoted::new(&self.core.dram, demotion);
            sent += 1;
            let in_order = match demoting.item() {
                Some(item) => flash.demote_in_order(&item, admitted, self.core.now_s()).await,
                None => true,
            };
            if in_order {
                demoting.demoted();
                flash.write_in_order().await;
                continue;
            }
            for_buckets.push(demoting);
            if for_buckets.len() == SENT_AT_ONCE {
                if is_over() {
                    return false;
                }
                self.send_to_buckets(&mut for_buckets).await;
            }
        }
        self.send_to_buckets(&mut for_buckets).await;
        true
    }

    /// Sends the next few items, as far as that needs no wait. Also returns the decision of admission about the item
    /// that was not taken, if it was asked.
    fn send_together(&self) -> (Together, Option<Admitted>) {
        let Some(mut in_order) = self.flash.in_order(self.core.now_s()) else {
            return (Together::Nothing, None);
        };
        let step = self.core.dram.demote_together(&mut in_order);
        (step, in_order.admitted)
    }

    async fn send_to_buckets(&self, demoting: &mut Vec<BeingDemoted<'a>>) {
        debug_assert!(demoting.len() <= SENT_AT_ONCE, "{} side by side", demoting.len());
        let now_s = self.core.now_s();
        let items = demoting.iter().filter_map(|demoting| demoting.item());
        together(items.map(async |item| self.flash.demote_in_bucket(&item, now_s).await)).await;
        demoting.drain(..).for_each(|mut demoting| demoting.demoted());
    }

    /// Leaves out what DRAM still holds, because the time is over.
    async fn leave_out(&self) {
        while let Some(demotion) = self.core.dram.next_demotion() {
            let mut demoting = BeingDemoted::new(&self.core.dram, demotion);
            if let Some(item) = demoting.item() {
                self.flash.leave_out(&item).await;
            }
            demoting.demoted();
        }
        debug_assert_eq!(self.core.dram.len(), 0, "what is not on flash was left out");
    }
}
