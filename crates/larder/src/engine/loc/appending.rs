//! Appends many objects in sequence without waits in between, for a cache that is closing.

use std::sync::MutexGuard;

use larder_log::{LogState, RegionId, RegionState};

use super::index::Was;
use super::{Loc, State, location_of};
use crate::base::item::ItemRef;
use crate::base::key::KeyHash;
use crate::engine::Append;
use crate::engine::stored::record_of;

/// Appends to regions. It holds the lock of the index, so other requests wait until it is dropped.
pub(super) struct Appending<'a> {
    loc: &'a Loc,
    state: MutexGuard<'a, State>,
    now_s: u32,
}

impl<'a> Appending<'a> {
    /// Takes the lock of the index.
    pub(super) fn to(loc: &'a Loc, now_s: u32) -> Self {
        Self { loc, state: loc.lock(), now_s }
    }
}

impl Append for Appending<'_> {
    fn expect(&self, hash: KeyHash) {
        self.state.entries.prefetch(hash);
    }

    fn holds(&self, hash: KeyHash) -> bool {
        location_of(&self.state, hash).is_some()
    }

    /// Whether the open region of the item's stream has room.
    fn has_room_for(&mut self, item: &ItemRef<'_>) -> bool {
        let stream = self.loc.place.stream_of(item.expiry_s, self.now_s);
        let open = self.state.active.open(stream);
        open.is_some_and(|active| active.has_room_for(item.object_bytes()))
    }

    fn append_new(&mut self, item: &ItemRef<'_>) -> bool {
        let Self { loc, state, now_s } = self;
        let stream = loc.place.stream_of(item.expiry_s, *now_s);
        let new = record_of(item, None);
        let Some(place) = state.active.next_place(stream, &new) else { return false };
        let LogState { entries, regions, .. } = &mut **state;
        let is_there = |region: RegionId, _| regions.get(region).state() != RegionState::Expired;
        if entries.set_unless(item.hash, place, is_there) == Was::Newer {
            return false;
        }
        debug_assert!(entries.get(item.hash).is_some(), "the index has it before the region does");
        state.append_indexed(stream, &new, place);
        loc.left.void(&loc.log, item.hash);
        true
    }
}
