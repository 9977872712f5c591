//! Decides which objects of a region that is reclaimed are read and appended again.

use larder_log::{FooterEntry, Kept, RecordForm, RegionIdentity, Rescue};

use super::Loc;
use crate::base::item::FlashItem;
use crate::base::key::KeyHash;
use crate::config::Reinsertion;

/// Keeps the objects with enough hits that have not expired at `now_s`.
pub(super) struct HotObjects<'a> {
    pub(super) loc: &'a Loc,
    pub(super) now_s: u32,
}

impl Rescue for HotObjects<'_> {
    type Record = FlashItem;

    async fn rescue(
        &self,
        filling: RegionIdentity,
        listed: &[FooterEntry],
        mut room: usize,
        kept: &mut Vec<Kept<FlashItem>>,
    ) -> usize {
        let Self { loc, now_s } = *self;
        let room_before = room;
        let policy = loc.place.reinsertion;
        if policy == Reinsertion::None {
            return room;
        }
        for entry in listed {
            let hash = KeyHash(entry.hash);
            let location = loc.lock().entries.get(hash);
            let Some(at) = location.filter(|at| {
                (at.region, at.offset) == (filling.region, entry.offset)
                    && policy.keeps(at.hits, hash, filling.sequence)
            }) else {
                continue;
            };
            let taken = RecordForm::PLAIN.bytes_of_record(entry.length);
            let Some(left) = room.checked_sub(taken) else { break };
            match loc.read(hash, at, filling).await {
                Some(fetched) if !fetched.item().is_expired(now_s) => {
                    room = left;
                    let hits = policy.hits(at.hits);
                    let stream = loc.place.stream_of_kept(fetched.item().expiry_s, now_s, hits);
                    let (region, offset) = (at.region, at.offset);
                    kept.push(Kept { region, offset, stream, record: fetched });
                }
                _ => {}
            }
        }
        debug_assert!(room <= room_before, "what is kept takes room: {room} of {room_before}");
        room
    }
}
