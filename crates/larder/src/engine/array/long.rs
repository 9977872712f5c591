//! Values longer than a region, or longer than an entry can express, stored in parts (`crate::engine::long`).
//!
//! A part is found like any other record: with its entry in DRAM in one read, otherwise in two, the first for a page of
//! its table. If a part moves between the two reads, the value is a miss, as with any other object; the head is
//! forgotten only if a part is known to be gone.

use larder_device::BufferPool;

use super::Array;
use super::entry::SetEntry;
use crate::base::item::{FlashItem, ItemRef, Kind};
use crate::base::key::KeyHasher;
use crate::base::removal::RemovalReason;
use crate::base::tier::Tier;
use crate::engine::long::{
    Lack, ReadPurpose, Records, Stamps, assemble, has_room_for_head, is_part,
};

/// Earlier than any expiry: the caller has already checked the expiry of the head.
const NO_TIME: u32 = 0;

impl Records for Array {
    fn hasher(&self) -> KeyHasher {
        self.log.place().hasher
    }

    fn pool(&self) -> &BufferPool {
        self.log.regions().pool()
    }

    fn part_bytes(&self) -> usize {
        self.log.place().part_bytes()
    }

    fn stamps(&self) -> &Stamps {
        &self.stamps
    }

    async fn set_record(&self, item: &ItemRef<'_>, now_s: u32) -> bool {
        self.set_record(item, now_s).await
    }

    async fn part(&self, key: &[u8], asked: ReadPurpose) -> Result<FlashItem, Lack> {
        let hash = self.log.place().hasher.hash(key);
        let entry = self.tables.locate(hash, asked).await?;
        let fetched = self.fetch(hash, entry, NO_TIME).await?;
        if is_part(&fetched, key) { Ok(fetched) } else { Err(Lack::Gone) }
    }
}

impl Array {
    /// Whether an object is too long for a record, but not too long to be stored in parts.
    pub(super) fn takes_in_parts(&self, key_bytes: usize, value_bytes: usize) -> bool {
        let in_record = self.log.place().record_object_bytes_max();
        let least = in_record.max((self.log.place().object_bytes_min as usize).saturating_sub(1));
        let bytes = key_bytes + value_bytes;
        bytes > least
            && bytes <= self.log.place().object_bytes_max()
            && has_room_for_head(key_bytes, in_record)
    }

    /// Completes the item of a head with this entry. If a part is missing for good, forgets the item.
    pub(super) async fn complete(&self, head: FlashItem, entry: SetEntry) -> Option<FlashItem> {
        match assemble(self, &head, ReadPurpose::Counts).await {
            Ok(whole) => Some(whole),
            Err(Lack::Gone) => {
                self.forget_head(&head, entry).await;
                None
            }
            Err(Lack::Unreadable) => None,
        }
    }

    /// The whole item of a record, expired or not, if all of it is there and it is not a part. Counts no hit, and
    /// forgets nothing.
    pub(super) async fn peek_whole(&self, fetched: FlashItem) -> Option<FlashItem> {
        match fetched.kind {
            Kind::Whole => Some(fetched),
            Kind::Head => assemble(self, &fetched, ReadPurpose::Walk).await.ok(),
            // A part is visited with its head.
            Kind::Part => None,
        }
    }

    /// Marks the key of a head dead, unless something newer is there by now. This may take a read: looking for the
    /// parts may have displaced its entry from DRAM.
    async fn forget_head(&self, head: &FlashItem, entry: SetEntry) {
        if self.tables.find(head.hash).await.is_none() {
            return;
        }
        let receipt = {
            let state = &mut *self.log.lock();
            let slot = state.entries.slot(head.hash.0);
            let there = state.entries.set(slot).get(state.entries.shape(), slot.fingerprint);
            if !there.is_some_and(|there| there.is_same(entry))
                || !self.log.is_current(state, entry)
            {
                return;
            }
            self.die_in(state, head.hash).1
        };
        if let (Some(tombstones), Some(receipt)) = (self.log.tombstones(), receipt)
            && tombstones.commit(receipt).await.is_err()
        {
            return; // a crash may bring it back, which is a miss again
        }
        self.log.counters().array_incomplete_objects.add(1);
        let (reason, tier) = (RemovalReason::Damaged, Tier::ArrayObjects);
        self.log.counters().removals.key(reason, tier, head.item().key, 0);
    }
}
