//! Eviction policies. A policy is a file that decides three things: the queue of a new item, the frequency that an
//! item needs to be reinserted when its segment is evicted, and the frequency that it keeps then. Segments, index,
//! ghost and demotions belong to the tier.
//!
//! A new policy needs its file, a line in each function here, and its name in `config/dram_policy.rs`.

mod lru;
mod s3_fifo;

use super::queues::Queue;
use crate::config::DramPolicy;

/// The decisions of a policy.
trait Policy {
    /// The fraction of the budget (reciprocal) for the ghost, which remembers evicted keys; `None`: there is no
    /// ghost.
    const GHOST_PART: Option<usize>;

    /// The queue of a new item; `known`: the ghost remembers its key.
    fn first_queue(known: bool) -> Queue;

    /// The frequency that an item of this queue needs to be reinserted when its segment is evicted.
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

/// The queue of a new item.
pub(super) fn first_queue(policy: DramPolicy, known: bool) -> Queue {
    match policy {
        DramPolicy::S3Fifo => s3_fifo::S3Fifo::first_queue(known),
        DramPolicy::Lru => lru::Lru::first_queue(known),
    }
}

/// The frequency that an item needs to be reinserted when its segment is evicted.
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
