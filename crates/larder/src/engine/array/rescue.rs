//! Decides which objects are appended again when their region is reclaimed.
//!
//! These are objects whose entry is in DRAM and that were requested since they were written (BigKV, EuroSys'23, takes
//! an entry in DRAM as sufficient evidence of use). None are kept while the data that waits to be written exceeds its
//! limit.

use std::sync::Arc;

use larder_log::{AsRecord, FooterEntry, Kept, NewRecord, RecordForm, RegionIdentity, Rescue};

use super::Array;
use super::dead::Dead;
use crate::base::item::FlashItem;
use crate::base::ttl_groups::group_of;
use crate::engine::stored::record_of;

/// Keeps requested objects that have not expired at `now_s`.
pub(super) struct HotObjects<'a> {
    pub(super) array: &'a Array,
    pub(super) now_s: u32,
}

/// An object that is appended again, with a stamp after all deaths so far.
pub(super) struct RescuedObject {
    fetched: FlashItem,
    dead: Arc<Dead>,
}

impl AsRecord for RescuedObject {
    fn as_record(&self) -> NewRecord<'_> {
        record_of(&self.fetched.item(), Some(self.dead.clock()))
    }
}

impl Rescue for HotObjects<'_> {
    type Record = RescuedObject;

    async fn rescue(
        &self,
        filling: RegionIdentity,
        listed: &[FooterEntry],
        mut room: usize,
        kept: &mut Vec<Kept<RescuedObject>>,
    ) -> usize {
        let Self { array, now_s } = *self;
        if !array.place.reinsertion {
            return room;
        }
        for entry in listed {
            let at = {
                let state = array.lock();
                if state.active.is_over_budget() {
                    return room;
                }
                let slot = state.entries.slot(entry.hash);
                let shape = state.entries.shape();
                let known = state.entries.set(slot).get(shape, slot.fingerprint);
                let at = known.filter(|known| known.has_hit()).map(|known| shape.place_of(known));
                at.filter(|at| (at.region, at.offset) == (filling.region, entry.offset))
            };
            let Some(at) = at else { continue };
            let Some(left) = room.checked_sub(RecordForm::STAMPED.bytes_of_record(entry.length))
            else {
                break;
            };
            match array.read_record(at, filling, None).await {
                Ok(fetched) if !fetched.item().is_expired(now_s) => {
                    room = left;
                    let stream = group_of(array.place.groups, fetched.expiry_s, now_s);
                    let (region, offset) = (at.region, at.offset);
                    let record = RescuedObject { fetched, dead: Arc::clone(&array.dead) };
                    kept.push(Kept { region, offset, stream, record });
                }
                _ => {}
            }
        }
        room
    }
}
