//! Makes the content that only DRAM holds survive a crash, while the cache serves.

use super::Larder;
use crate::base::error::Error;
use crate::base::key::KeyHash;
use crate::base::side_by_side::together;
use crate::flash::{Flash, FlashOutcome};

/// Items that are sent to flash concurrently.
const SENT_AT_ONCE: usize = 32;

/// Outcome of [`Larder::flush`].
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

impl Larder {
    /// Sends to flash what only DRAM holds, and waits until it is there. After this returns, every value that was set
    /// before the call survives a crash ([`CrashSafety::Process`](crate::CrashSafety::Process)). Exceptions are
    /// values that the admission policy or their size keeps from flash, or that are lost to device errors
    /// ([`Flushed`] counts both), values that flash drops to make room, and values that are changed later. Large
    /// objects are found again once the opening has indexed them ([`Larder::rebuild`]). A loss of power still empties
    /// flash, except with [`CrashSafety::Power`](crate::CrashSafety::Power), which gives the same guarantee then.
    ///
    /// Items stay in DRAM; a later eviction writes nothing again. The cache serves during the flush. The cost is a
    /// read and a write of 4 KiB for each small object that only DRAM held, and on average half a block of 4 KiB of a
    /// large-object region, which stays unused. Each call offers rejected objects to the admission policy once more.
    ///
    /// Without flash there is nothing to do.
    ///
    /// Objects in the small-object log ([`SocConfig::log_percent`](crate::SocConfig::log_percent)) do not survive a
    /// crash, flushed or not.
    ///
    /// # Errors
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) if the device cannot flush. DRAM still has all of its content.
    /// [`ErrorKind::Closed`](crate::ErrorKind::Closed).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use larder::{Config, Larder, RealClock, block_on};
    /// use larder_device::{ModelDevice, Payload};
    /// use larder_ssd::managed::{Geometry, ManagedConfig};
    ///
    /// let geometry = Geometry::with_overprovisioning(8 << 20, 256 << 10, 60.0).unwrap();
    /// let drive = ModelDevice::new(ManagedConfig::new(geometry), Payload::Memory).unwrap();
    /// let drive: Arc<dyn larder_device::Device> = Arc::new(drive);
    /// let open = || {
    ///     let config = Config { dram_bytes: 1 << 20, ..Config::default() };
    ///     block_on(Larder::open(config, Some(Arc::clone(&drive)), Arc::new(RealClock)))
    /// };
    /// let cache = open()?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// assert_eq!(block_on(cache.flush())?.objects, 1);
    /// drop(cache); // without a close, as if the process had died
    /// let cache = open()?;
    /// block_on(cache.rebuild()); // it could serve already
    /// assert_eq!(block_on(cache.get(b"bread"))?.as_deref(), Some(&b"rye"[..]));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn flush(&self) -> Result<Flushed, Error> {
        let inside = self.enter().await?;
        let flushed = self.flush_inside().await;
        self.leave(inside);
        flushed
    }

    async fn flush_inside(&self) -> Result<Flushed, Error> {
        let mut flushed = Flushed::default();
        let Some(flash) = &self.core.flash else { return Ok(flushed) };
        let lost_before = self.core.counters.lost_to_device_errors_objects.get();
        let parts = self.core.dram.parts();
        for part in 0..parts {
            // Demoted items are listed too, until flash has them.
            let listed = self.core.dram.hashes_in(part, parts).into_iter();
            let missing = |&(hash, clean): &(KeyHash, bool)| !(clean && flash.may_hold(hash));
            let hashes: Vec<KeyHash> = listed.filter(missing).map(|(hash, _)| hash).collect();
            for group in hashes.chunks(SENT_AT_ONCE) {
                for sent in together(group.iter().map(|&hash| self.send(flash, hash))).await {
                    flushed.objects += sent.objects;
                    flushed.bytes += sent.bytes;
                    flushed.refused += sent.refused;
                    flushed.lost += sent.lost;
                }
            }
        }
        flash.persist().await?;
        let lost_after = self.core.counters.lost_to_device_errors_objects.get();
        debug_assert!(lost_before <= lost_after, "counters grow: {lost_before}, then {lost_after}");
        flushed.lost += lost_after - lost_before;
        Ok(flushed)
    }

    /// Sends DRAM's items of this hash to flash, unless they are there already.
    async fn send(&self, flash: &Flash, hash: KeyHash) -> Flushed {
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
            if flash.is_over(&item) || resident.clean && flash.may_hold(hash) {
                continue;
            }
            match flash.send(&item, self.core.now_s()).await {
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
