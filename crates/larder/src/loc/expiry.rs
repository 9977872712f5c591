//! Objects that have expired one by one. Whole regions of them are the log's matter.

use larder_log::RegionIdentity;

use super::Loc;
use super::index::Location;
use crate::key::KeyHash;

impl Loc {
    /// Forgets an object that has expired in this second. With one stream this needs no tombstone, once
    /// flash knows the time: after a crash it will have expired no less, and what comes after it is
    /// newer. Not so with several, see `streams.rs`.
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
                return; // it stays, and whoever takes its place invalidates it
            }
        }
        self.forget(hash, at, identity);
    }
}
