//! The decisions of a seed about a set of shards, and the possible events in its drives and shards.

use std::cell::Cell;
use std::rc::Rc;

use larder::{ErrorKind, ShardOptions};

/// Maximum number of drives of a seed.
pub(super) const DRIVES_MAX: usize = 12;
/// Maximum number of shards that are not retired.
pub(super) const SHARDS_MAX: usize = 6;

/// The decisions of a seed about a set.
#[derive(Debug, Clone)]
pub(super) struct SetPlan {
    /// Initial number of shards.
    pub(super) shards: usize,
    pub(super) options: ShardOptions,
    /// One step in this number causes an event in a drive or a change of the set.
    pub(super) event_one_in: u32,
}

/// The condition of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    Well,
    /// Every request fails.
    Gone,
    /// No request ends.
    Silent,
    Slow,
    /// Some requests fail, and may have been executed.
    Failing,
    /// No opening gets it.
    Absent,
}

/// The operator of a set.
#[derive(Default)]
pub(super) struct Operator {
    /// Drives that were added as spares; they may have replaced a shard since.
    pub(super) spares: Vec<usize>,
    /// The result of the current change.
    pub(super) ended: Rc<Cell<Option<Ended>>>,
}

/// A change, and its result.
pub(super) type Ended = (Order, Result<(), ErrorKind>);

/// A change of the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Fail(usize),
    Retire(usize),
    /// A shard, and the drive that replaces it.
    Replace(usize, usize),
    Add(usize),
    Spare(usize),
    /// Keys of one shard get their home at another one: how many of 10,000 parts.
    Move(usize, usize, u16),
}
