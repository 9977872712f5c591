//! Appending many objects in a row, without a wait between them: for a cache that is being closed.

use std::sync::MutexGuard;

use super::index::Was;
use super::regions::RegionState;
use super::{Loc, State};
use crate::key::KeyHash;
use crate::value::ItemRef;

/// Somebody who appends, and keeps others from the index meanwhile.
pub(crate) struct Appending<'a> {
    loc: &'a Loc,
    state: MutexGuard<'a, State>,
    now_s: u32,
}

impl Loc {
    pub(crate) fn appending(&self, now_s: u32) -> Appending<'_> {
        let mut state = self.lock();
        state.active.keep_spare(true);
        Appending { loc: self, state, now_s }
    }

    /// Sends off what has come together of the active regions, if it is enough.
    pub(crate) async fn write_what_is_due(&self) {
        if self.has_pieces() {
            let mut turn = self.take_turn().await;
            self.write_due(&mut turn).await;
        }
    }
}

impl Appending<'_> {
    /// An object of this hash will be asked for, or appended.
    pub(crate) fn expect(&self, hash: KeyHash) {
        self.state.index.prefetch(hash);
    }

    /// Whether an object of this hash is stored.
    pub(crate) fn holds(&self, hash: KeyHash) -> bool {
        self.state.get(hash).is_some()
    }

    /// Whether there is room for `item` in a region that is open.
    pub(crate) fn has_room_for(&mut self, item: &ItemRef<'_>) -> bool {
        let shelf = self.loc.place.shelf_of(item.expiry_s, self.now_s);
        let open = self.state.active.open(shelf);
        open.is_some_and(|active| active.has_room_for(item.object_bytes()))
    }

    /// Appends an item for which there is room, unless the index has something in its place. Says
    /// whether it did.
    pub(crate) fn append_new(&mut self, item: &ItemRef<'_>) -> bool {
        let Self { loc, state, now_s } = self;
        let shelf = loc.place.shelf_of(item.expiry_s, *now_s);
        let State { index, regions, active, .. } = &mut **state;
        let Some(active) = active.open(shelf) else { return false };
        let (offset, length) = active.next_place(item);
        let is_there = |region: u32, _| regions.get(region).state != RegionState::Expired;
        let place = (active.identity.region, offset, length);
        if index.set_unless(item.hash, place, is_there) == Was::Newer {
            return false;
        }
        active.append(item);
        loc.void_unindexed(state, item.hash);
        true
    }
}
