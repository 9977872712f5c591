//! How fast a swap goes on beside tenants.

use std::collections::VecDeque;

use crate::error::{Error, ErrorKind};

/// How fast a swap goes on, and when it rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Bytes that are copied a second at most; at least 1. FlashBlox §4.4 moves 78.9 MB/s.
    pub bytes_per_s: u64,
    /// What the tenants of the dies that change places accept for 99 of 100 requests. If the last
    /// [`Pace::WATCHED`] took longer, the swap rests after each part of a block, [`Pace::REST`] times as long as that
    /// took: so it ends all the same, and takes so many times as long at most.
    pub p99_ns: Option<u64>,
}

impl Default for Pace {
    /// The paper's rate, without rests.
    fn default() -> Self {
        Self { bytes_per_s: 78_900_000, p99_ns: None }
    }
}

impl Pace {
    /// Requests by which it is judged whether tenants suffer.
    pub const WATCHED: usize = 256;
    /// How long a swap rests, by the time that a part of a block took.
    pub const REST: u64 = 4;

    pub(super) fn check(&self) -> Result<(), Error> {
        if self.bytes_per_s == 0 {
            let message = "bytes_per_s of 0: a swap that does not go on never ends; at least 1";
            return Err(Error::new(ErrorKind::Config, message));
        }
        Ok(())
    }
}

/// What the last requests of the tenants took.
#[derive(Debug, Default)]
pub(super) struct Watch {
    recent: VecDeque<u64>,
}

impl Watch {
    pub(super) fn push(&mut self, latency_ns: u64) {
        if self.recent.len() == Pace::WATCHED {
            self.recent.pop_front();
        }
        self.recent.push_back(latency_ns);
    }

    /// Whether more than one in a hundred took longer than `p99_ns`. With few requests nobody can tell.
    pub(super) fn suffers(&self, p99_ns: u64) -> bool {
        let slow = self.recent.iter().filter(|&&latency| latency > p99_ns).count();
        self.recent.len() == Pace::WATCHED && slow * 100 > Pace::WATCHED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_slow_ones_are_no_suffering_and_old_ones_are_forgotten() {
        let mut watch = Watch::default();
        (0..255).for_each(|_| watch.push(10));
        assert!(!watch.suffers(1), "too few to tell");
        (0..2).for_each(|_| watch.push(1000));
        assert!(!watch.suffers(100) && watch.suffers(9));
        watch.push(1000);
        assert!(watch.suffers(100), "three of 256");
        (0..254).for_each(|_| watch.push(10));
        assert!(!watch.suffers(100));
    }
}
