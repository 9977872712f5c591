//! Where a new item goes: to DRAM, past it where it stays full, or nowhere.

use super::demoting::{Patience, Wait};
use super::{Larder, Tiers};
use crate::dram::{Admit, Full, OnItsWay, Taken};
use crate::error::Error;
use crate::item::ItemRef;
use crate::removal::RemovalReason;
use crate::signal::until_any;
use crate::tier::Tier;
use crate::value::{Pinned, Value};

/// How often a set makes room in DRAM before it goes past it.
pub(super) const PUTS_BEFORE_WRITE_AROUND: usize = 8;

impl Larder {
    /// Puts `item` where there is room for it if `admit` agrees, and sees to what follows. What was put in DRAM
    /// is `kept`, if somebody wants it. Says whether there was room, or else counts that, and whether flash has
    /// been told.
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
        drop(patience); // others need not wait until this call has helped
        self.help(item.object_bytes()).await;
        match put {
            Ok(on_its_way) => {
                self.core.counters.dram_written_around_objects.add(written_around);
                self.demote_if_flash_only(item, on_its_way).await;
            }
            Err(reason) => self.count_refused(reason, item),
        }
        (put.is_ok(), told_flash)
    }

    /// Where `item` may be put: in DRAM, or with the bytes that were taken for it on its way to flash, if it
    /// has no place in DRAM. Asked again when that was in vain, it waits first. Where DRAM stays full, of what
    /// values in use pin or of what others are sending to flash, the item goes past it.
    ///
    /// # Errors
    /// Why it is refused.
    async fn room_for(
        &self,
        item: &ItemRef<'_>,
        patience: &mut Patience<'_>,
    ) -> Result<Option<Taken<'_>>, RemovalReason> {
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

    /// Puts `item` into DRAM, or on its way to flash, if `admit` agrees, and says where it is then. Also says
    /// whether flash has been told.
    async fn put(
        &self,
        item: &ItemRef<'_>,
        taken: Option<Taken<'_>>,
        admit: Admit<'_>,
        kept: Option<&mut Option<Value>>,
        told_flash: &mut Result<(), Error>,
    ) -> Result<Option<OnItsWay>, Full> {
        debug_assert!(
            taken.is_none() || self.core.flash.is_some() && item.tiers != Tiers::DramOnly,
            "what goes past DRAM goes to flash"
        );
        let _key_lock = self.core.lock_key(item.hash).await;
        *told_flash = self.invalidate_on_flash(item.hash).await;
        let (dram, now_s) = (&self.core.dram, self.core.now_s());
        match (taken, kept) {
            (Some(taken), _) => return dram.insert_to_demote(item, taken, admit).map(Some),
            (None, Some(kept)) => *kept = dram.insert_if(item, now_s, admit)?.map(Pinned::keep),
            (None, None) => dram.insert(item, now_s, admit)?,
        }
        Ok(None)
    }

    /// An item was not stored for want of room.
    pub(super) fn count_refused(&self, reason: RemovalReason, item: &ItemRef<'_>) {
        let counters = &self.core.counters;
        match reason {
            RemovalReason::RejectedDemotions => counters.rejected_demotions_objects.add(1),
            _ => counters.rejected_dram_pinned_objects.add(1),
        }
        counters.removals.key(reason, Tier::Dram, item.key, item.object_bytes());
    }

    /// Sees to it that an item that is for flash only is there, or given up, before its set returns.
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
