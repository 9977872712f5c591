//! Which item leaves first. A policy is a file: it says where a newcomer begins, what an item needs to go on when the
//! turn comes to its segment, and what of its visits it keeps then. Segments, index, ghost and departures are the
//! tier's.
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

    /// So many visits an item of this queue needs to go on when its turn comes.
    fn visits_needed(queue: Queue) -> u64;

    /// With so many of its visits an item of this queue goes on.
    fn visits_left(queue: Queue, visits: u64) -> u64;
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

/// So many visits an item needs to go on when its turn comes.
pub(super) fn visits_needed(policy: DramPolicy, queue: Queue) -> u64 {
    match policy {
        DramPolicy::S3Fifo => s3_fifo::S3Fifo::visits_needed(queue),
        DramPolicy::Lru => lru::Lru::visits_needed(queue),
    }
}

/// With so many of its visits an item goes on.
pub(super) fn visits_left(policy: DramPolicy, queue: Queue, visits: u64) -> u64 {
    match policy {
        DramPolicy::S3Fifo => s3_fifo::S3Fifo::visits_left(queue, visits),
        DramPolicy::Lru => lru::Lru::visits_left(queue, visits),
    }
}
