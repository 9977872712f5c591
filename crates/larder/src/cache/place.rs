//! Decides where a new item goes: to DRAM, past it if it stays full, or nowhere.

use super::Larder;
use super::demoting::{Patience, Wait};
use crate::base::error::Error;
use crate::base::item::ItemRef;
use crate::base::removal::RemovalReason;
use crate::base::signal::until_any;
use crate::base::tier::Tier;
use crate::base::tier::Tiers;
use crate::dram::value::{PinnedValue, Value};
use crate::dram::{Admit, DramFull, OnItsWay, TakenBytes};

/// Number of attempts of a set to make room in DRAM before it goes past it.
pub(super) const PUTS_BEFORE_WRITE_AROUND: usize = 8;

impl Larder {
    /// Puts `item` where there is room for it, if `admit` agrees, and does the follow-up work. Stores the DRAM value
    /// in `kept`, if the caller wants it. Returns whether there was room (a refusal is counted), and whether flash
    /// could record the change.
    pub(super) async fn place(
        &self,
        item: &ItemRef<'_>,
        admit: Admit<'_>,
        mut kept: Option<&mut Option<Value>>,
    ) -> (bool, Result<(), Error>) {
        let mut told_flash = Ok(());
        let mut patience = Patience::new(&self.core, self.demotion_wait);
        let put = loop {
            let taken = match self.room_for(item, &mut patience).await {
                Ok(taken) => taken,
                Err(reason) => break Err(reason),
            };
            let kept = kept.as_deref_mut();
            if let Ok(put) = self.put(item, taken, admit, kept, &mut told_flash).await {
                break Ok(put);
            }
        };
        let written_around = patience.written_around();
        drop(patience); // so that others need not wait for the help below
        self.demote_for(item.object_bytes()).await;
        match put {
            Ok(on_its_way) => {
                self.core.counters.dram_written_around_objects.add(written_around);
                self.demote_if_flash_only(item, on_its_way).await;
            }
            Err(reason) => self.count_refused(reason, item),
        }
        (put.is_ok(), told_flash)
    }

    /// Where `item` may go: to DRAM (`None`), or, if it has no place in DRAM, to flash with bytes taken from the
    /// limit. After a failed attempt it waits first. If DRAM stays full, of pinned values or of records on their way
    /// to flash, the item goes past it.
    ///
    /// # Errors
    /// The reason of the refusal.
    async fn room_for(
        &self,
        item: &ItemRef<'_>,
        patience: &mut Patience<'_>,
    ) -> Result<Option<TakenBytes<'_>>, RemovalReason> {
        if self.stays_in_dram(item) && patience.fulls < PUTS_BEFORE_WRITE_AROUND {
            if patience.is_first_try() {
                return Ok(None);
            }
            let bytes = self.demoted_for(item.object_bytes());
            return match self.wait_for_room(patience, bytes).await {
                Wait::Again => Ok(None),
                Wait::Over => Err(RemovalReason::RejectedDemotions),
            };
        }
        if self.core.flash.is_none() || item.tiers == Tiers::DramOnly || !patience.may_go_above() {
            return Err(RemovalReason::RejectedDramPinned);
        }
        let bytes = self.core.dram.demoting_bytes(item);
        debug_assert!(bytes > 0, "what is on its way takes memory");
        let taken = self.take_above(bytes, patience).await;
        taken.map(Some).ok_or(RemovalReason::RejectedDemotions)
    }

    /// Puts `item` into DRAM, or on its way to flash, if `admit` agrees, and returns its place on the way to flash.
    /// Sets `told_flash` to whether flash could record the change.
    async fn put(
        &self,
        item: &ItemRef<'_>,
        taken: Option<TakenBytes<'_>>,
        admit: Admit<'_>,
        kept: Option<&mut Option<Value>>,
        told_flash: &mut Result<(), Error>,
    ) -> Result<Option<OnItsWay>, DramFull> {
        debug_assert!(
            taken.is_none() || self.core.flash.is_some() && item.tiers != Tiers::DramOnly,
            "what goes past DRAM goes to flash"
        );
        let _key_lock = self.core.lock_key(item.hash).await;
        *told_flash = self.invalidate_on_flash(item.hash).await;
        let (dram, now_s) = (&self.core.dram, self.core.now_s());
        match (taken, kept) {
            (Some(taken), _) => return dram.insert_to_demote(item, taken, admit).map(Some),
            (None, Some(kept)) => {
                *kept = dram.insert_if(item, now_s, admit)?.map(PinnedValue::keep)
            }
            (None, None) => dram.insert(item, now_s, admit)?,
        }
        Ok(None)
    }

    /// Counts an item that was not stored because there was no room.
    pub(super) fn count_refused(&self, reason: RemovalReason, item: &ItemRef<'_>) {
        let counters = &self.core.counters;
        match reason {
            RemovalReason::RejectedDemotions => counters.rejected_demotions_objects.add(1),
            _ => counters.rejected_dram_pinned_objects.add(1),
        }
        counters.removals.key(reason, Tier::Dram, item.key, item.object_bytes());
    }

    /// Waits until an item for flash only is on flash, or given up, before its set returns.
    async fn demote_if_flash_only(&self, item: &ItemRef<'_>, on_its_way: Option<OnItsWay>) {
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
}
