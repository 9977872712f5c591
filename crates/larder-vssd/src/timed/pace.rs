//! The speed of a swap in parallel with tenants.

use std::collections::VecDeque;

use larder_ssd::{Error, ErrorKind};

/// The speed of a swap, and when it pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Maximum bytes copied per second; at least 1. FlashBlox §4.4 moves 78.9 MB/s.
    pub bytes_per_s: u64,
    /// Latency limit in nanoseconds for 99 of 100 requests of the tenants on the swapped dies. If the last
    /// [`Pace::WATCHED`] requests exceed it, the swap pauses after each part of a block, for [`Pace::REST`] times the
    /// time of that part. So the swap still completes; the pauses lengthen it by at most that factor.
    pub p99_ns: Option<u64>,
}

impl Default for Pace {
    /// The paper's rate, without pauses.
    fn default() -> Self {
        Self { bytes_per_s: 78_900_000, p99_ns: None }
    }
}

impl Pace {
    /// Number of recent requests by which the limit is checked.
    pub const WATCHED: usize = 256;
    /// Length of a pause, as a multiple of the time that a part of a block took.
    pub const REST: u64 = 4;

    pub(super) fn check(&self) -> Result<(), Error> {
        if self.bytes_per_s == 0 {
            let message = "bytes_per_s of 0: a swap that does not go on never ends; at least 1";
            return Err(Error::new(ErrorKind::Config, message));
        }
        Ok(())
    }
}

/// Latencies of the last requests of the tenants.
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

    /// Whether more than one in a hundred took longer than `p99_ns`. False until there are [`Pace::WATCHED`] requests.
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
