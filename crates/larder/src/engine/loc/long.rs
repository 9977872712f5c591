//! Values longer than a region, stored in parts (`crate::engine::long`).

use larder_device::BufferPool;
use larder_log::RegionIdentity;

use super::index::Location;
use super::{Loc, object_bytes_max};
use crate::base::item::{FlashItem, ItemRef};
use crate::base::key::{KeyHash, KeyHasher};
use crate::base::removal::RemovalReason;
use crate::base::tier::Tier;
use crate::engine::long::{
    Lack, ReadPurpose, Records, Stamps, assemble, has_room_for_head, is_part, part_bytes,
    set_in_parts,
};

/// Number of attempts for a part that moves while it is read.
const LOOKS: usize = 3;

/// Longest object (key and value) that this number of regions of this size can hold, in parts or whole.
pub(super) fn long_object_bytes_max(regions: u32, region_bytes: u32) -> usize {
    crate::engine::long::object_bytes_max(regions, region_bytes).max(object_bytes_max(region_bytes))
}

impl Records for Loc {
    fn hasher(&self) -> KeyHasher {
        self.place.hasher
    }

    fn pool(&self) -> &BufferPool {
        self.log.pool()
    }

    fn part_bytes(&self) -> usize {
        part_bytes(self.place.log.form, self.region_bytes())
    }

    fn stamps(&self) -> &Stamps {
        &self.stamps
    }

    async fn set_record(&self, item: &ItemRef<'_>, now_s: u32) -> bool {
        self.set_record(item, now_s).await
    }

    async fn part(&self, key: &[u8], asked: ReadPurpose) -> Result<FlashItem, Lack> {
        let hash = self.place.hasher.hash(key);
        for _ in 0..LOOKS {
            let before = self.place_of(hash).ok_or(Lack::Gone)?;
            let fetched = match asked {
                ReadPurpose::Counts => self.find_record(hash).await,
                ReadPurpose::Walk => self.peek_record(before.0, before.1).await,
            };
            if let Some(fetched) = fetched {
                return if is_part(&fetched, key) { Ok(fetched) } else { Err(Lack::Gone) };
            }
            let there = |(now, filling): (Location, RegionIdentity)| {
                (now.region, now.offset, filling) == (before.0.region, before.0.offset, before.1)
            };
            // A reclaim of its region moves the part if it has hits.
            if self.place_of(hash).is_some_and(there) {
                return Err(Lack::Unreadable);
            }
        }
        Err(Lack::Unreadable)
    }
}

impl Loc {
    /// Whether an object is too long for a region, but not too long to be stored in parts.
    pub(super) fn takes_in_parts(&self, key_bytes: usize, value_bytes: usize) -> bool {
        let in_region = object_bytes_max(self.region_bytes());
        let bytes = key_bytes + value_bytes;
        bytes > in_region
            && bytes <= long_object_bytes_max(self.place.log.regions, self.region_bytes())
            && has_room_for_head(key_bytes, in_region)
    }

    /// Stores an item in parts. Returns whether it is stored; if not, no version of the key is stored.
    pub(super) async fn set_long(&self, item: &ItemRef<'_>, now_s: u32) -> bool {
        let stored = set_in_parts(self, item, now_s).await;
        if !stored && self.tombstones().is_none() {
            self.remove_entry(item.hash);
        }
        stored
    }

    /// Completes the item of a head found at this place. If a part is missing for good, forgets the item.
    pub(super) async fn complete(
        &self,
        head: FlashItem,
        at: Location,
        identity: RegionIdentity,
    ) -> Option<FlashItem> {
        // Read this before the look-up: parts that are not yet indexed may still be added.
        let all_known = self.left.is_indexed();
        let hash = head.hash;
        match assemble(self, &head, ReadPurpose::Counts).await {
            Ok(whole) => Some(whole),
            Err(Lack::Gone) if all_known && self.log.is_filling(identity) => {
                if let Some(tombstones) = self.tombstones() {
                    let (region, sequence) = (at.region.number(), identity.sequence);
                    let receipt = tombstones.invalidate_record(region, at.offset, sequence);
                    tombstones.commit(receipt).await.ok()?;
                }
                if self.forget(hash, at, identity) {
                    self.counters().loc_incomplete_objects.add(1);
                    let (reason, tier) = (RemovalReason::Damaged, Tier::LargeObjects);
                    self.counters().removals.key(reason, tier, head.item().key, 0);
                }
                None
            }
            Err(_) => None,
        }
    }

    /// The whole item of a head, expired or not, if all of its parts are there. Counts no hit, and forgets nothing.
    pub(super) async fn peek_whole(&self, head: &FlashItem) -> Option<FlashItem> {
        assemble(self, head, ReadPurpose::Walk).await.ok()
    }

    async fn find_record(&self, hash: KeyHash) -> Option<FlashItem> {
        let (location, identity, look_up) = self.find(hash)?;
        self.fetch(hash, location, identity, look_up).await
    }
}
