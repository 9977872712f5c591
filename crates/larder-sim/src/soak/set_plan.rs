//! What a seed decides of a set of shards, and what may become of its drives and shards.

use std::cell::Cell;
use std::rc::Rc;

use larder::{ErrorKind, ShardOptions};

/// Drives that a seed may have.
pub(super) const DRIVES_MAX: usize = 12;
/// Shards that are not retired.
pub(super) const SHARDS_MAX: usize = 6;

/// What a seed decides of a set.
#[derive(Debug, Clone)]
pub(super) struct SetPlan {
    /// That it begins with.
    pub(super) shards: usize,
    pub(super) options: ShardOptions,
    /// One step in so many something happens to a drive, or somebody changes the set.
    pub(super) event_one_in: u32,
}

/// What a drive does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    Well,
    /// Every request fails.
    Gone,
    /// No request ends.
    Silent,
    Slow,
    /// Some requests fail, and may have happened.
    Failing,
    /// No opening gets it.
    Absent,
}

/// Who changes a set.
#[derive(Default)]
pub(super) struct Operator {
    /// Drives that were made spares; they may have stepped in since.
    pub(super) spares: Vec<usize>,
    /// How the change under way has ended.
    pub(super) ended: Rc<Cell<Option<Ended>>>,
}

/// A change, and how it has ended.
pub(super) type Ended = (Order, Result<(), ErrorKind>);

/// A change of the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Fail(usize),
    Retire(usize),
    /// A shard, and the drive that takes its place.
    Replace(usize, usize),
    Add(usize),
    Spare(usize),
}
