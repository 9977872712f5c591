//! Waiting for room: in DRAM, or among what may be on its way to flash above DRAM's budget.
//!
//! Who waits holds no lock of a key. Where nobody else sends, or somebody wants the gate that it is inside
//! of, it sends itself: so it never waits for a run that cannot begin.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use larder_device::Sleep;

use super::super::Larder;
use super::super::core::Core;
use crate::dram::{Demotions, Taken};
use crate::signal::until_any;

/// How long one call waits for room in all.
pub(in crate::cache) struct Patience<'a> {
    demotions: &'a Demotions,
    wait: Duration,
    /// Since the first time that there was none.
    end: Option<(Duration, Sleep)>,
    /// Times that there was no room although nothing was on its way.
    pub(in crate::cache) pinned: usize,
    /// Times that there was none at all.
    pub(in crate::cache) fulls: usize,
    has_tried: bool,
    has_gone_above: bool,
}

/// What came of waiting for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cache) enum Wait {
    /// There may be some.
    Again,
    /// The call has waited as long as it may.
    Over,
}

impl Drop for Patience<'_> {
    /// The call has what it has waited for, or gives up: if there is room for more, that is for the next one.
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

    /// Whether the call has not tried yet. From now on it has.
    pub(in crate::cache) fn is_first_try(&mut self) -> bool {
        !std::mem::replace(&mut self.has_tried, true)
    }

    /// Whether the call has not tried to send its object above DRAM's budget yet. From now on it has.
    pub(in crate::cache) fn may_go_above(&mut self) -> bool {
        !std::mem::replace(&mut self.has_gone_above, true)
    }

    /// 1 for a call whose object went past a full DRAM, else 0.
    pub(in crate::cache) fn written_around(&self) -> u64 {
        u64::from(self.has_gone_above && self.has_tried)
    }

    /// Begins to count, or goes on.
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
        // The clock decides; the sleep only wakes.
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
    /// DRAM had no room: waits until there may be some, or sends at least `bytes` of what waits itself if
    /// nobody else does.
    pub(in crate::cache) async fn wait_for_room(
        &self,
        patience: &mut Patience<'_>,
        bytes: usize,
    ) -> Wait {
        patience.fulls += 1;
        let demotions = self.core.dram.demotions();
        let before = demotions.freed_segments();
        if patience.fulls > 1 && self.core.dram.has_lanes() {
            // There may be room in the lane of another one: that is told in turn, until it comes to somebody
            // who has tried since.
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
        self.sender.relieves(); // begins it, if that is to be
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

    /// Takes so many bytes of what may be on its way above the budget, as soon as they are there. `None` if
    /// the call has waited as long as it may.
    pub(in crate::cache) async fn take_above(
        &self,
        bytes: usize,
        patience: &mut Patience<'_>,
    ) -> Option<Taken<'_>> {
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
