//! Decides which TTL groups share a placement handle: contiguous groups, so that each handle gets about the same number
//! of bytes.
//!
//! The plan of a cache divides them by assumptions, before anything is written. From then on the written bytes are
//! counted by group; bytes of earlier openings are included with decreasing weight. A region is written with the handle
//! that its group has when the region is begun. So a change of the division moves no data, and after one round of the
//! log each reclaim unit belongs to a single division again. A new division replaces the old one only if it is much
//! better; otherwise handles of groups at a boundary would change all the time.

use larder_device::PlacementHandle;
use larder_log::RegionLog;

use super::group_bytes::GroupBytes;
use super::host::LogHost;
use super::index::ArrayIndex;
use super::place::ArrayPlace;

/// Until bytes for this number of regions have been written, the plan's division stays.
const MEASURED_REGIONS: u64 = 32;
/// A new division must have at most this percentage of the old one's cost.
const BETTER_PERCENT: u128 = 90;

/// Checks whether another division of the groups among the plan's handles is better, and applies it. Returns whether it
/// was.
pub(super) fn divide(
    place: &ArrayPlace,
    written: &GroupBytes,
    log: &RegionLog<ArrayIndex, LogHost>,
) -> bool {
    let groups = place.index_stream;
    let mut handles: Vec<PlacementHandle> = Vec::new();
    for stream in &place.log.streams[..groups] {
        if !handles.contains(&stream.handle) {
            handles.push(stream.handle);
        }
    }
    let bytes = written.get();
    let total: u64 = bytes.iter().sum();
    let region_bytes = u64::from(place.log.region_bytes);
    if handles.len() < 2 || total < MEASURED_REGIONS * region_bytes {
        return false;
    }
    let state = &mut *log.lock();
    let now: Vec<usize> = (0..groups)
        .map(|group| handles.iter().position(|&handle| handle == state.handle(group)))
        .map(Option::unwrap_or_default)
        .collect();
    let best = divided(&bytes, handles.len());
    let is_better = cost(&bytes, &best) * 100 <= cost(&bytes, &now) * BETTER_PERCENT;
    if is_better {
        for (group, &part) in best.iter().enumerate() {
            state.set_handle(group, handles[part]);
        }
    }
    if total > u64::from(place.log.regions) * region_bytes {
        written.fade();
    }
    is_better
}

/// Sum of the squares of each part's bytes: lowest if all parts have the same.
fn cost(bytes: &[u64], parts: &[usize]) -> u128 {
    let runs = parts.chunk_by(|one, next| one == next);
    let mut rest = bytes;
    let mut cost = 0;
    for run in runs {
        let (of_run, behind) = rest.split_at(run.len());
        cost += of_run.iter().map(|&bytes| u128::from(bytes)).sum::<u128>().pow(2);
        rest = behind;
    }
    cost
}

/// The part of each group, ascending: divides contiguous groups into at most `parts` parts with the lowest [`cost`].
fn divided(bytes: &[u64], parts: usize) -> Vec<usize> {
    let groups = bytes.len();
    let mut until = vec![0_u128; groups + 1];
    for (group, &bytes) in bytes.iter().enumerate() {
        until[group + 1] = until[group] + u128::from(bytes);
    }
    // `least[end]`: for the first `end` groups in the parts so far, the cost, and where the last part begins.
    let mut least = vec![(u128::MAX, 0); groups + 1];
    least[0].0 = 0;
    let mut begins = Vec::with_capacity(parts);
    for _ in 0..parts {
        let longer: Vec<(u128, usize)> = (0..=groups)
            .map(|end| {
                let from = |begin: usize| {
                    let before = least[begin].0;
                    (before.saturating_add((until[end] - until[begin]).pow(2)), begin)
                };
                (0..=end).map(from).min().unwrap_or((u128::MAX, 0))
            })
            .collect();
        begins.push(longer.iter().map(|&(_, begin)| begin).collect::<Vec<_>>());
        least = longer;
    }
    let mut of = vec![0; groups];
    let mut end = groups;
    for (part, begins) in begins.iter().enumerate().rev() {
        of[begins[end]..end].fill(part);
        end = begins[end];
    }
    of
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn handles_get_as_many_bytes_each_as_contiguous_groups_allow() {
        assert_eq!(divided(&[1, 1, 1, 1], 2), [0, 0, 1, 1]);
        assert_eq!(divided(&[0, 9, 0, 9, 0, 9], 3)[..4], [0, 0, 1, 1][..]);
        assert_eq!(divided(&[90, 1, 2, 3], 2), [0, 1, 1, 1]);
        assert_eq!(divided(&[1, 2, 90, 3, 4], 3), [0, 0, 1, 2, 2]);
        assert_eq!(divided(&[5; 4], 1), [0; 4]);
        // Handles that have nothing to hold are not used.
        assert_eq!(cost(&[7, 8], &divided(&[7, 8], 6)), 49 + 64);
    }

    proptest! {
        /// Compares with all possible divisions.
        #[test]
        fn no_other_division_is_better(
            bytes in prop::collection::vec(0..1000_u64, 1..8),
            parts in 1..4_usize,
        ) {
            let of = divided(&bytes, parts);
            prop_assert!(of.is_sorted() && of.iter().all(|&part| part < parts), "{of:?}");
            let all = 0..1_u32 << (bytes.len() - 1);
            let ways = all.filter(|cuts| (cuts.count_ones() as usize) < parts);
            let best = ways.map(|cuts| {
                let part_of = |group: usize| (cuts & ((1 << group) - 1)).count_ones() as usize;
                cost(&bytes, &(0..bytes.len()).map(part_of).collect::<Vec<_>>())
            });
            prop_assert_eq!(Some(cost(&bytes, &of)), best.min());
        }
    }
}
