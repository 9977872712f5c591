//! Decides where a new item goes: to DRAM, past it if it stays full, or nowhere.

use super::core::Core;
use super::demoting::{Demoter, Patience, Wait};
use crate::base::error::Error;
use crate::base::item::ItemRef;
use crate::base::removal::RemovalReason;
use crate::base::tier::Tiers;
use crate::dram::value::{PinnedValue, Value};
use crate::dram::{Admit, DramFull, OnItsWay, TakenBytes};

/// Number of attempts of a set to make room in DRAM before it goes past it.
pub(super) const PUTS_BEFORE_WRITE_AROUND: usize = 8;

/// An item on its way into the cache.
#[derive(Clone, Copy)]
pub(super) struct Placing<'a> {
    pub(super) core: &'a Core,
    pub(super) demoter: &'a Demoter,
    pub(super) item: &'a ItemRef<'a>,
    pub(super) admit: Admit<'a>,
}

impl<'a> Placing<'a> {
    /// Puts the item where there is room for it, if `admit` agrees, and does the follow-up work. Stores the DRAM value
    /// in `kept`, if the caller wants it. Returns whether there was room (a refusal is counted), and whether flash
    /// could record the change.
    pub(super) async fn run(
        self,
        mut kept: Option<&mut Option<Value>>,
    ) -> (bool, Result<(), Error>) {
        let Self { core, demoter, item, .. } = self;
        let mut told_flash = Ok(());
        let mut patience = demoter.patience();
        let put = loop {
            let taken = match self.room_for(&mut patience).await {
                Ok(taken) => taken,
                Err(reason) => break Err(reason),
            };
            let kept = kept.as_deref_mut();
            if let Ok(put) = self.put(taken, kept, &mut told_flash).await {
                break Ok(put);
            }
        };
        let has_tried = patience.has_tried();
        drop(patience); // so that others need not wait for the help below
        demoter.demote_for(item.object_bytes()).await;
        match put {
            Ok(on_its_way) => {
                let written_around = has_tried && on_its_way.is_some();
                core.counters.dram_written_around_objects.add(u64::from(written_around));
                demoter.demote_if_flash_only(item, on_its_way).await;
            }
            Err(reason) => core.count_refused(reason, item),
        }
        (put.is_ok(), told_flash)
    }

    /// Where the item may go: to DRAM (`None`), or, if it has no place in DRAM, to flash with bytes taken from the
    /// limit. After a failed attempt it waits first. If DRAM stays full, of pinned values or of records on their way
    /// to flash, the item goes past it.
    ///
    /// # Errors
    /// The reason of the refusal.
    async fn room_for(
        &self,
        patience: &mut Patience<'_>,
    ) -> Result<Option<TakenBytes<'a>>, RemovalReason> {
        let Self { core, demoter, item, .. } = *self;
        if core.stays_in_dram(item) && patience.fulls < PUTS_BEFORE_WRITE_AROUND {
            if patience.is_first_try() {
                return Ok(None);
            }
            let bytes = demoter.demoted_for(item.object_bytes());
            return match demoter.wait_for_room(patience, bytes).await {
                Wait::Again => Ok(None),
                Wait::Over => Err(RemovalReason::RejectedDemotions),
            };
        }
        if core.flash.is_none() || item.tiers == Tiers::DramOnly || !patience.may_go_above() {
            return Err(RemovalReason::RejectedDramPinned);
        }
        let bytes = core.dram.demoting_bytes(item);
        debug_assert!(bytes > 0, "what is on its way takes memory");
        let taken = demoter.take_above(bytes, patience).await;
        taken.map(Some).ok_or(RemovalReason::RejectedDemotions)
    }

    /// Puts the item into DRAM, or on its way to flash, if `admit` agrees, and returns its place on the way to flash.
    /// Sets `told_flash` to whether flash could record the change.
    async fn put(
        &self,
        taken: Option<TakenBytes<'_>>,
        kept: Option<&mut Option<Value>>,
        told_flash: &mut Result<(), Error>,
    ) -> Result<Option<OnItsWay>, DramFull> {
        let Self { core, item, admit, .. } = *self;
        debug_assert!(
            taken.is_none() || core.flash.is_some() && item.tiers != Tiers::DramOnly,
            "what goes past DRAM goes to flash"
        );
        let _key_lock = core.lock_key(item.hash).await;
        let is_on_flash = core.flash.as_ref().is_some_and(|flash| flash.may_hold(item.hash));
        *told_flash = core.invalidate_on_flash(item.hash).await;
        let (dram, now) = (&core.dram, &*core.clock);
        let inserted = match (taken, kept) {
            (Some(taken), _) => return dram.insert_to_demote(item, taken, admit).map(Some),
            (None, Some(kept)) => {
                dram.insert_if(item, now, admit).map(|there| *kept = there.map(PinnedValue::keep))
            }
            (None, None) => dram.insert(item, now, admit),
        };
        match inserted {
            // Flash's version is void by now, and the key would have no value while this call waits for room.
            Err(DramFull) if is_on_flash && !dram.holds(item.hash) => {
                core.insert_above(item, admit).map(Some)
            }
            inserted => inserted.map(|()| None),
        }
    }
}
