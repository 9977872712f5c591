//! Moves from a full region to the next one.

use std::sync::atomic::Ordering;

use super::Array;
use super::division::LOOK_EVERY;
use super::rescue::HotObjects;

/// Number of times that all tables are written during one round of the regions.
const SWEEPS_A_ROUND: u64 = 8;

impl Array {
    /// Makes sure that the open region of a group has room for an object of this size. `false` if no region is
    /// available.
    pub(super) async fn rotate(&self, stream: usize, object_bytes: usize, now_s: u32) -> bool {
        debug_assert_ne!(stream, self.place.index_stream);
        let opened = self.open_next(stream, object_bytes, now_s).await;
        if opened == Some(true) {
            let begun = self.begun.fetch_add(1, Ordering::Relaxed);
            if begun % LOOK_EVERY == LOOK_EVERY - 1 {
                self.divide_groups();
            }
            self.sweep_tables(self.due_tables(begun)).await;
        }
        opened.is_some()
    }

    /// Number of tables to write at this beginning of a region. It is 0 at most beginnings if there are fewer tables
    /// than regions.
    fn due_tables(&self, begun: u32) -> u32 {
        let tables = u64::from(self.place.tables) * SWEEPS_A_ROUND;
        let before = |begun: u64| tables * begun / u64::from(self.place.log.regions);
        let due = before(u64::from(begun) + 1) - before(begun.into());
        u32::try_from(due).unwrap_or(u32::MAX)
    }

    /// The same for any stream. Returns whether a region was opened; `None` if no region is available.
    pub(super) async fn open_next(
        &self,
        stream: usize,
        object_bytes: usize,
        now_s: u32,
    ) -> Option<bool> {
        let mut writer = self.log.writer().await;
        if self.log.has_room_for(stream, object_bytes) {
            return Some(false); // the previous holder of the writer made room
        }
        self.log.close_open(&mut writer, stream).await;
        let hot = HotObjects { array: self, now_s };
        let asked = (stream, object_bytes);
        self.log.open_next(&mut writer, asked, now_s, &hot).await.then_some(true)
    }
}
