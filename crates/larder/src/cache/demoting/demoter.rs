//! What a cache does for a caller that brings something to DRAM: it sends old items to flash, or sees that its thread
//! does, and helps the caches that it shares its memory with.
//!
//! A waiting caller holds no key lock. If there is no other sender, or another task wants the gate that the caller is
//! inside of, the caller sends records itself: so it never waits for a run that cannot begin.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use super::patience::{Patience, Wait};
use super::thread::Sender;
use crate::base::item::ItemRef;
use crate::base::signal::until_any;
use crate::base::tier::Tiers;
use crate::cache::Larder;
use crate::cache::core::Core;
use crate::cache::lending::Membership;
use crate::config::Demotions;
use crate::dram::{OnItsWay, TakenBytes};

/// Rule 7: bytes sent to flash per byte brought to DRAM.
const DEMOTED_PER_BROUGHT: usize = 2;
/// While the tier is above a reduced budget, each caller that helps sends a number of bytes in this range to flash.
const DEMOTED: std::ops::RangeInclusive<usize> = 32 << 10..=1 << 20;
const _: () = assert!(*DEMOTED.start() > 0 && *DEMOTED.start() <= *DEMOTED.end());

/// Keeps DRAM within its budget. A caller that it makes wait holds no lock.
pub(in crate::cache) struct Demoter {
    sender: Sender,
    core: Arc<Core>,
    /// See [`Config::demotion_wait`](crate::Config::demotion_wait).
    wait: Duration,
    /// Set if the cache shares its budget with others.
    membership: OnceLock<Membership<Larder>>,
}

impl Demoter {
    pub(in crate::cache) fn new(mode: Demotions, wait: Duration, core: &Arc<Core>) -> Self {
        let sender = Sender::new(mode, core);
        Self { sender, core: Arc::clone(core), wait, membership: OnceLock::new() }
    }

    /// The membership in a budget that several caches share.
    pub(in crate::cache) fn membership(&self) -> &OnceLock<Membership<Larder>> {
        &self.membership
    }

    /// For a call that may have to wait for room.
    pub(in crate::cache) fn patience(&self) -> Patience<'_> {
        Patience::new(&self.core, self.wait)
    }

    /// Starts the thread, if something must leave.
    pub(in crate::cache) fn wake(&self) {
        self.sender.relieves();
    }

    /// Sends records until the cache is closed, if a task is to do that.
    pub(in crate::cache) async fn send_until_closed(&self) {
        self.sender.send_as_a_task().await;
    }

    /// Whether [`Demoter::demote_for`] would do nothing now for a caller that brings something to DRAM.
    pub(in crate::cache) fn needs_no_help(&self) -> bool {
        let dram = &self.core.dram;
        let has_sender = self.core.flash.is_some() && self.sender.relieves();
        !dram.is_shrinking()
            && (has_sender || !dram.demotions().wait())
            && self.membership.get().is_none_or(|membership| !membership.is_owed())
    }

    /// A caller that needed no help has brought these bytes to DRAM.
    pub(in crate::cache) fn has_brought(&self, bytes: usize) {
        self.tell_members(bytes);
        if self.core.flash.is_some() {
            self.wake();
        }
    }

    /// Reports bytes that come to DRAM to the caches that share the budget.
    fn tell_members(&self, brought: usize) {
        if let Some(membership) = self.membership.get() {
            membership.note_brought(brought as u64);
        }
    }

    /// Applies rule 7 for a caller that brought `brought` bytes to DRAM.
    pub(in crate::cache) async fn demote_for(&self, brought: usize) {
        let bytes = self.demoted_for(brought);
        self.demote_or_shrink(bytes).await;
        self.demote_for_debtors(bytes).await;
    }

    /// Sends at least `bytes` of the waiting records to flash, or leaves that to the thread or task that sends.
    async fn demote_or_shrink(&self, bytes: usize) {
        if self.core.flash.is_none() || !self.sender.relieves() {
            self.core.demote_bytes(bytes).await;
        } else if self.core.dram.is_shrinking() {
            self.core.dram.shrink_by_segment(self.core.now_s());
        }
    }

    /// Bytes to send to flash for a caller that brings `brought` bytes to DRAM (rule 7), or is about to. Also reports
    /// the bytes to the caches that share the budget.
    pub(in crate::cache) fn demoted_for(&self, brought: usize) -> usize {
        self.tell_members(brought);
        let usual = brought * DEMOTED_PER_BROUGHT;
        if !self.core.dram.is_shrinking() {
            return usual;
        }
        self.core.dram.leaving_for(brought).clamp(*DEMOTED.start(), *DEMOTED.end()).max(usual)
    }

    /// Helps caches that must give memory back and may have no calls of their own.
    async fn demote_for_debtors(&self, bytes: usize) {
        let Some(membership) = self.membership.get() else { return };
        for debtor in membership.debtors() {
            // Skip one that is being cleared or closed: a cache never waits for another.
            let Some(_inside) = debtor.core.gate.try_enter() else { continue };
            debtor.demoter.demote_or_shrink(bytes).await;
            // Its thread may not keep up with this cache.
            if debtor.demoter.sender.sends() && membership.lending().is_over() {
                let mut patience = Patience::new(&debtor.core, self.wait);
                debtor.demoter.wait_for_room(&mut patience, bytes).await;
            }
        }
    }

    /// Waits until an item for flash only is on flash, or given up, before its set returns.
    pub(in crate::cache) async fn demote_if_flash_only(
        &self,
        item: &ItemRef<'_>,
        on_its_way: Option<OnItsWay>,
    ) {
        let Some(on_its_way) = on_its_way.filter(|_| item.tiers == Tiers::FlashOnly) else {
            return;
        };
        let demotions = self.core.dram.demotions();
        let events = [&demotions.demoted, &demotions.unattended, &self.core.gate.wanted];
        let waits = || self.core.dram.is_on_its_way(on_its_way);
        let may_help = || !self.sender.sends() && demotions.wait();
        while waits() {
            until_any(events, || !waits() || may_help()).await;
            if waits() {
                self.core.demote_bytes(1).await;
            }
        }
    }

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
