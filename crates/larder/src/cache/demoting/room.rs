//! Waiting for room: in DRAM, or in the limit for bytes on their way to flash above DRAM's budget.
//!
//! A waiting caller holds no key lock. If there is no other sender, or another task wants the gate that the caller is
//! inside of, the caller sends records itself: so it never waits for a run that cannot begin.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use larder_device::Sleep;

use super::super::Larder;
use super::super::core::Core;
use crate::base::signal::until_any;
use crate::dram::{Demotions, TakenBytes};

/// How long one call may wait for room in total.
pub(in crate::cache) struct Patience<'a> {
    demotions: &'a Demotions,
    wait: Duration,
    /// The deadline, from the first time that there was no room.
    end: Option<(Duration, Sleep)>,
    /// Number of times that there was no room although nothing was on its way to flash.
    pub(in crate::cache) pinned: usize,
    /// Number of times that there was no room, for any reason.
    pub(in crate::cache) fulls: usize,
    has_tried: bool,
    has_gone_above: bool,
}

/// Outcome of a wait for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cache) enum Wait {
    /// There may be room now.
    Again,
    /// The call has waited for its maximum time.
    Over,
}

impl Drop for Patience<'_> {
    /// The call has got its room, or gives up. If there is more room, another call can have it.
    fn drop(&mut self) {
        if self.fulls > 0 {
            self.demotions.freed.notify(1);
        }
    }
}

impl<'a> Patience<'a> {
    pub(in crate::cache) fn new(core: &'a Core, wait: Duration) -> Self {
        let (demotions, has_tried, has_gone_above) = (core.dram.demotions(), false, false);
        Self { demotions, wait, end: None, pinned: 0, fulls: 0, has_tried, has_gone_above }
    }

    /// Whether this is the call's first attempt; later calls return `false`.
    pub(in crate::cache) fn is_first_try(&mut self) -> bool {
        !std::mem::replace(&mut self.has_tried, true)
    }

    /// Whether the call may try now to send its object above DRAM's budget; it may only once.
    pub(in crate::cache) fn may_go_above(&mut self) -> bool {
        !std::mem::replace(&mut self.has_gone_above, true)
    }

    /// 1 for a call whose object went past a full DRAM, else 0.
    pub(in crate::cache) fn written_around(&self) -> u64 {
        u64::from(self.has_gone_above && self.has_tried)
    }

    /// The deadline of this call. Starts the time at the first use.
    fn end(&mut self, core: &Core) -> &mut (Duration, Sleep) {
        self.end.get_or_insert_with(|| {
            let at = core.clock.monotonic().saturating_add(self.wait);
            (at, core.clock.sleep_until(at))
        })
    }

    fn is_over(&mut self, core: &Core) -> bool {
        self.end(core).0 <= core.clock.monotonic()
    }

    fn poll(&mut self, core: &Core, context: &mut Context<'_>) -> Poll<()> {
        // The clock decides; the sleep only wakes the task.
        let (at, sleep) = self.end(core);
        let slept = sleep.as_mut().poll(context);
        if slept.is_ready() || core.clock.monotonic() >= *at {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl Larder {
    /// DRAM had no room: waits until there may be some. If there is no sender, sends at least `bytes` of the waiting
    /// records itself.
    pub(in crate::cache) async fn wait_for_room(
        &self,
        patience: &mut Patience<'_>,
        bytes: usize,
    ) -> Wait {
        patience.fulls += 1;
        let demotions = self.core.dram.demotions();
        let before = demotions.freed_segments();
        if patience.fulls > 1 && self.core.dram.has_lanes() {
            // There may be room in another caller's lane. Pass the notification on, until it reaches a caller that
            // has tried since.
            demotions.freed.notify(1);
        }
        if demotions.bytes() == 0 {
            patience.pinned += 1;
            debug_assert!(patience.pinned <= patience.fulls, "one of the times without room");
            return Wait::Again;
        }
        if patience.is_over(&self.core) && patience.fulls > 1 {
            return Wait::Over;
        }
        self.sender.relieves(); // starts the sender, if there is to be one
        let sends = || self.sender.sends();
        if !sends() && self.core.demote_bytes(bytes).await {
            return Wait::Again;
        }
        let may_go_on = || {
            demotions.freed_segments() != before
                || demotions.bytes() == 0
                || !sends() && demotions.wait()
        };
        let events = [&demotions.freed, &demotions.unattended, &self.core.gate.wanted];
        let mut room = Box::pin(until_any(events, may_go_on));
        poll_fn(|context| match room.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Wait::Again),
            Poll::Pending => patience.poll(&self.core, context).map(|()| Wait::Over),
        })
        .await
    }

    /// Takes `bytes` of the limit for bytes above the budget, as soon as they are available. `None` if the call has
    /// waited for its maximum time.
    pub(in crate::cache) async fn take_above(
        &self,
        bytes: usize,
        patience: &mut Patience<'_>,
    ) -> Option<TakenBytes<'_>> {
        debug_assert!(self.core.flash.is_some(), "past DRAM there is flash");
        let demotions = self.core.dram.demotions();
        if let Some(taken) = demotions.above().try_take(bytes) {
            return Some(taken);
        }
        self.sender.relieves();
        let may_help = || !self.sender.sends() && demotions.wait();
        let mut taking = demotions.above().take(bytes);
        loop {
            let events = [&demotions.unattended, &self.core.gate.wanted];
            let mut help = Box::pin(until_any(events, may_help));
            let taken = poll_fn(|context| {
                if let Poll::Ready(taken) = Pin::new(&mut taking).poll(context) {
                    return Poll::Ready(Ok(taken));
                }
                if patience.poll(&self.core, context).is_ready() {
                    return Poll::Ready(Err(Wait::Over));
                }
                help.as_mut().poll(context).map(|()| Err(Wait::Again))
            })
            .await;
            drop(help);
            match taken {
                Ok(taken) => return Some(taken),
                Err(Wait::Over) => return None,
                Err(Wait::Again) => _ = self.core.demote_bytes(1).await,
            }
        }
    }
}
