//! Probes the devices of shards that were taken out. A device that answers well becomes a shard again, which starts
//! empty, or a spare if another device has its place.

use std::sync::atomic::Ordering;
use std::time::Duration;

use larder_device::{BufferPool, Io};

use super::awake::with_timeout;
use super::detect::{SLOW, SLOWER_THAN_PEERS};
use super::live::LiveSet;
use super::set_record::{Member, write};
use crate::base::error::Error;
use crate::fleet::partition::{Role, ShardNumber, ShardState};
use crate::observe::events;

/// Number of probe reads that must complete.
const READS: u64 = 8;
/// Timeout of each probe read.
const READ_WAIT: Duration = Duration::from_secs(1);
/// Threshold for slow probe reads if no peers are reading: the peers may be that slow too.
const SLOW_ALONE: Duration = Duration::from_millis(100);

impl LiveSet {
    /// Probes a device that is away and due. Returns whether it came back.
    pub(super) async fn ask_away(&self) -> bool {
        let now = self.clock.monotonic();
        let Some((shard, member)) = self.away.due(now) else { return false };
        let asked = self.answers_well(&member).await;
        // Check that an operator has not decided otherwise during the probe.
        if !self.away.take(shard, member.uuid) {
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
                    self.away.add(shard, member, self.clock.monotonic());
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
            match with_timeout(&*self.clock, READ_WAIT, read).await {
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
        let mut set_record = self.set_record.lock().await;
        set_record.check_open()?;
        let seat = set_record.seat(shard).copied();
        let is_its = seat
            .filter(|seat| seat.standing.state == ShardState::Failed && seat.device == member.uuid);
        member.health.vitals().begin_anew();
        let Some(seat) = is_its else {
            let mut member = member;
            member.parts.clear();
            let now = (set_record.epoch, set_record.seats.clone());
            let table = set_record.table(Role::Spare, now, &member);
            write(&member, &table).await?;
            set_record.spares.push(member);
            events::shard_is_spare(shard.index());
            return Ok(());
        };
        drop(set_record);
        self.bring(shard, seat.standing.weight, member).await?;
        self.counts.returned.fetch_add(1, Ordering::Relaxed);
        events::shard_back(shard.index());
        Ok(())
    }
}
