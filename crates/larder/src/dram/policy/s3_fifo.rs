//! S3-FIFO (Yang, Zhang, Qiu, Yue, Vinayak: "FIFO queues are all you need for cache eviction", SOSP'23) over segments:
//! newcomers prove themselves in a small queue, and what was hit twice there goes on to the main one. The main queue is
//! a FIFO in which an item with hits goes to the end with one hit less. A ghost remembers what has left the small
//! queue: if such a key comes back, it begins in the main one.

use super::Policy;
use crate::dram::queues::Queue;

/// Frequency in the small queue that an item needs to go on to the main one.
const PROMOTION_FREQUENCY: u64 = 2;

pub(super) struct S3Fifo;

impl Policy for S3Fifo {
    /// A mark of 4 bytes for every 128.
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

    /// A chance in the main queue costs one; who comes to it begins without.
    fn frequency_left(queue: Queue, frequency: u64) -> u64 {
        match queue {
            Queue::Small => 0,
            Queue::Main => frequency.saturating_sub(1),
        }
    }
}
