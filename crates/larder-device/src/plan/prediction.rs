//! What a plan means for the drive: write amplification by formula.

use larder_ssd::analytic::dlwa::{self, CacheOnDrive};

use super::{Assignment, Class};
use crate::placement::PlacementHandle;

/// The caches on a drive, for [`predicted_dlwa`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DriveUse {
    /// Bytes of flash behind the device, over-provisioning included.
    pub flash_bytes: u64,
    /// Bytes of the device that caches use.
    pub used_bytes: u64,
    /// The part of `used_bytes` in which small-object engines overwrite buckets.
    pub soc_bytes: u64,
    /// Bytes that the caches have written.
    pub written_bytes: u64,
    /// The part of `written_bytes` that small-object engines have written to their buckets.
    pub soc_written_bytes: u64,
}

/// The device-level write amplification of a drive in steady state, by the formula that `larder plan` shows beside its
/// simulation ([`dlwa::of_cache`]). `None` before anything was written, and where there is no flash to spare.
///
/// ```
/// use larder_device::plan::{DriveUse, predicted_dlwa};
///
/// let of = DriveUse {
///     flash_bytes: 117,
///     used_bytes: 100,
///     soc_bytes: 4,
///     written_bytes: 20,
///     soc_written_bytes: 10,
/// };
/// assert!(predicted_dlwa(&of, true).unwrap() < 1.01 && predicted_dlwa(&of, false).unwrap() > 3.0);
/// assert_eq!(predicted_dlwa(&DriveUse { written_bytes: 0, ..of }, true), None);
/// ```
#[allow(clippy::cast_precision_loss)] // a forecast
pub fn predicted_dlwa(of: &DriveUse, placed: bool) -> Option<f64> {
    if of.written_bytes == 0 {
        return None;
    }
    let cache = CacheOnDrive {
        used: of.used_bytes as f64,
        spare: of.flash_bytes.checked_sub(of.used_bytes)? as f64,
        soc: of.soc_bytes as f64,
        soc_share: of.soc_written_bytes.min(of.written_bytes) as f64 / of.written_bytes as f64,
    };
    dlwa::of_cache(&cache, placed).ok()
}

/// Whether the buckets of small-object engines have reclaim units without data of other kinds, as far as these streams
/// tell. `true` without such buckets.
pub fn separates_buckets<'a>(streams: impl IntoIterator<Item = &'a Assignment>) -> bool {
    let is_bucket = |class: Class| matches!(class, Class::Soc | Class::SocHot);
    let is_alone = |stream: &Assignment| {
        stream.handle != PlacementHandle::DEFAULT
            && stream.shared_with.iter().all(|(_, class)| is_bucket(*class))
    };
    streams.into_iter().filter(|stream| is_bucket(stream.class)).all(is_alone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::PlacementInfo;
    use crate::plan::{Stream, solve};

    #[test]
    fn buckets_are_separate_if_nothing_else_has_their_handle() {
        let stream = |class| {
            let (tenant, lifetime) = (String::new(), None);
            Stream { tenant, class, write_share: 0.3, lifetime, places: true }
        };
        let streams = [Class::Soc, Class::SocHot, Class::Loc, Class::Metadata].map(stream);
        for (handles, separate) in [(1, false), (2, false), (3, true), (8, true)] {
            let plan = solve(&streams, &PlacementInfo { handles, ..PlacementInfo::none() });
            assert_eq!(separates_buckets(plan.streams()), separate, "{handles} handles:\n{plan}");
        }
        let plan = solve(&streams[2..], &PlacementInfo::none());
        assert!(separates_buckets(plan.streams()), "there are no buckets");
    }

    #[test]
    fn a_drive_without_room_has_no_prediction() {
        let of = DriveUse {
            flash_bytes: 100,
            used_bytes: 100,
            soc_bytes: 50,
            written_bytes: 10,
            soc_written_bytes: 10,
        };
        assert_eq!(predicted_dlwa(&of, false), None);
        assert_eq!(predicted_dlwa(&DriveUse { flash_bytes: 99, ..of }, true), None);
        let half = predicted_dlwa(&DriveUse { flash_bytes: 125, ..of }, true).unwrap();
        assert!((half - 1.7158).abs() < 1e-3, "{half}: Theorem 1, half the buckets' size to spare");
    }
}
