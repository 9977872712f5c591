//! S3-FIFO (Yang, Zhang, Qiu, Yue, Vinayak: "FIFO queues are all you need for cache eviction", SOSP'23) over
//! segments. New items start in a small queue, and items with two hits there move to the main one. The main queue is
//! a FIFO in which an item with hits goes to the end with one hit less. A ghost remembers keys evicted from the small
//! queue: if such a key comes back, it starts in the main one.

use super::Policy;
use crate::dram::queues::Queue;

/// Frequency that an item needs to move from the small queue to the main one.
const PROMOTION_FREQUENCY: u64 = 2;

pub(super) struct S3Fifo;

impl Policy for S3Fifo {
    /// A mark of 4 bytes for each 128 bytes of budget.
    const GHOST_PART: Option<usize> = Some(32);

    fn first_queue(known: bool) -> Queue {
        if known { Queue::Main } else { Queue::Small }
    }

    fn frequency_needed(queue: Queue) -> u64 {
        match queue {
            Queue::Small => PROMOTION_FREQUENCY,
            Queue::Main => 1,
        }
    }

    /// Reinsertion in the main queue costs one hit; items that move to it start with none.
    fn frequency_left(queue: Queue, frequency: u64) -> u64 {
        match queue {
            Queue::Small => 0,
            Queue::Main => frequency.saturating_sub(1),
        }
    }
}
