//! Least recently used, as far as segments allow: a single queue; items with a hit since their last turn go to its
//! end.

use super::Policy;
use crate::dram::queues::Queue;

pub(super) struct Lru;

impl Policy for Lru {
    const GHOST_PART: Option<usize> = None;

    fn first_queue(_known: bool) -> Queue {
        Queue::Main
    }

    fn frequency_needed(_queue: Queue) -> u64 {
        1
    }

    fn frequency_left(_queue: Queue, _frequency: u64) -> u64 {
        0
    }
}
