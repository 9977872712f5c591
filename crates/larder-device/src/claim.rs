//! Claims on device bytes within this process.
//!
//! Two caches that write to the same bytes destroy each other. The lock of a file, and exclusive opening of a block
//! device, keep other processes away. But one device object may be given to several caches of a process: directly, as
//! slices, or within a device over several. So a user takes a [`Claim`] on a device before keeping data on it, and
//! holds the claim as long as it uses the device.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::device::{Device, Extent};
use crate::error::{Error, ErrorKind};

/// The right to keep data on a device, or a part of one. Dropping it releases the right.
///
/// ```
/// use std::sync::Arc;
/// use larder_device::{Claim, MemoryDevice, SliceDevice};
///
/// let device = Arc::new(MemoryDevice::holding(vec![0; 1 << 20]));
/// let left = SliceDevice::new(Arc::clone(&device), 0..4096, &[])?;
/// let claim = Claim::take(&left)?;
/// assert!(Claim::take(&device).is_err(), "a part of it is taken");
/// drop(claim);
/// assert!(Claim::take(&device).is_ok());
/// # Ok::<(), larder_device::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "it is given back when it is dropped"]
pub struct Claim {
    number: u64,
}

/// All claimed extents, with the numbers of their claims.
static CLAIMED: Mutex<ClaimedExtents> =
    Mutex::new(ClaimedExtents { claims: 0, extents: Vec::new() });

struct ClaimedExtents {
    /// Number of claims that were ever taken.
    claims: u64,
    extents: Vec<(u64, Extent)>,
}

impl Claim {
    /// Claims all of `device`, which must not move in memory until the claim is dropped.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] if any of its bytes are claimed.
    pub fn take(device: &(impl Device + ?Sized)) -> Result<Self, Error> {
        let info = device.info();
        let wanted = device.stored_at(0..info.capacity_bytes);
        let mut claimed = lock();
        let mut taken = claimed.extents.iter().map(|(_, extent)| extent);
        if let Some(taken) = taken.find(|taken| wanted.iter().any(|it| it.overlaps(taken))) {
            let context = format!(
                "{}: in use: another cache of this process has bytes {} to {} of the device below; \
                 close that one first, or give each a device or a slice of its own",
                info.name,
                taken.range().start,
                taken.range().end
            );
            return Err(Error::new(ErrorKind::InUse, context));
        }
        claimed.claims += 1;
        let number = claimed.claims;
        claimed.extents.extend(wanted.into_iter().map(|extent| (number, extent)));
        Ok(Self { number })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        lock().extents.retain(|(number, _)| *number != self.number);
    }
}

fn lock() -> MutexGuard<'static, ClaimedExtents> {
    CLAIMED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::Arc;

    use super::*;
    use crate::fault::{FaultDevice, FaultPlan};
    use crate::memory::MemoryDevice;
    use crate::slice::SliceDevice;
    use crate::striped::StripedDevice;

    type DynDevice = Arc<dyn Device>;

    fn device() -> DynDevice {
        Arc::new(MemoryDevice::holding(vec![0; 1 << 20]))
    }

    fn slice(device: &DynDevice, range: Range<u64>) -> SliceDevice<DynDevice> {
        SliceDevice::new(Arc::clone(device), range, &[]).unwrap()
    }

    #[test]
    fn slices_that_do_not_overlap_are_claimed_side_by_side() {
        let device = device();
        let left = Claim::take(&slice(&device, 0..8192)).unwrap();
        let right = Claim::take(&slice(&device, 8192..1 << 20)).unwrap();
        let refused = Claim::take(&slice(&device, 4096..12288)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InUse);
        assert!(refused.to_string().contains("has bytes 0 to 8192"), "{refused}");
        drop(left);
        let inner: DynDevice = Arc::new(slice(&device, 0..16384));
        assert!(Claim::take(&slice(&inner, 4096..8192)).is_ok());
        assert!(Claim::take(&slice(&inner, 8192..12288)).is_err(), "a slice of a slice");
        drop(right);
        assert!(Claim::take(&slice(&inner, 8192..12288)).is_ok());
    }

    #[test]
    fn what_is_around_a_device_does_not_hide_it() {
        let (one, other) = (device(), device());
        let claim = Claim::take(&one).unwrap();
        let fault = || FaultDevice::new(Arc::clone(&one), &FaultPlan::new(1));
        assert!(Claim::take(&fault()).is_err() && Claim::take(&Arc::new(fault())).is_err());
        let striped = StripedDevice::new(vec![Arc::clone(&one), Arc::clone(&other)], 4096).unwrap();
        let striped: DynDevice = Arc::new(striped);
        assert!(Claim::take(&striped).is_err());
        // The second stripe of each pair is on the other device.
        assert!(Claim::take(&slice(&striped, 4096..8192)).is_ok());
        drop(claim);
        let stripe = Claim::take(&slice(&striped, 4096..8192)).unwrap();
        assert!(Claim::take(&one).is_ok() && Claim::take(&other).is_err());
        assert!(Claim::take(&slice(&other, 4096..8192)).is_ok());
        drop(stripe);
        assert!(Claim::take(&striped).is_ok());
    }
}
