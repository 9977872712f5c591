//! Devices of shards that were taken out because they seemed to have failed. They are probed from time to time. A
//! device that answers well becomes a shard again, which starts empty, or a spare if another device has its place. A
//! device that fails again and again is probed less and less often.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use larder_device::{BufferPool, Io};

use super::awake::within;
use super::book::{Member, write};
use super::detect::{SLOW, SLOWER_THAN_PEERS};
use super::live::LiveSet;
use crate::error::Error;
use crate::events;
use crate::partition::{Role, ShardNumber, ShardState};

/// Time from taking a shard out to the first probe of its device; doubled with each failure.
const WAIT_MIN: Duration = Duration::from_secs(2);
const WAIT_MAX: Duration = Duration::from_secs(600);
/// After this time in service a shard that has come back counts as good again.
const RELAPSE: Duration = Duration::from_secs(3600);
/// Number of probe reads that must complete.
const READS: u64 = 8;
/// Timeout of each probe read.
const READ_WAIT: Duration = Duration::from_secs(1);
/// Threshold for slow probe reads if no peers are reading: the peers may be that slow too.
const SLOW_ALONE: Duration = Duration::from_millis(100);

/// A device that is away.
pub(super) struct Away {
    shard: ShardNumber,
    member: Member,
    ask_at: Duration,
}

/// How often a shard was taken out recently.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Relapses {
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

impl LiveSet {
    /// Registers the device of a shard that was taken out automatically.
    pub(super) fn is_away(&self, shard: ShardNumber, member: Member) {
        let mut away = self.away();
        let now = self.clock.monotonic();
        let ask_at = now.saturating_add(away.relapses.entry(shard.index()).or_default().note(now));
        away.devices.push(Away { shard, member, ask_at });
    }

    /// Stops probing this device, because an operator has given it to the set.
    pub(super) fn forget_away(&self, name: &str) {
        self.away().devices.retain(|it| it.member.device.info().name != name);
    }

    /// Stops probing the former device of this shard, because an operator has decided about the shard.
    pub(super) fn forget_away_of(&self, shard: ShardNumber) {
        self.away().devices.retain(|it| it.shard != shard);
    }

    /// Probes a device that is away and due. Returns whether it came back.
    pub(super) async fn ask_away(&self) -> bool {
        let now = self.clock.monotonic();
        // Not while a cache that is still closing may write to it.
        let is_due = |it: &&Away| it.ask_at <= now && Arc::strong_count(&it.member.claim) == 1;
        let due = self.away().devices.iter().find(is_due).map(|it| (it.shard, it.member.clone()));
        let Some((shard, member)) = due else { return false };
        let asked = self.answers_well(&member).await;
        // Check that an operator has not decided otherwise during the probe.
        let is_it = |it: &Away| (it.shard, it.member.uuid) == (shard, member.uuid);
        let waiting = self.away().devices.extract_if(.., |it| is_it(it)).next();
        if waiting.is_none() {
            return false;
        }
        let back = match asked {
            Ok(()) => self.take_back(shard, member.clone()).await.map_err(|it| it.to_string()),
            Err(why) => Err(why),
        };
        match back {
            Ok(()) => true,
            Err(why) => {
                events::shard_stays_away(shard.index(), &why);
                if !self.is_closed() {
                    self.is_away(shard, member);
                }
                false
            }
        }
    }

    /// Reads at places spread over the device.
    async fn answers_well(&self, member: &Member) -> Result<(), String> {
        let info = member.device.info();
        let bytes = info.block_bytes.max(4096);
        let pool = BufferPool::new();
        let mut took = Vec::new();
        for number in 0..READS {
            let offset = info.capacity_bytes / READS * number / u64::from(bytes) * u64::from(bytes);
            let begun = self.clock.monotonic();
            let buffer = pool.take(bytes as usize);
            let read = member.device.submit(Io::Read { offset, buffer });
            match within(&*self.clock, READ_WAIT, read).await {
                None => return Err(format!("a read takes over {READ_WAIT:?}")),
                Some(Err(error)) => return Err(error.to_string()),
                Some(Ok(_)) => took.push(self.clock.monotonic().saturating_sub(begun)),
            }
        }
        took.sort_unstable();
        let median = took[took.len() / 2];
        let slow = self
            .peers_read_in()
            .map_or(SLOW_ALONE, |peers| SLOW.max(peers.saturating_mul(SLOWER_THAN_PEERS)));
        match median > slow {
            true => Err(format!("half of its reads take over {median:?}")),
            false => Ok(()),
        }
    }

    /// Makes it serve as its old shard again, or as a spare if another device has that place.
    async fn take_back(&self, shard: ShardNumber, member: Member) -> Result<(), Error> {
        let _bringing = self.bringing.lock().await;
        let mut book = self.book.lock().await;
        book.check_open()?;
        let seat = book.seat(shard).copied();
        let is_its = seat
            .filter(|seat| seat.standing.state == ShardState::Failed && seat.device == member.uuid);
        member.pulse.vitals().begin_anew();
        let Some(seat) = is_its else {
            let mut member = member;
            member.parts.clear();
            let now = (book.epoch, book.seats.clone());
            let table = book.table(Role::Spare, now, &member);
            write(&member, &table).await?;
            book.spares.push(member);
            events::shard_is_spare(shard.index());
            return Ok(());
        };
        drop(book);
        self.bring(shard, seat.standing.weight, member).await?;
        self.counts.returned.fetch_add(1, Ordering::Relaxed);
        events::shard_back(shard.index());
        Ok(())
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
