//! Requests under way: each ends when all of its parts have.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::layout::{Ending, RequestId};

#[derive(Debug, Default)]
pub(super) struct Requests {
    under_way: HashMap<RequestId, Progress, BuildHasherDefault<NumberHasher>>,
    ended: Vec<(RequestId, Ending)>,
}

/// Spreads numbers that the cache itself draws: nobody chooses them so that they collide.
#[derive(Debug, Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((self.0 << 8) | u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // 2^64 by the golden ratio. The table looks at the upper bits and at the lower ones.
        let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ (spread >> 32);
    }
}

#[derive(Debug)]
struct Progress {
    parts: u32,
    has_failed: bool,
}

impl Requests {
    /// Begins a request. Whoever begins it holds a part of it, and ends that when it has named the others.
    ///
    /// # Panics
    /// If one of this name is under way.
    pub(super) fn begin(&mut self, id: RequestId) {
        let before = self.under_way.insert(id, Progress { parts: 1, has_failed: false });
        assert!(before.is_none(), "two requests of the name {}", id.0);
    }

    pub(super) fn add_part(&mut self, id: RequestId) {
        self.under_way.get_mut(&id).expect("under way").parts += 1;
    }

    pub(super) fn end_part(&mut self, id: RequestId, is_well: bool) {
        let progress = self.under_way.get_mut(&id).expect("under way");
        progress.parts -= 1;
        progress.has_failed |= !is_well;
        if progress.parts == 0 {
            let ending = if progress.has_failed { Ending::Failed } else { Ending::Done };
            self.under_way.remove(&id);
            self.ended.push((id, ending));
        }
    }

    pub(super) fn take_ended(&mut self, ended: &mut Vec<(RequestId, Ending)>) {
        ended.append(&mut self.ended);
    }
}
