//! Chooses which TTL groups of an array engine share a handle: always neighbours, so that each handle has a range of
//! times.
//!
//! There are more groups than handles, and the amount written in each is not known in advance. The two neighbours with
//! the least loss are merged, by the same measure as for all streams: those that write little, or whose bounds are
//! close.

use super::cluster::{Cluster, Cost};

/// Merges neighbouring groups of a tenant until there are at most `handles` clusters, or each tenant has only one
/// cluster of groups. Clusters stay in the order of their first streams.
pub(super) fn merge_groups_down_to(handles: usize, mut clusters: Vec<Cluster>) -> Vec<Cluster> {
    while clusters.len() > handles {
        let mut cheapest: Option<(Cost, usize)> = None;
        for (first, pair) in clusters.windows(2).enumerate() {
            let [one, other] = pair else { continue };
            let are_neighbours =
                one.is_of_groups && other.is_of_groups && one.tenants == other.tenants;
            let cost = one.cost_with(other);
            if are_neighbours && cheapest.is_none_or(|(least, _)| cost.is_less_than(least)) {
                cheapest = Some((cost, first));
            }
        }
        let Some((_, first)) = cheapest else { break };
        let gone = clusters.remove(first + 1);
        clusters[first].take_in(gone);
    }
    clusters
}
