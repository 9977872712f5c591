//! The devices of shards that were taken out because they seemed to have failed, and how often each shard was taken
//! out: a device that fails again and again is probed less and less often.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use larder_device::label::Uuid;

use super::set_record::Member;
use crate::fleet::partition::ShardNumber;

/// Time from taking a shard out to the first probe of its device; doubled with each failure.
const WAIT_MIN: Duration = Duration::from_secs(2);
const WAIT_MAX: Duration = Duration::from_secs(600);
/// After this time in service a shard that has come back counts as good again.
const RELAPSE: Duration = Duration::from_secs(3600);

/// Devices of shards that were taken out, and may come back.
#[derive(Default)]
pub(super) struct AwayDevices(Mutex<AwayState>);

#[derive(Default)]
struct AwayState {
    devices: Vec<Away>,
    relapses: BTreeMap<usize, Relapses>,
}

/// A device that is away.
struct Away {
    shard: ShardNumber,
    member: Member,
    /// When it is probed next.
    ask_at: Duration,
}

impl AwayDevices {
    /// Registers the device of a shard that was taken out automatically.
    pub(super) fn add(&self, shard: ShardNumber, member: Member, now: Duration) {
        let mut state = self.lock();
        let wait = state.relapses.entry(shard.index()).or_default().note(now);
        state.devices.push(Away { shard, member, ask_at: now.saturating_add(wait) });
    }

    /// Stops probing this device, because an operator has given it to the set.
    pub(super) fn forget(&self, name: &str) {
        self.lock().devices.retain(|it| it.member.device.info().name != name);
    }

    /// Stops probing the former device of this shard, because an operator has decided about the shard.
    pub(super) fn forget_of(&self, shard: ShardNumber) {
        self.lock().devices.retain(|it| it.shard != shard);
    }

    /// Forgets all devices.
    pub(super) fn clear(&self) {
        self.lock().devices.clear();
    }

    /// A device that is to be probed now.
    pub(super) fn due(&self, now: Duration) -> Option<(ShardNumber, Member)> {
        // Not while a cache that is still closing may write to it.
        let is_due = |it: &&Away| it.ask_at <= now && Arc::strong_count(&it.member.claim) == 1;
        self.lock().devices.iter().find(is_due).map(|it| (it.shard, it.member.clone()))
    }

    /// Takes a device that was probed out of the list. `false` if it is not there any more.
    pub(super) fn take(&self, shard: ShardNumber, device: Uuid) -> bool {
        let is_it = |it: &mut Away| (it.shard, it.member.uuid) == (shard, device);
        self.lock().devices.extract_if(.., is_it).next().is_some()
    }

    fn lock(&self) -> MutexGuard<'_, AwayState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often a shard was taken out recently.
#[derive(Debug, Clone, Copy, Default)]
struct Relapses {
    count: u32,
    last: Duration,
}

impl Relapses {
    /// Records that it was taken out. Returns the time until the first probe.
    fn note(&mut self, now: Duration) -> Duration {
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
