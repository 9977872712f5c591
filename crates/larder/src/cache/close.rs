//! Closing the cache.
//!
//! No call is inside any more, so no key is locked: the content of DRAM goes to flash in its order in memory
//! (`flash/close.rs`). Items that cannot be written in order go to buckets, several at a time. If the close is
//! dropped, unsent items stay in DRAM for the next one.

use std::sync::PoisonError;
use std::time::Duration;

use super::Larder;
use super::demoting::BeingDemoted;
use crate::base::error::Error;
use crate::base::side_by_side::together;
use crate::dram::Together;
use crate::flash::{Admitted, Flash};
use crate::observe::stats::Stats;

/// Items that are sent to buckets concurrently.
const SENT_AT_ONCE: usize = 32;
/// Items sent between two readings of the clock.
const SENT_PER_LOOK: usize = 256;
const _: () =
    assert!(SENT_AT_ONCE <= SENT_PER_LOOK, "no more goes to buckets than between two looks");
/// Time to leave an item out, if each one must be visited.
const LEAVING_OUT: Duration = Duration::from_nanos(500);

impl Larder {
    /// Shuts down cleanly: the content of DRAM goes to flash, and the next [`Larder::open`] continues with it. Small
    /// objects are appended in order to regions of large ones, and move to their buckets when DRAM evicts them the
    /// next time. So a close takes as long as the device needs to write the content of DRAM. If half of the regions
    /// have no room for them, or if, without crash safety, a bucket may hold an older version, they are written to
    /// their buckets instead, which takes a read and a write of 4 KiB for each. Calls in flight complete first. Later
    /// calls are refused; those that cannot fail report the last state. The device is free for the next cache when
    /// this returns; memory is freed when the cache is dropped.
    ///
    /// A second close does nothing. If the future is dropped the cache is closed all the same, and the next call of
    /// `close` goes on.
    ///
    /// # Errors
    /// [`ErrorKind::Device`] if the metadata cannot be written; then the next opening starts empty, unless another
    /// call succeeds before. The device is free when the cache is dropped. [`ErrorKind::InvalidInput`] inside the
    /// closure of an update, for which the close would wait.
    ///
    /// ```
    /// # use larder::{ErrorKind, Larder, RealClock, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// assert_eq!(block_on(cache.close())?.sets, 1);
    /// let late = block_on(cache.set(b"cake", b"plum", None));
    /// assert_eq!(late.unwrap_err().kind(), ErrorKind::Closed);
    /// assert!(block_on(cache.close()).is_ok());
    /// # Ok::<(), larder::Error>(())
    /// ```
    ///
    /// [`ErrorKind::Device`]: crate::ErrorKind::Device
    /// [`ErrorKind::InvalidInput`]: crate::ErrorKind::InvalidInput
    pub async fn close(&self) -> Result<Stats, Error> {
        self.close_by(None).await
    }

    /// As [`Larder::close`], within about this time: what cannot be written by then is left out, and counted
    /// ([`Stats::left_out_objects`]). No older version of it comes back: the next opening misses it. The close still
    /// waits for calls in flight, and for a device that does not answer as long as
    /// [`Config::flash_wait`](crate::Config::flash_wait) says.
    ///
    /// # Errors
    /// As [`Larder::close`].
    ///
    /// ```
    /// # use larder::{Larder, RealClock, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// use std::time::Duration;
    /// assert_eq!(block_on(cache.close_within(Duration::from_secs(5)))?.left_out_objects, 0);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn close_within(&self, time: Duration) -> Result<Stats, Error> {
        self.close_by(Some(self.core.clock.monotonic().saturating_add(time))).await
    }

    /// Ends the cache without any access to its device, which has failed or belongs to another cache. Drops the
    /// content of DRAM and frees its memory. Nothing is written after this returns.
    pub(crate) async fn abandon(&self) {
        let closing = self.core.gate.close().await;
        if !closing.is_done() {
            self.core.dram.clear();
            self.set_dram_bytes(crate::config::DRAM_BYTES_MIN);
            let claim = self.claim.lock().unwrap_or_else(PoisonError::into_inner).take();
            closing.done();
            drop(claim);
        }
    }

    async fn close_by(&self, by: Option<Duration>) -> Result<Stats, Error> {
        self.check_reentry()?;
        let closing = self.core.gate.close().await;
        if !closing.is_done() {
            self.core.dram.evict_all();
            match &self.core.flash {
                Some(flash) => self.close_flash(flash, by).await?,
                None => _ = self.core.demote_bytes(usize::MAX).await,
            }
            // Nothing is written from here on.
            let claim = self.claim.lock().unwrap_or_else(PoisonError::into_inner).take();
            closing.done();
            drop(claim);
        }
        self.core.counters.removals.tell();
        let latencies = self.stopwatch.latencies();
        Ok(Stats { latencies, ..self.core.counters.snapshot() })
    }

    async fn close_flash(&self, flash: &Flash, by: Option<Duration>) -> Result<(), Error> {
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
        let all_sent = self.send_all(flash, &is_over).await;
        debug_assert!(
            !all_sent || self.core.dram.len() == 0,
            "what DRAM held is on flash, or was refused there"
        );
        if !all_sent && looks_at_each {
            self.leave_out(flash).await;
        }
        flash.close(&|| by.is_some_and(|by| self.core.clock.monotonic() >= by)).await?;
        if !all_sent && !looks_at_each {
            self.core.counters.left_out_objects.add(self.core.dram.dirty());
        }
        Ok(())
    }

    /// Sends the content of DRAM to flash. `false` if the time was over first.
    async fn send_all(&self, flash: &Flash, is_over: &(dyn Fn() -> bool + Sync)) -> bool {
        let mut for_buckets: Vec<BeingDemoted<'_>> = Vec::with_capacity(SENT_AT_ONCE);
        let mut sent = SENT_PER_LOOK;
        loop {
            if sent >= SENT_PER_LOOK {
                if is_over() {
                    return false;
                }
                sent = 0;
            }
            let (step, admitted) = self.send_together(flash);
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
                self.send_to_buckets(flash, &mut for_buckets).await;
            }
        }
        self.send_to_buckets(flash, &mut for_buckets).await;
        true
    }

    /// Sends the next few items, as far as that needs no wait. Also returns the decision of admission about the item
    /// that was not taken, if it was asked.
    fn send_together(&self, flash: &Flash) -> (Together, Option<Admitted>) {
        let Some(mut in_order) = flash.in_order(self.core.now_s()) else {
            return (Together::Nothing, None);
        };
        let step = self.core.dram.demote_together(&mut in_order);
        (step, in_order.admitted)
    }

    async fn send_to_buckets(&self, flash: &Flash, demoting: &mut Vec<BeingDemoted<'_>>) {
        debug_assert!(demoting.len() <= SENT_AT_ONCE, "{} side by side", demoting.len());
        let now_s = self.core.now_s();
        let items = demoting.iter().filter_map(|demoting| demoting.item());
        together(items.map(async |item| flash.demote_in_bucket(&item, now_s).await)).await;
        demoting.drain(..).for_each(|mut demoting| demoting.demoted());
    }

    /// Leaves out what DRAM still holds, because the time is over.
    async fn leave_out(&self, flash: &Flash) {
        while let Some(demotion) = self.core.dram.next_demotion() {
            let mut demoting = BeingDemoted::new(&self.core.dram, demotion);
            if let Some(item) = demoting.item() {
                flash.leave_out(&item).await;
            }
            demoting.demoted();
        }
        debug_assert_eq!(self.core.dram.len(), 0, "what is not on flash was left out");
    }
}
