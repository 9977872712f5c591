//! Forgets single expired objects. The log handles whole regions of expired objects.

use larder_log::RegionIdentity;

use super::Loc;
use super::index::Location;
use crate::base::key::KeyHash;

impl Loc {
    /// Forgets an object that expired in this second. With one stream, no tombstone is necessary once the current time
    /// is recorded on flash: the object is still expired after a crash, and any later object of the key is newer. This
    /// does not hold with several streams, see `streams.rs`.
    pub(super) async fn forget_expired(
        &self,
        hash: KeyHash,
        at: Location,
        (identity, expiry_s): (RegionIdentity, u32),
    ) {
        if let Some(tombstones) = self.tombstones() {
            let is_over = if self.place.streams() > 1 {
                let receipt =
                    tombstones.invalidate_record(at.region.number(), at.offset, identity.sequence);
                tombstones.commit(receipt).await.is_ok()
            } else {
                tombstones.is_over(expiry_s).await
            };
            if !is_over {
                return; // it stays; a set of the same key will invalidate it
            }
        }
        self.forget(hash, at, identity);
    }
}
