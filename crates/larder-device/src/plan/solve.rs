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

use std::time::Duration;

use super::array_groups::merge_groups_down_to;
use super::{Assignment, Class, PlacementPlan, Stream, Why};
use crate::placement::{PlacementHandle, PlacementInfo};

/// The cost of mixing two tenants that write in order, in doublings of a lifetime.
const TENANTS_COST: f64 = 1.0;
/// The lifetime assumed where none is known: a medium value.
const UNKNOWN: Duration = Duration::from_secs(86_400);

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

/// Streams that share a handle.
#[derive(Debug, Clone)]
pub(super) struct Cluster {
    /// In the order of the streams.
    members: Vec<usize>,
    pub(super) tenants: Vec<String>,
    write_share: f64,
    /// Base-2 logarithm of the lifetime in seconds, weighted by the share of the writes.
    log_lifetime: f64,
    in_place: bool,
    in_order: bool,
    /// Whether it holds tables of an index, and whether it holds anything else.
    tables: bool,
    others: bool,
    /// Whether it holds only TTL groups of an array engine.
    pub(super) is_of_groups: bool,
}

/// The cost of merging two clusters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    mixes_patterns: bool,
    mixes_tables: bool,
    loss: f64,
}

impl Cluster {
    fn of(number: usize, streams: &[Stream]) -> Self {
        let stream = &streams[number];
        let lifetime = stream.lifetime.unwrap_or(UNKNOWN).as_secs_f64();
        Self {
            members: vec![number],
            tenants: vec![stream.tenant.clone()],
            // A share of 0 would make any merge free.
            write_share: stream.write_share.max(1e-9),
            log_lifetime: lifetime.max(1e-9).log2(),
            in_place: stream.class.is_in_place(),
            in_order: !stream.class.is_in_place(),
            tables: stream.class == Class::ArrayTables,
            others: stream.class != Class::ArrayTables,
            is_of_groups: matches!(stream.class, Class::ArrayGroup(_)),
        }
    }

    pub(super) fn cost_with(&self, other: &Self) -> Cost {
        let (a, b) = (self.write_share, other.write_share);
        let apart = (self.log_lifetime - other.log_lifetime).abs();
        let in_order = self.in_order || other.in_order;
        let tenants = if in_order && self.tenants != other.tenants { TENANTS_COST } else { 0.0 };
        Cost {
            mixes_patterns: (self.in_place || other.in_place) && (self.in_order || other.in_order),
            mixes_tables: (self.tables || other.tables) && (self.others || other.others),
            loss: 2.0 * a * b / (a + b) * (apart + tenants),
        }
    }

    pub(super) fn take_in(&mut self, other: Self) {
        let all = self.write_share + other.write_share;
        self.log_lifetime =
            (self.log_lifetime * self.write_share + other.log_lifetime * other.write_share) / all;
        self.write_share = all;
        self.in_place |= other.in_place;
        self.in_order |= other.in_order;
        self.tables |= other.tables;
        self.others |= other.others;
        self.is_of_groups &= other.is_of_groups;
        self.members.extend(other.members);
        self.members.sort_unstable();
        self.tenants.extend(other.tenants);
        self.tenants.sort_unstable();
        self.tenants.dedup();
    }
}

impl Cost {
    pub(super) fn is_less_than(self, other: Self) -> bool {
        let patterns = self.mixes_patterns.cmp(&other.mixes_patterns);
        let kinds = patterns.then(self.mixes_tables.cmp(&other.mixes_tables));
        kinds.then(self.loss.total_cmp(&other.loss)).is_lt()
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
