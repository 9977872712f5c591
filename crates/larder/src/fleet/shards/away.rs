//! The devices of shards that were taken out because they seemed to have failed, and how often each shard was taken
//! out: a device that fails again and again is probed less and less often.

use std::collections::BTreeMap;
use std::time::Duration;

use super::set_record::Member;
use crate::fleet::partition::ShardNumber;

/// Time from taking a shard out to the first probe of its device; doubled with each failure.
const WAIT_MIN: Duration = Duration::from_secs(2);
const WAIT_MAX: Duration = Duration::from_secs(600);
/// After this time in service a shard that has come back counts as good again.
const RELAPSE: Duration = Duration::from_secs(3600);
/// Devices of shards that were taken out, and may come back.
#[derive(Default)]
pub(super) struct AwayDevices {
    pub(super) devices: Vec<Away>,
    pub(super) relapses: BTreeMap<usize, Relapses>,
}

/// A device that is away.
pub(super) struct Away {
    pub(super) shard: ShardNumber,
    pub(super) member: Member,
    /// When it is probed next.
    pub(super) ask_at: Duration,
}

/// How often a shard was taken out recently.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Relapses {
    count: u32,
    last: Duration,
}

impl Relapses {
    /// Records that it was taken out. Returns the time until the first probe.
    pub(super) fn note(&mut self, now: Duration) -> Duration {
        if now.saturating_sub(self.last) > RELAPSE.max(self.wait() * 2) {
            self.count = 0;
        }
        let wait = self.wait();
        (self.count, self.last) = (self.count.saturating_add(1), now);
        wait
    }

    fn wait(&self) -> Duration {
        WAIT_MIN.saturating_mul(2_u32.saturating_pow(self.count.min(16))).min(WAIT_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_fails_again_is_left_alone_for_longer() {
        let mut relapses = Relapses::default();
        let second = Duration::from_secs;
        assert_eq!(relapses.note(second(1000)), second(2));
        assert_eq!(relapses.note(second(1010)), second(4));
        assert_eq!(relapses.note(second(1030)), second(8));
        assert_eq!(relapses.note(second(9000)), second(2), "it was well for long");
        for _ in 0..20 {
            relapses.note(second(9000));
        }
        assert_eq!(relapses.note(second(9000)), WAIT_MAX);
    }
}
