//! Adds and removes shards while their set is open: see [`live`](super::live) for the rules.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use larder_device::label::Uuid;
use larder_device::{Claim, Device, ObservedDevice};

use super::awake::with_timeout;
use super::health::DeviceHealth;
use super::live::{LiveSet, ShardNow};
use super::set_record::{Member, SetRecord, out, write};
use super::tenancy::ShardDevice;
use crate::base::error::{Error, ErrorKind};
use crate::base::side_by_side::together;
use crate::cache::Larder;
use crate::fleet::partition::{
    self, PartitionTable, Role, SHARDS_MAX, Seat, ShardNumber, ShardStanding, ShardState,
};
use crate::observe::events;

/// A device that takes longer to write the state of the set has failed.
const WRITE_WAIT: Duration = Duration::from_secs(2);
/// How long a change of state waits for calls inside the gate. After that they continue and it tries again, since one
/// of them may be waiting for a shard that is about to be found failed.
const DRAIN_WAIT: Duration = Duration::from_millis(250);

impl LiveSet {
    /// Takes a failed shard out: others have its keys when this returns. Does nothing if it is not live.
    ///
    /// # Errors
    /// If it is the last live shard.
    pub(crate) async fn fail(&self, shard: ShardNumber, why: &str) -> Result<(), Error> {
        self.take_out(shard, (ShardState::Failed, false), why).await
    }

    /// The same, for a shard that was detected as failed: it comes back when its device answers again.
    ///
    /// # Errors
    /// As [`LiveSet::fail`].
    pub(super) async fn fail_for_now(&self, shard: ShardNumber, why: &str) -> Result<(), Error> {
        self.take_out(shard, (ShardState::Failed, true), why).await
    }

    /// Takes a shard out for good.
    ///
    /// # Errors
    /// If it is the last live shard.
    pub(crate) async fn retire(&self, shard: ShardNumber) -> Result<(), Error> {
        self.take_out(shard, (ShardState::Retired, false), "it was retired").await
    }

    async fn take_out(
        &self,
        shard: ShardNumber,
        (to, for_now): (ShardState, bool),
        why: &str,
    ) -> Result<(), Error> {
        let mut set_record = self.set_record.lock().await;
        set_record.check_open()?;
        if !for_now {
            self.away.forget_of(shard);
        }
        let Some(seat) = set_record.seat(shard).copied() else {
            let message = format!("there is no {shard}; there are {}", set_record.seats.len());
            return Err(Error::new(ErrorKind::InvalidInput, message));
        };
        let was = seat.standing.state;
        if was == ShardState::Retired || (was == to && !was.is_live()) {
            return Ok(());
        }
        if was.is_live() && set_record.live() == 1 {
            let message = format!("{shard} is the last one that is live: add another one first");
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        let seats = set_record.with(shard, out(&seat, to, set_record.epoch + 1));
        let mut now = self.state().shards.clone();
        now[shard.index()] = ShardNow::away(why);
        let member = set_record.members[shard.index()].clone().filter(|_| for_now);
        self.commit(&mut set_record, seats, now).await?;
        if let Some(member) = member {
            self.away.add(shard, member, self.clock.monotonic());
        }
        if was.is_live() && to == ShardState::Failed {
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
            events::shard_down(shard.index(), why);
        }
        Ok(())
    }

    /// Rule 3: makes all live shards write the new state, and then publishes it. Shards that cannot write are taken
    /// out too.
    ///
    /// # Errors
    /// If no shard that would be live can write it; then nothing changes.
    async fn commit(
        &self,
        set_record: &mut SetRecord,
        mut seats: Vec<Seat>,
        mut now: Vec<ShardNow>,
    ) -> Result<(), Error> {
        let epoch = set_record.epoch + 1;
        let mut lost_members = Vec::new();
        loop {
            let mut tables = Vec::new();
            for shard in ShardNumber::all(seats.len()) {
                let is_live = seats[shard.index()].standing.state.is_live();
                let member = set_record.members.get_mut(shard.index()).filter(|_| is_live);
                let Some(member) = member.and_then(Option::take) else { continue };
                let table = set_record.table(Role::Shard(shard), (epoch, seats.clone()), &member);
                set_record.members[shard.index()] = Some(member);
                tables.push((shard, table));
            }
            let members = &set_record.members;
            let writing = tables.iter().map(async |(shard, table)| {
                let member = members[shard.index()].as_ref().expect("it has a table");
                let written = with_timeout(&*self.clock, WRITE_WAIT, write(member, table)).await;
                let late = || Error::new(ErrorKind::Device, "cannot be written in time");
                (*shard, written.unwrap_or_else(|| Err(late())))
            });
            let written = together(writing).await;
            let lost: Vec<(ShardNumber, Error)> =
                written.into_iter().filter_map(|(shard, it)| Some((shard, it.err()?))).collect();
            if lost.is_empty() {
                break;
            }
            if lost.len() == tables.len() {
                set_record.moved.clone_from(&self.state().moved);
                let (shard, error) = lost.into_iter().next().expect("one was lost");
                return Err(error.of(&shard.to_string()));
            }
            for (shard, error) in lost {
                let seat = &mut seats[shard.index()];
                *seat = out(seat, ShardState::Failed, epoch);
                now[shard.index()] = ShardNow::away(&error.to_string());
                self.counts.failed.fetch_add(1, Ordering::Relaxed);
                events::shard_down(shard.index(), &error.to_string());
                lost_members
                    .extend(set_record.members[shard.index()].clone().map(|it| (shard, it)));
            }
        }
        (set_record.seats, set_record.epoch) = (seats, epoch);
        for (seat, member) in set_record.seats.iter().zip(&mut set_record.members) {
            if !seat.standing.state.is_live() {
                *member = None;
            }
        }
        self.publish(set_record, now);
        for (shard, member) in lost_members {
            self.away.add(shard, member, self.clock.monotonic());
        }
        Ok(())
    }

    /// Rule 1: as [`LiveSet::commit`], when all calls that use the old state have ended. `change` computes the new
    /// state, or returns `None` if the change is obsolete.
    pub(super) async fn commit_alone(
        &self,
        mut change: impl FnMut(&mut SetRecord) -> Option<(Vec<Seat>, Vec<ShardNow>)>,
    ) -> Result<(), Error> {
        loop {
            let mut set_record = self.set_record.lock().await;
            set_record.check_open()?;
            let held = with_timeout(&*self.clock, DRAIN_WAIT, self.gate.hold()).await;
            if let Some(held) = held {
                let held = held?;
                let Some((seats, now)) = change(&mut set_record) else { return Ok(()) };
                let committed = self.commit(&mut set_record, seats, now).await;
                drop(held);
                return committed;
            }
            drop(set_record);
            self.clock.sleep_until(self.clock.monotonic().saturating_add(DRAIN_WAIT)).await;
        }
    }

    /// Marks a shard as healthy, once it has got its values.
    pub(super) async fn refilled(&self, shard: ShardNumber, device: Uuid) -> Result<(), Error> {
        self.commit_alone(|set_record| {
            let seat = *set_record.seat(shard)?;
            if seat.standing.state != ShardState::Refilling || seat.device != device {
                return None;
            }
            let standing = ShardStanding { state: ShardState::Healthy, ..seat.standing };
            let seats = set_record.with(shard, Seat { standing, ..seat });
            Some((seats, self.state().shards.clone()))
        })
        .await
    }

    /// Adds a shard. It has its share of the keys when this returns, and gets their values from the others.
    pub(crate) async fn add(&self, device: Arc<dyn Device>) -> Result<ShardNumber, Error> {
        let _bringing = self.bringing.lock().await;
        let mut set_record = self.set_record.lock().await;
        let device = self.claimed(device, &mut set_record).await?;
        let weight = weight_of(&*device.device);
        // Reuse the number of a retired shard with the same weight: numbers last longer, and the same keys move
        // again.
        let is_free = |seat: &Seat| {
            seat.standing.state == ShardState::Retired && seat.standing.weight == weight
        };
        let number = set_record.seats.iter().position(is_free).unwrap_or(set_record.seats.len());
        let Some(shard) = ShardNumber::new(number) else {
            return Err(Error::config(format!(
                "a set has at most {SHARDS_MAX} shards, those that were retired among them"
            )));
        };
        drop(set_record);
        self.bring(shard, weight, device).await?;
        Ok(shard)
    }

    /// Makes a device serve as a failed shard, or as one that it replaces. The shard keeps its share of the keys.
    pub(crate) async fn replace(
        &self,
        shard: ShardNumber,
        device: Arc<dyn Device>,
    ) -> Result<(), Error> {
        let _bringing = self.bringing.lock().await;
        let mut set_record = self.set_record.lock().await;
        let Some(seat) =
            set_record.seat(shard).filter(|it| it.standing.state != ShardState::Retired)
        else {
            let message = format!("there is no {shard} any more, or there never was");
            return Err(Error::new(ErrorKind::InvalidInput, message));
        };
        let weight = seat.standing.weight;
        let device = self.claimed(device, &mut set_record).await?;
        drop(set_record);
        self.step_in(shard, weight, device).await
    }

    /// Makes a device of the set serve as this shard from now on.
    async fn step_in(&self, shard: ShardNumber, weight: u32, device: Member) -> Result<(), Error> {
        self.fail(shard, "it is replaced").await?;
        self.bring(shard, weight, device).await
    }

    /// Adds a spare device, which takes the place of a shard that fails.
    pub(crate) async fn spare(&self, device: Arc<dyn Device>) -> Result<(), Error> {
        let _bringing = self.bringing.lock().await;
        let mut set_record = self.set_record.lock().await;
        set_record.check_open()?;
        let mut member = self.claimed(device, &mut set_record).await?;
        // It may have been a shard: its old content is not used any more.
        member.parts.clear();
        let now = (set_record.epoch, set_record.seats.clone());
        let table = set_record.table(Role::Spare, now, &member);
        write(&member, &table).await?;
        set_record.spares.push(member);
        Ok(())
    }

    /// Puts a spare in the place of a failed shard. Returns whether it did.
    pub(super) async fn use_spares(&self) -> Result<bool, Error> {
        let _bringing = self.bringing.lock().await;
        let mut set_record = self.set_record.lock().await;
        let failed = ShardNumber::all(set_record.seats.len())
            .find(|shard| set_record.seats[shard.index()].standing.state == ShardState::Failed);
        let Some(shard) = failed else { return Ok(false) };
        let Some(spare) = set_record.spares.pop() else { return Ok(false) };
        let weight = set_record.seats[shard.index()].standing.weight;
        drop(set_record);
        self.bring(shard, weight, spare).await?;
        Ok(true)
    }

    /// Claims a device that is free, or that belongs to this set as a spare or as a shard that is away.
    async fn claimed(
        &self,
        device: Arc<dyn Device>,
        set_record: &mut SetRecord,
    ) -> Result<Member, Error> {
        let name = device.info().name.clone();
        self.away.forget(&name);
        let claim = Arc::new(Claim::take(&device)?);
        let health = Arc::new(DeviceHealth::new(&self.alarm));
        let observer = Arc::clone(&health) as _;
        let device: Arc<dyn Device> =
            Arc::new(ObservedDevice::new(device, observer, Arc::clone(&self.clock)));
        let found = partition::read(&device, false).await?;
        let is_ours = |table: &PartitionTable| {
            let member = table.membership.as_ref().filter(|member| member.set == set_record.id);
            member.is_some_and(|member| match member.role {
                Role::Spare => true,
                Role::Shard(number) => set_record
                    .seat(number)
                    .is_none_or(|seat| !seat.standing.state.is_live() || seat.device != table.uuid),
            })
        };
        if found.as_ref().is_some_and(|table| !is_ours(table)) {
            let message = format!(
                "{name} is divided among tenants, or a shard of another set; erase its first 128 KiB to use it \
                 here"
            );
            return Err(Error::new(ErrorKind::Foreign, message));
        }
        set_record.generations.note(found.as_ref().map_or(0, |table| table.generation));
        let uuid = found.as_ref().map_or_else(Uuid::draw, |table| table.uuid);
        let parts = found.map_or(Vec::new(), |table| table.parts);
        Ok(Member { device, claim, health, uuid, parts })
    }

    /// Makes a device serve as a shard that is new or not live. It starts empty.
    pub(super) async fn bring(
        &self,
        shard: ShardNumber,
        weight: u32,
        mut member: Member,
    ) -> Result<(), Error> {
        let whose = |error: Error| error.of(&shard.to_string());
        let mut division = self.tenancy.divide(member.device.info(), None).map_err(whose)?;
        division.given_up = std::mem::take(&mut member.parts);
        partition::erase(&member.device, &division).await.map_err(whose)?;
        member.parts.clone_from(&division.parts);
        // Write a table that says that its content is not valid, before there are caches on it.
        let mut set_record = self.set_record.lock().await;
        set_record.check_open()?;
        set_record.epoch += 1;
        let epoch = set_record.epoch;
        let failed = ShardStanding { state: ShardState::Failed, weight, since: epoch };
        let seats = set_record.with(shard, Seat { device: member.uuid, standing: failed });
        let table = set_record.table(Role::Shard(shard), (epoch, seats), &member);
        drop(set_record);
        write(&member, &table).await.map_err(whose)?;
        let (device, claim, parts) = (&member.device, &member.claim, &member.parts[..]);
        let on = ShardDevice { device, claim, parts };
        let caches = self.tenancy.open(shard, on).await.map_err(whose)?;
        let shard_now = ShardNow::on(caches, &member);
        let mut member = Some(member);
        let committed = self.commit_alone(|set_record| {
            let member = member.take()?;
            let since = set_record.seat(shard).map_or(0, |seat| seat.standing.since);
            let standing = ShardStanding { state: ShardState::Refilling, weight, since };
            let seats = set_record.with(shard, Seat { device: member.uuid, standing });
            let mut now = self.state().shards.clone();
            now.resize_with(seats.len(), ShardNow::default);
            set_record.members.resize_with(seats.len(), || None);
            set_record.members[shard.index()] = Some(member);
            now[shard.index()] = shard_now.clone();
            Some((seats, now))
        });
        let committed = committed.await.map_err(whose);
        if committed.is_err() {
            let caches = shard_now.caches.iter().flat_map(|caches| caches.iter());
            together(caches.map(|cache| Larder::abandon(cache))).await;
        }
        self.alarm.notify(crate::base::signal::ALL);
        committed
    }
}

/// The weight of a device, which determines its share of the keys, from its capacity.
pub(super) fn weight_of(device: &dyn Device) -> u32 {
    u32::try_from(device.info().capacity_bytes >> 20).unwrap_or(u32::MAX).max(1)
}
