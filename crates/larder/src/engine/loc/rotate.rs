//! Moves from a full region to the next one.

use larder_log::RegionId;

use super::rescue::HotObjects;
use super::{Loc, object_bytes_max};

impl Loc {
    /// Makes sure that the open region of a stream has room for an object of this size. `false` if no region is
    /// available: all are retired.
    pub(super) async fn rotate(&self, stream: usize, object_bytes: usize, now_s: u32) -> bool {
        debug_assert!(stream < self.place.streams(), "stream {stream} has a handle");
        debug_assert!(
            object_bytes <= object_bytes_max(self.region_bytes()),
            "an empty region has room for {object_bytes} bytes, or the caller's loop never ends"
        );
        let mut writer = self.log.writer().await;
        if self.log.has_room_for(stream, object_bytes) {
            return true; // the previous holder of the writer made room
        }
        // First submit the rest of the open region: a stream has only one open region.
        self.log.close_open(&mut writer, stream).await;
        // After a crash regions are Unknown, and an Unknown region is not reclaimed (`recover.rs`, rule 1): without
        // this, a cache that has not read any region yet would find none to fill.
        self.find_room().await;
        // Still holding the writer: two concurrent reclaims would both empty a region where one is enough.
        let hot = HotObjects { loc: self, now_s };
        self.log.open_next(&mut writer, (stream, object_bytes), now_s, &hot).await
    }

    /// Empties a sealed region early, because the tombstone log is full of tombstones of its records.
    pub(crate) async fn give_up_region(&self, region: u32) {
        if self.log.give_up_region(RegionId::new(region)).await {
            self.counters().loc_given_up_regions.add(1);
        }
    }
}
