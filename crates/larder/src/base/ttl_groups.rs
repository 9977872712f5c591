//! TTL groups: objects of one group expire at about the same time and fill their own regions, so a region dies as a
//! whole.
//!
//! An object goes to the first group whose bound is at least its remaining time to live. The bound is at most 2.15
//! times that time, except for the shortest times, and mostly 1.2 to 1.7 times (BigKV, EuroSys'23). Objects that live
//! longer than the last bound, or without end, are in the last group. Its regions end only by reclaim.

const MINUTE: u32 = 60;
const HOUR: u32 = 60 * MINUTE;
const DAY: u32 = 24 * HOUR;

/// Upper bounds in seconds, ascending.
const BOUNDS_S: [u32; GROUPS_MAX as usize] = [
    MINUTE,
    2 * MINUTE,
    3 * MINUTE,
    4 * MINUTE,
    5 * MINUTE,
    6 * MINUTE,
    7 * MINUTE,
    8 * MINUTE,
    9 * MINUTE,
    10 * MINUTE,
    20 * MINUTE,
    30 * MINUTE,
    40 * MINUTE,
    50 * MINUTE,
    HOUR,
    2 * HOUR,
    3 * HOUR,
    4 * HOUR,
    5 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    3 * DAY,
    4 * DAY,
    5 * DAY,
    6 * DAY,
    7 * DAY,
    14 * DAY,
    30 * DAY,
    60 * DAY,
    100 * DAY,
];

/// The number of groups that five bits of an index entry can distinguish.
pub(crate) const GROUPS_MAX: u32 = 32;

/// The bounds for this number of groups; `None` if there is no such division.
pub(crate) fn bounds_s(groups: u32) -> Option<&'static [u32]> {
    match groups {
        GROUPS_MAX => Some(&BOUNDS_S),
        // Objects without expiry belong to the last group, so the only one must be that.
        1 => BOUNDS_S.last_chunk::<1>().map(<[u32; 1]>::as_slice),
        _ => None,
    }
}

/// The group of an object that expires in this second of the cache's clock (0 for never). An expired object is in the
/// first group.
pub(crate) fn group_of(bounds_s: &[u32], expiry_s: u32, now_s: u32) -> usize {
    debug_assert!(bounds_s.is_sorted() && !bounds_s.is_empty(), "{bounds_s:?}");
    let last = bounds_s.len() - 1;
    if expiry_s == 0 {
        return last;
    }
    let left = expiry_s.saturating_sub(now_s);
    bounds_s.partition_point(|&bound| bound < left).min(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_object_is_in_the_first_group_that_lasts_as_long() {
        let bounds = bounds_s(32).unwrap();
        let group = |left: u32| group_of(bounds, 1000 + left, 1000);
        assert_eq!([1, 60, 61, 540, 541, 600, 601, 1200].map(group), [0, 0, 1, 8, 9, 9, 10, 10]);
        assert_eq!([3600, 3601, 6 * 3600, 86_400, 604_800].map(group), [14, 15, 19, 21, 27]);
        assert_eq!([8_640_000, 8_640_001, u32::MAX - 1000].map(group), [31; 3]);
        assert_eq!(group_of(bounds, 0, 1000), 31, "it never expires");
        assert_eq!([1, 999, 1000].map(|expiry| group_of(bounds, expiry, 1000)), [0; 3]);
    }

    #[test]
    fn one_group_has_all() {
        let bounds = bounds_s(1).unwrap();
        assert_eq!([0, 1, 5000, u32::MAX].map(|expiry| group_of(bounds, expiry, 1000)), [0; 4]);
        assert_eq!([0, 2, 31, 33].map(bounds_s), [None; 4]);
    }

    proptest! {
        #[test]
        fn no_region_outlives_its_objects_by_far(left in 60_u32..=8_640_000) {
            let bounds = bounds_s(32).unwrap();
            let bound = bounds[group_of(bounds, 7 + left, 7)];
            prop_assert!(bound >= left);
            prop_assert!(f64::from(bound) <= 2.15 * f64::from(left), "{bound} for {left}");
        }
    }
}
