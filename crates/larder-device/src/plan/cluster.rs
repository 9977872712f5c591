//! Streams that share a handle, and what it costs to let more share it.

use std::time::Duration;

use super::{Class, Stream};

/// The cost of mixing two tenants that write in order, in doublings of a lifetime.
const TENANTS_COST: f64 = 1.0;
/// The lifetime assumed where none is known: a medium value.
const UNKNOWN: Duration = Duration::from_secs(86_400);

/// Streams that share a handle.
#[derive(Debug, Clone)]
pub(super) struct Cluster {
    /// In the order of the streams.
    pub(super) members: Vec<usize>,
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
    pub(super) fn of(number: usize, streams: &[Stream]) -> Self {
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
