//! Moves from a full region to the next one. Nothing is kept then: what is to stay has been appended again while the
//! last region was filled (`reinsertion.rs`).

use larder_log::{AsRecord, FooterEntry, Kept, NewRecord, RegionIdentity, Rescue};

use super::log::ArrayLog;

/// Makes sure that the open region of a stream has room for a record of this size. Returns whether a region was opened;
/// `None` if no region is available.
pub(super) async fn open_next(
    log: &ArrayLog,
    stream: usize,
    object_bytes: usize,
    now_s: u32,
) -> Option<bool> {
    let regions = log.regions();
    let mut writer = regions.writer().await;
    if regions.has_room_for(stream, object_bytes) {
        return Some(false); // the previous holder of the writer made room
    }
    regions.close_open(&mut writer, stream).await;
    let asked = (stream, object_bytes);
    regions.open_next(&mut writer, asked, now_s, &NothingStays).await.then_some(true)
}

/// Keeps no object of a reclaimed region.
struct NothingStays;

/// The record of no object.
enum NoRecord {}

impl AsRecord for NoRecord {
    fn as_record(&self) -> NewRecord<'_> {
        match *self {}
    }
}

impl Rescue for NothingStays {
    type Record = NoRecord;

    async fn rescue(
        &self,
        _filling: RegionIdentity,
        _listed: &[FooterEntry],
        room: usize,
        _kept: &mut Vec<Kept<NoRecord>>,
    ) -> usize {
        room
    }
}
