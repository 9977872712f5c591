//! Moves from a full region to the next one, and decides which objects are appended again when theirs is reclaimed.
//!
//! These are objects whose entry is in DRAM and that were requested since they were written (BigKV, EuroSys'23, takes
//! an entry in DRAM as sufficient evidence of use). None are kept while the data that waits to be written exceeds its
//! limit.

use std::sync::Arc;

use larder_log::{AsRecord, FooterEntry, Kept, NewRecord, RecordForm, RegionIdentity, Rescue};

use super::dead::Dead;
use super::log::ArrayLog;
use crate::base::item::FlashItem;
use crate::base::ttl_groups::group_of;
use crate::engine::stored::record_of;

/// Makes sure that the open region of a stream has room for a record of this size. Returns whether a region was opened;
/// `None` if no region is available.
pub(super) async fn open_next(
    log: &ArrayLog,
    stream: usize,
    object_bytes: usize,
    now_s: u32,
) -> Option<bool> {
    let regions = log.regions();
    let mut writer = regions.writer().await;
    if regions.has_room_for(stream, object_bytes) {
        return Some(false); // the previous holder of the writer made room
    }
    regions.close_open(&mut writer, stream).await;
    let hot = HotObjects { log, now_s };
    let asked = (stream, object_bytes);
    regions.open_next(&mut writer, asked, now_s, &hot).await.then_some(true)
}

/// Keeps requested objects that have not expired at `now_s`.
struct HotObjects<'a> {
    log: &'a ArrayLog,
    now_s: u32,
}

/// An object that is appended again, with a stamp after all deaths so far.
struct RescuedObject {
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
        let Self { log, now_s } = *self;
        if !log.place().reinsertion {
            return room;
        }
        for entry in listed {
            let at = {
                let state = log.lock();
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
            match log.read_record(at, filling, None).await {
                Ok(fetched) if !fetched.item().is_expired(now_s) => {
                    room = left;
                    let stream = group_of(log.place().groups, fetched.expiry_s, now_s);
                    let (region, offset) = (at.region, at.offset);
                    let record = RescuedObject { fetched, dead: Arc::clone(log.dead()) };
                    kept.push(Kept { region, offset, stream, record });
                }
                _ => {}
            }
        }
        room
    }
}
