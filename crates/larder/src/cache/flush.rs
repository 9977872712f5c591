//! Makes the content that only DRAM holds survive a crash, while the cache serves.

use super::core::Core;
use crate::base::error::Error;
use crate::base::key::KeyHash;
use crate::base::side_by_side::together;
use crate::flash::{Flash, FlashOutcome};

/// Items that are sent to flash concurrently.
const SENT_AT_ONCE: usize = 32;

/// Outcome of [`Larder::flush`](crate::Larder::flush).
///
/// ```
/// use larder::Flushed;
///
/// let nothing = Flushed::default();
/// assert_eq!((nothing.objects, nothing.refused, nothing.lost), (0, 0, 0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use = "it says what is not on flash"]
#[non_exhaustive]
pub struct Flushed {
    /// Objects that went to flash.
    pub objects: u64,
    /// Bytes of these objects, key and value together.
    pub bytes: u64,
    /// Objects that stay in DRAM only: admission rejected them, no flash engine can hold objects of their size, or
    /// they are for DRAM only ([`Tiers::DramOnly`](crate::Tiers)).
    pub refused: u64,
    /// Objects that flash lost to device errors during the flush, whichever call sent them, and those not sent
    /// because writes have failed and are not tried again yet. DRAM still has those that were sent from there, and
    /// the next call sends them again. A place on the device whose write failed goes out of use, so small objects
    /// that belong there are lost each time.
    pub lost: u64,
}

impl std::ops::AddAssign for Flushed {
    fn add_assign(&mut self, other: Self) {
        self.objects += other.objects;
        self.bytes += other.bytes;
        self.refused += other.refused;
        self.lost += other.lost;
    }
}

/// The content that only DRAM holds on its way to flash. The caller is inside the gate.
pub(super) struct Flushing<'a> {
    pub(super) core: &'a Core,
    pub(super) flash: &'a Flash,
}

impl Flushing<'_> {
    /// Sends it, and waits until it is durable.
    pub(super) async fn run(&self) -> Result<Flushed, Error> {
        let mut flushed = Flushed::default();
        let lost_before = self.core.counters.lost_to_device_errors_objects.get();
        let parts = self.core.dram.parts();
        for part in 0..parts {
            // Demoted items are listed too, until flash has them.
            let listed = self.core.dram.hashes_in(part, parts).into_iter();
            let missing = |&(hash, clean): &(KeyHash, bool)| !(clean && self.flash.may_hold(hash));
            let hashes: Vec<KeyHash> = listed.filter(missing).map(|(hash, _)| hash).collect();
            for group in hashes.chunks(SENT_AT_ONCE) {
                for sent in together(group.iter().map(|&hash| self.send(hash))).await {
                    flushed.objects += sent.objects;
                    flushed.bytes += sent.bytes;
                    flushed.refused += sent.refused;
                    flushed.lost += sent.lost;
                }
            }
        }
        self.flash.persist().await?;
        let lost_after = self.core.counters.lost_to_device_errors_objects.get();
        debug_assert!(lost_before <= lost_after, "counters grow: {lost_before}, then {lost_after}");
        flushed.lost += lost_after - lost_before;
        Ok(flushed)
    }

    /// Sends DRAM's items of this hash to flash, unless they are there already.
    async fn send(&self, hash: KeyHash) -> Flushed {
        let mut flushed = Flushed::default();
        let _key_lock = self.core.lock_key(hash).await;
        debug_assert!(
            self.core.is_key_locked(hash),
            "rule 1: the caller that sends a key holds its lock"
        );
        // Read the item now: while the lock is held no other caller changes the key.
        for resident in self.core.dram.residents(hash) {
            let value = &resident.value;
            let item = value.item(hash);
            if self.flash.is_over(&item) || resident.clean && self.flash.may_hold(hash) {
                continue;
            }
            match self.flash.send(&item, self.core.now_s()).await {
                FlashOutcome::Stored => {
                    self.core.dram.note_clean(hash, value.key());
                    flushed.objects += 1;
                    flushed.bytes += item.object_bytes() as u64;
                }
                FlashOutcome::Refused => flushed.refused += 1,
                // Counted in `lost_to_device_errors_objects`.
                FlashOutcome::Lost => {}
                FlashOutcome::InOutage => flushed.lost += 1,
            }
        }
        flushed
    }
}
