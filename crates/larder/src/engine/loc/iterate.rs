//! Scans the objects of the engine.

use larder_log::RegionIdentity;

use super::Loc;
use super::index::Location;
use crate::base::item::{FlashItem, ItemRef, Kind};
use crate::base::key::KeyHash;

/// Number of attempts for an object that moves while it is read.
const LOOKS: usize = 3;

impl Loc {
    /// Number of shards: equal parts of the hash space, a power of two.
    pub(crate) fn shards(&self) -> usize {
        self.lock().entries.shards()
    }

    /// Names of all objects of a shard, for [`Loc::peek`].
    pub(crate) fn names_in(&self, shard: usize) -> Vec<KeyHash> {
        self.lock().entries.hashes_in(shard)
    }

    /// Applies `judge` to the object with this name, expired or not, at a time when the engine held it. Counts no hit,
    /// and forgets nothing.
    pub(crate) async fn peek<T>(
        &self,
        name: KeyHash,
        judge: impl Fn(&ItemRef<'_>) -> Option<T>,
    ) -> Option<T> {
        for _ in 0..LOOKS {
            let (location, identity) = self.place_of(name)?;
            let fetched = match self.peek_record(location, identity).await {
                Some(fetched) => match fetched.kind {
                    Kind::Whole => Some(fetched),
                    Kind::Head => self.peek_whole(&fetched).await,
                    // A part is visited with its head. Only reading the record shows that it is a part.
                    Kind::Part => None,
                },
                None => None,
            };
            let judged = fetched.and_then(|fetched| judge(&fetched.item()));
            // A reclaim of its region moves the object if it has hits.
            let there = |(now, filling): (Location, RegionIdentity)| {
                (now.region, now.offset, filling) == (location.region, location.offset, identity)
            };
            if self.place_of(name).is_some_and(there) {
                return judged;
            }
        }
        None
    }

    /// The record at this place, whatever kind it is.
    pub(super) async fn peek_record(
        &self,
        at: Location,
        identity: RegionIdentity,
    ) -> Option<FlashItem> {
        match self.in_memory(at, identity) {
            Some(fetched) => Some(fetched),
            None => self.peek_flash(at, identity).await,
        }
    }

    /// The record, if it is still in memory.
    fn in_memory(&self, at: Location, identity: RegionIdentity) -> Option<FlashItem> {
        let state = self.lock();
        let is_it = state.filling(at.region) == identity;
        let buffer = is_it.then(|| self.copy_in_memory(&state, at)).flatten()?;
        self.parse(buffer, 0, (at, identity))
    }

    async fn peek_flash(&self, at: Location, identity: RegionIdentity) -> Option<FlashItem> {
        self.counters().loc_record_reads.add(1);
        let (buffer, skip) = self.log.read(at.region, at.offset, at.span).await?;
        self.parse(buffer, skip, (at, identity))
    }
}
