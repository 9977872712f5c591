//! What the engine holds, one after another.

use larder_log::RegionIdentity;

use super::Loc;
use super::index::Location;
use crate::item::{Fetched, ItemRef, Kind};
use crate::key::KeyHash;

/// How often to look again for an object that moved while it was read.
const LOOKS: usize = 3;

impl Loc {
    /// How many equal parts the space of hashes is divided into: a power of two.
    pub(crate) fn shards(&self) -> usize {
        self.lock().entries.shards()
    }

    /// Names of all objects of a part, for [`Loc::peek`].
    pub(crate) fn names_in(&self, shard: usize) -> Vec<KeyHash> {
        self.lock().entries.hashes_in(shard)
    }

    /// The object of a name, expired or not, as `judge` saw it at a time at which the engine held it.
    /// Counts no hit, and forgets nothing.
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
                    // It comes with its head. Only reading it shows that it is one.
                    Kind::Part => None,
                },
                None => None,
            };
            let judged = fetched.and_then(|fetched| judge(&fetched.item()));
            // It moves when its region is reclaimed and it has hits.
            let there = |(now, filling): (Location, RegionIdentity)| {
                (now.region, now.offset, filling) == (location.region, location.offset, identity)
            };
            if self.place_of(name).is_some_and(there) {
                return judged;
            }
        }
        None
    }

    /// The record that lies there, whatever it is.
    pub(super) async fn peek_record(
        &self,
        at: Location,
        identity: RegionIdentity,
    ) -> Option<Fetched> {
        match self.in_memory(at, identity) {
            Some(fetched) => Some(fetched),
            None => self.peek_flash(at, identity).await,
        }
    }

    /// The record, if it is in memory still.
    fn in_memory(&self, at: Location, identity: RegionIdentity) -> Option<Fetched> {
        let state = self.lock();
        let is_it = state.filling(at.region) == identity;
        let buffer = is_it.then(|| self.copy_in_memory(&state, at)).flatten()?;
        self.parse(buffer, 0, (at, identity))
    }

    async fn peek_flash(&self, at: Location, identity: RegionIdentity) -> Option<Fetched> {
        self.counters().loc_record_reads.add(1);
        let (buffer, skip) = self.log.read(at.region, at.offset, at.span).await?;
        self.parse(buffer, skip, (at, identity))
    }
}
