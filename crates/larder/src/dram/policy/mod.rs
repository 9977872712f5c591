//! Which item leaves first. A policy is a file: it says where a newcomer begins, what frequency an item needs to be
//! reinserted when the turn comes to its segment, and what of that it keeps then. Segments, index, ghost and demotions
//! are the tier's.
//!
//! One more: its file, a line in each function here, and its name in `config/dram_policy.rs`.

mod lru;
mod s3_fifo;

use super::queues::Queue;
use crate::config::DramPolicy;

/// What a policy decides.
trait Policy {
    /// The ghost, which remembers keys that have left, gets this part of the budget; `None`: there is none.
    const GHOST_PART: Option<usize>;

    /// Where a newcomer begins; `known`: the ghost remembers its key.
    fn first_queue(known: bool) -> Queue;

    /// The frequency that an item of this queue needs to be reinserted when its turn comes.
    fn frequency_needed(queue: Queue) -> u64;

    /// The frequency that an item of this queue keeps when it is reinserted.
    fn frequency_left(queue: Queue, frequency: u64) -> u64;
}

/// Bytes of the ghost in a budget.
pub(super) fn ghost_bytes(policy: DramPolicy, budget: usize) -> usize {
    let part = match policy {
        DramPolicy::S3Fifo => s3_fifo::S3Fifo::GHOST_PART,
        DramPolicy::Lru => lru::Lru::GHOST_PART,
    };
    part.map_or(0, |part| budget / part)
}

/// Where a newcomer begins.
pub(super) fn first_queue(policy: DramPolicy, known: bool) -> Queue {
    match policy {
        DramPolicy::S3Fifo => s3_fifo::S3Fifo::first_queue(known),
        DramPolicy::Lru => lru::Lru::first_queue(known),
    }
}

/// The frequency that an item needs to be reinserted when its turn comes.
pub(super) fn frequency_needed(policy: DramPolicy, queue: Queue) -> u64 {
    match policy {
        DramPolicy::S3Fifo => s3_fifo::S3Fifo::frequency_needed(queue),
        DramPolicy::Lru => lru::Lru::frequency_needed(queue),
    }
}

/// The frequency that an item keeps when it is reinserted.
pub(super) fn frequency_left(policy: DramPolicy, queue: Queue, frequency: u64) -> u64 {
    match policy {
        DramPolicy::S3Fifo => s3_fifo::S3Fifo::frequency_left(queue, frequency),
        DramPolicy::Lru => lru::Lru::frequency_left(queue, frequency),
    }
}
