//! From a full region to the next one.

use std::sync::atomic::Ordering;

use super::Array;
use super::division::LOOK_EVERY;
use super::rescue::Hot;

/// All tables are written once while so much of the regions is filled.
const SWEEPS_A_ROUND: u64 = 8;

impl Array {
    /// Makes sure that the open region of a group has room for an object of this size. `false` if no region can be had.
    pub(super) async fn rotate(&self, stream: usize, object_bytes: usize, now_s: u32) -> bool {
        debug_assert_ne!(stream, self.place.index_stream);
        let opened = self.open_next(stream, object_bytes, now_s).await;
        if opened == Some(true) {
            if self.begun.fetch_add(1, Ordering::Relaxed) % LOOK_EVERY == LOOK_EVERY - 1 {
                self.divide_groups();
            }
            let tables = u64::from(self.place.tables) * SWEEPS_A_ROUND;
            let most = tables.div_ceil(self.place.log.regions.into());
            self.sweep_tables(u32::try_from(most).unwrap_or(u32::MAX)).await;
        }
        opened.is_some()
    }

    /// The same, of any stream. Says whether a region was opened for that; `None` if none can be had.
    pub(super) async fn open_next(
        &self,
        stream: usize,
        object_bytes: usize,
        now_s: u32,
    ) -> Option<bool> {
        let mut writer = self.log.writer().await;
        if self.log.has_room_for(stream, object_bytes) {
            return Some(false); // whoever had the writer before made room
        }
        self.log.close_open(&mut writer, stream).await;
        let hot = Hot { array: self, now_s };
        let asked = (stream, object_bytes);
        self.log.open_next(&mut writer, asked, now_s, &hot).await.then_some(true)
    }
}
