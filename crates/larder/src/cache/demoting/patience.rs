//! The patience of a call that waits for room: in DRAM, or in the limit for bytes on their way to flash above DRAM's
//! budget.

use std::task::{Context, Poll};
use std::time::Duration;

use larder_device::Sleep;

use super::super::core::Core;
use crate::dram::Demotions;

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

    /// Whether the call has tried to put its object into DRAM.
    pub(in crate::cache) fn has_tried(&self) -> bool {
        self.has_tried
    }

    /// The deadline of this call. Starts the time at the first use.
    fn end(&mut self, core: &Core) -> &mut (Duration, Sleep) {
        self.end.get_or_insert_with(|| {
            let at = core.clock.monotonic().saturating_add(self.wait);
            (at, core.clock.sleep_until(at))
        })
    }

    pub(super) fn is_over(&mut self, core: &Core) -> bool {
        self.end(core).0 <= core.clock.monotonic()
    }

    pub(super) fn poll(&mut self, core: &Core, context: &mut Context<'_>) -> Poll<()> {
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
