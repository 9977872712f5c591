//! Decides which streams share a handle if there are too few.
//!
//! Each stream begins as a cluster of its own. While there are more clusters than handles, the two clusters are merged
//! whose merging costs least:
//!
//! - First, neighbouring TTL groups of an array engine are merged, those with the least loss (`array_groups`): there
//!   are many of them, and they get the handles that the others leave.
//! - Then clusters with the same write pattern are merged: random writes in place, or writes in order. A reclaim unit
//!   that holds both never dies as a whole, which is what causes write amplification. So the small- and the
//!   large-object engine of a tenant are merged last of all.
//! - Among these, pairs come first that hold no tables of an array's index, or nothing else: a table dies as soon as it
//!   is written again, and its neighbours do not.
//! - Among these, the pair with the least loss: w · (|log2 of one's lifetime - log2 of the other's| + 1 if they write
//!   in order and belong to different tenants). w is the harmonic mean of their shares of the writes, because the
//!   disturbed amount is at most what the smaller one writes. Data written in order die in order. Tenants do not
//!   advance at the same pace, so mixing them leaves one's bytes alive among the other's dead ones, like mixing
//!   lifetimes that differ by a factor of two. Random writes in place die at random, whichever tenant they belong to.
//! - Among pairs of equal loss, those that were declared first.
//!
//! With one handle less, exactly one more pair is merged.

use super::array_groups::merge_groups_down_to;
use super::cluster::{Cluster, Cost};
use super::{Assignment, Class, PlacementPlan, Stream, Why};
use crate::placement::{PlacementHandle, PlacementInfo};

/// Gives each of `streams` a handle of the device.
pub fn solve(streams: &[Stream], placement: &PlacementInfo) -> PlacementPlan {
    let tenants = tenants_by_group(streams, placement.groups());
    let group_of = |stream: &Stream| {
        let found = tenants.iter().find(|(tenant, _)| *tenant == stream.tenant);
        found.map_or(0, |(_, group)| *group)
    };
    let wants = |stream: &Stream| stream.places && stream.class != Class::Metadata;
    let mut handles: Vec<PlacementHandle> = streams
        .iter()
        .map(|stream| placement.handle(group_of(stream), 0).unwrap_or_default())
        .collect();
    let own = placement.handles_per_group() - 1;
    for group in 0..placement.groups() {
        let members = (0..streams.len())
            .filter(|&i| own > 0 && wants(&streams[i]) && group_of(&streams[i]) == group);
        let clusters = members.map(|i| Cluster::of(i, streams)).collect();
        let clusters = merge_groups_down_to(usize::from(own), clusters);
        let clusters = merge_down_to(usize::from(own), clusters);
        for (number, cluster) in (1..).zip(&clusters) {
            for &member in &cluster.members {
                handles[member] = placement.handle(group, number).unwrap_or_default();
            }
        }
    }
    let assignments = (0..streams.len()).map(|i| assignment(i, streams, &handles, own > 0));
    PlacementPlan {
        streams: assignments.collect(),
        handles: placement.handles,
        groups: placement.groups(),
        path: placement.path,
    }
}

/// The reclaim group of each tenant: the one with the least writes so far, beginning with the tenants that write most.
/// So tenants share a group only if there are more tenants than groups.
fn tenants_by_group(streams: &[Stream], groups: u16) -> Vec<(&str, u16)> {
    let mut tenants: Vec<(&str, f64)> = Vec::new();
    for stream in streams {
        match tenants.iter_mut().find(|(tenant, _)| *tenant == stream.tenant) {
            Some((_, share)) => *share += stream.write_share,
            None => tenants.push((&stream.tenant, stream.write_share)),
        }
    }
    tenants.sort_by(|a, b| b.1.total_cmp(&a.1)); // stable: ties stay in order
    // An empty group comes before any other, so that tenants with no expected writes do not share one.
    let mut loads = vec![(0_u32, 0.0); usize::from(groups)];
    let place = |(tenant, share)| {
        let lightest = (0..groups).min_by(|&a, &b| {
            let ((tenants_a, a), (tenants_b, b)) = (loads[usize::from(a)], loads[usize::from(b)]);
            (tenants_a > 0).cmp(&(tenants_b > 0)).then(f64::total_cmp(&a, &b))
        });
        let group = lightest.unwrap_or(0);
        let load = &mut loads[usize::from(group)];
        *load = (load.0 + 1, load.1 + share);
        (tenant, group)
    };
    tenants.into_iter().map(place).collect()
}

fn assignment(
    number: usize,
    streams: &[Stream],
    handles: &[PlacementHandle],
    placed: bool,
) -> Assignment {
    let stream = &streams[number];
    let others = (0..streams.len()).filter(|&i| i != number && handles[i] == handles[number]);
    let shared_with: Vec<_> =
        others.map(|i| (streams[i].tenant.clone(), streams[i].class)).collect();
    Assignment {
        why: match () {
            () if stream.class == Class::Metadata => Why::Metadata,
            () if !stream.places => Why::Off,
            () if !placed => Why::NoHandles,
            () if shared_with.is_empty() => Why::Alone,
            () => Why::TooFewHandles,
        },
        tenant: stream.tenant.clone(),
        class: stream.class,
        lifetime: stream.lifetime,
        write_share: stream.write_share,
        handle: handles[number],
        shared_with,
    }
}

/// Merges until there are at most `handles` clusters (at least one). Clusters stay in the order of their first streams.
fn merge_down_to(handles: usize, mut clusters: Vec<Cluster>) -> Vec<Cluster> {
    while clusters.len() > handles.max(1) {
        let mut cheapest: Option<(Cost, usize, usize)> = None;
        for first in 0..clusters.len() {
            for second in first + 1..clusters.len() {
                let cost = clusters[first].cost_with(&clusters[second]);
                if cheapest.is_none_or(|(least, ..)| cost.is_less_than(least)) {
                    cheapest = Some((cost, first, second));
                }
            }
        }
        let Some((_, first, second)) = cheapest else { break };
        let gone = clusters.remove(second);
        clusters[first].take_in(gone);
    }
    clusters
}

#[cfg(test)]
#[path = "solve_tests.rs"]
mod tests;
